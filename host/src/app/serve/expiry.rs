//! The period of validity of a certificate (RFC 5280, section 4.1.2.5).

use jiff::Timestamp;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::time::Time;

/// When a certificate expires; `None` where the bytes are no certificate. Its other fields are the business of those that check it.
pub(super) fn expiry(certificate: &[u8]) -> Option<Timestamp> {
    validity(certificate).map(|(_, end)| end)
}

/// From when and until when a certificate is valid; `None` where the bytes are no certificate.
pub(super) fn validity(certificate: &[u8]) -> Option<(Timestamp, Timestamp)> {
    let validity = Certificate::from_der(certificate).ok()?.tbs_certificate.validity;
    Some((timestamp(validity.not_before), timestamp(validity.not_after)))
}

fn timestamp(time: Time) -> Timestamp {
    let second = i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
    // The last second of 9999 means that there is no end, and is later than the last timestamp.
    Timestamp::from_second(second).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// A certificate from 2026-01-02 on, until the last second of a day.
    fn certificate(year: i32, month: u8, day: u8) -> Vec<u8> {
        let pair = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(2026, 1, 2);
        parameters.not_after = rcgen::date_time_ymd(year, month, day) + Duration::from_secs(86_399);
        parameters.self_signed(&pair).unwrap().der().to_vec()
    }

    #[test]
    fn reads_both_forms_of_time() {
        let end = |year, month, day| expiry(&certificate(year, month, day)).map(|at| at.to_string());
        assert_eq!(end(2026, 3, 1).as_deref(), Some("2026-03-01T23:59:59Z"));
        assert_eq!(end(2049, 12, 31).as_deref(), Some("2049-12-31T23:59:59Z"), "the last of two digits");
        assert_eq!(end(2050, 1, 1).as_deref(), Some("2050-01-01T23:59:59Z"), "the first of four");
        assert_eq!(end(9999, 12, 31).as_deref(), Some(Timestamp::MAX.to_string().as_str()), "no end");
    }

    #[test]
    fn a_time_that_is_none_is_no_validity() {
        let sound = certificate(2031, 7, 9);
        let begin = b"\x17\x0d260102000000Z";
        let at = sound.windows(begin.len()).position(|part| part == begin).unwrap();
        let with = |time: &[u8; 15]| {
            let mut certificate = sound.clone();
            certificate[at..at + time.len()].copy_from_slice(time);
            validity(&certificate).map(|(begin, _)| begin.to_string())
        };
        assert_eq!(with(begin).as_deref(), Some("2026-01-02T00:00:00Z"));
        assert_eq!(with(b"\x17\x0d700101000001Z").as_deref(), Some("1970-01-01T00:00:01Z"), "the last century");
        for wrong in [
            b"\x17\x0d261302000000Z",
            b"\x17\x0d260230000000Z",
            b"\x17\x0d260102240000Z",
            b"\x17\x0d+60102000000Z",
            b"\x17\x0d26010200000\xd9\xa1",
            b"\x17\x0d2601020000000",
            b"\x18\x0d260102000000Z",
            b"\x04\x0d260102000000Z",
        ] {
            assert_eq!(with(wrong), None, "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn finds_the_end_of_validity_in_a_certificate() {
        let certificate = certificate(2031, 7, 9);
        assert_eq!(expiry(&certificate).map(|at| at.to_string()).as_deref(), Some("2031-07-09T23:59:59Z"));
        assert_eq!(validity(&certificate).unwrap().0.to_string(), "2026-01-02T00:00:00Z");
        for length in 0..certificate.len() {
            assert_eq!(expiry(&certificate[..length]), None, "a certificate that was cut");
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
