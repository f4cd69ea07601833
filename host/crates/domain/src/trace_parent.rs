//! The `traceparent` header of W3C Trace Context.
//!
//! **Invariant:** every value is valid by the recommendation, version 00. `tracestate` is ignored: untrusted text would
//! be forwarded.

/// The trace and parent span of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// Trace ID; not all zeros.
    pub trace_id: [u8; 16],
    /// ID of the caller's span; not all zeros.
    pub span_id: [u8; 8],
    /// True if the caller samples this trace.
    pub is_sampled: bool,
}

impl TraceParent {
    /// Parses the header. A later version may append more parts to the four of version 00; version ff is invalid.
    #[must_use]
    pub fn parse(header: &[u8]) -> Option<Self> {
        let (known, more) = header.split_at_checked(55)?;
        let [version, trace_id, span_id, flags] = parts(known)?;
        match (version, more) {
            (0, []) => {}
            (1..=0xfe, [] | [b'-', ..]) => {}
            _ => return None,
        }
        let (span_id, is_sampled) = (u64::try_from(span_id).ok()?, flags & 1 == 1);
        let is_somewhere = trace_id != 0 && span_id != 0;
        is_somewhere.then_some(Self { trace_id: trace_id.to_be_bytes(), span_id: span_id.to_be_bytes(), is_sampled })
    }
}

/// Parses the four parts of `00-<32 digits>-<16 digits>-<2 digits>`, with lower-case digits.
fn parts(header: &[u8]) -> Option<[u128; 4]> {
    let text = std::str::from_utf8(header).ok()?;
    let mut parts = text.split('-');
    let four = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
    let is_shaped = parts.next().is_none() && four.map(str::len) == [2, 32, 16, 2];
    let is_plain = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'));
    let [version, trace_id, span_id, flags] = four.map(|digits| u128::from_str_radix(digits, 16).ok());
    Some([version?, trace_id?, span_id?, flags?]).filter(|_| is_shaped && is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn parse(text: &str) -> Option<TraceParent> {
        TraceParent::parse(text.as_bytes())
    }

    #[test]
    fn the_form_of_the_recommendation_is_parsed() {
        let read = parse(&format!("00-{TRACE}-{SPAN}-01")).unwrap();
        assert_eq!(read.trace_id[..3], [0x4b, 0xf9, 0x2f]);
        assert_eq!(read.span_id, [0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
        assert!(read.is_sampled);
        assert!(!parse(&format!("00-{TRACE}-{SPAN}-00")).unwrap().is_sampled);
        assert!(parse(&format!("00-{TRACE}-{SPAN}-03")).unwrap().is_sampled, "other flags are ignored");
        assert!(parse(&format!("cc-{TRACE}-{SPAN}-01-what-comes-later")).is_some());
    }

    #[test]
    fn anything_else_is_invalid() {
        let zeros = "0".repeat(32);
        for text in [
            String::new(),
            "00".to_owned(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{TRACE}-{SPAN}-011"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("cc-{TRACE}-{SPAN}-01more"),
            format!("00-{zeros}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", &zeros[..16]),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-{SPAN}-zz"),
            format!("00_{TRACE}_{SPAN}_01"),
            format!("00-{SPAN}-{TRACE}-01"),
            "ä".repeat(28),
        ] {
            assert_eq!(parse(&text), None, "{text}");
        }
    }
}
