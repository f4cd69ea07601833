//! From when and until when a certificate holds (RFC 5280, section 4.1.2.5).

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Tags of DER.
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// When a certificate expires; none of what is no certificate. What it is good for is the business of whoever checks it.
pub(super) fn expiry(certificate: &[u8]) -> Option<Timestamp> {
    validity(certificate).map(|(_, end)| end)
}

/// From when and until when a certificate holds; none of what is no certificate.
pub(super) fn validity(certificate: &[u8]) -> Option<(Timestamp, Timestamp)> {
    let certificate = Reader(certificate).expect(SEQUENCE)?;
    let mut fields = Reader(Reader(certificate).expect(SEQUENCE)?);
    if fields.0.first() == Some(&VERSION) {
        fields.next()?;
    }
    // Serial number, algorithm of the signature, issuer.
    for _ in 0..3 {
        fields.next()?;
    }
    let mut validity = Reader(fields.expect(SEQUENCE)?);
    let mut next = || validity.next().and_then(|(tag, text)| time(tag, std::str::from_utf8(text).ok()?));
    Some((next()?, next()?))
}

/// `YYMMDDHHMMSSZ`, of the years 1950 to 2049, or `YYYYMMDDHHMMSSZ`.
fn time(tag: u8, text: &str) -> Option<Timestamp> {
    let digits = text.strip_suffix('Z').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = digits.split_at_checked(2)?;
            let year: i16 = year.parse().ok()?;
            (year + if year < 50 { 2_000 } else { 1_900 }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = digits.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    if rest.len() != 10 {
        return None;
    }
    let part = |at: usize| rest.get(at..at + 2)?.parse::<i8>().ok();
    let at = DateTime::new(year, part(0)?, part(2)?, part(4)?, part(6)?, part(8)?, 0).ok()?;
    // The last day of 9999 says that there is no end, and lies a day beyond the last instant.
    Some(at.to_zoned(TimeZone::UTC).map_or(Timestamp::MAX, |at| at.timestamp()))
}

/// What is left to be read of a DER value.
struct Reader<'d>(&'d [u8]);

impl<'d> Reader<'d> {
    /// The next value: its tag and its content.
    fn next(&mut self) -> Option<(u8, &'d [u8])> {
        let [tag, first, rest @ ..] = self.0 else { return None };
        let (length, rest) = match *first {
            short @ ..=0x7f => (usize::from(short), rest),
            long => {
                // More bytes than these are longer than anything that is read here.
                let count = usize::from(long & 0x7f);
                let (bytes, rest) = rest.split_at_checked(count).filter(|_| (1..=3).contains(&count))?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }

    fn expect(&mut self, tag: u8) -> Option<&'d [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_both_forms_of_time() {
        let read = |tag, text| time(tag, text).map(|at| at.to_string());
        assert_eq!(read(UTC_TIME, "260301120000Z").as_deref(), Some("2026-03-01T12:00:00Z"));
        assert_eq!(read(UTC_TIME, "491231235959Z").as_deref(), Some("2049-12-31T23:59:59Z"));
        assert_eq!(read(UTC_TIME, "500101000000Z").as_deref(), Some("1950-01-01T00:00:00Z"));
        assert_eq!(read(GENERALIZED_TIME, "99991231235959Z").as_deref(), Some(Timestamp::MAX.to_string().as_str()));
        for wrong in ["260301120000", "2603011200Z", "261301120000Z", "26030112000\u{661}Z", "+60301120000Z", ""] {
            assert_eq!(read(UTC_TIME, wrong), None, "{wrong}");
        }
        assert_eq!(read(0x04, "260301120000Z"), None);
    }

    #[test]
    fn finds_the_end_of_validity_in_a_certificate() {
        let pair = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(2026, 1, 2);
        parameters.not_after = rcgen::date_time_ymd(2031, 7, 9);
        let certificate = parameters.self_signed(&pair).unwrap();
        assert_eq!(expiry(certificate.der()).map(|at| at.to_string()).as_deref(), Some("2031-07-09T00:00:00Z"));
        assert_eq!(validity(certificate.der()).unwrap().0.to_string(), "2026-01-02T00:00:00Z");
        for length in 0..certificate.der().len() {
            assert_eq!(expiry(&certificate.der()[..length]), None, "a certificate that was cut");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_fail(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _expiry = expiry(&bytes);
            let _expiry = expiry(&[&[0x30, 0x82, 0x01, 0x00, 0x30, 0x81, 0xc0], bytes.as_slice()].concat());
        }
    }
}
