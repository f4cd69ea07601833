//! How long an old secret or key stays good beside a new one, as it is typed.

use daftar_domain::config::TOKEN_LIFETIME_S_MAX;
use daftar_service::client::OVERLAP_S_MAX;

/// Reads a number and its unit, `s`, `m`, `h` or `d`, as the seconds that an old secret stays good.
///
/// # Errors
/// One sentence that says what would be right.
pub fn parse(text: &str) -> Result<u32, String> {
    parse_up_to(text, OVERLAP_S_MAX)
}

/// Reads the same for a key that signs tokens.
///
/// # Errors
/// As [`parse`].
pub fn parse_of_key(text: &str) -> Result<u32, String> {
    parse_up_to(text, u32::try_from(TOKEN_LIFETIME_S_MAX).unwrap_or(u32::MAX))
}

fn parse_up_to(text: &str, seconds_max: u32) -> Result<u32, String> {
    let wrong = || {
        let days = seconds_max / 86_400;
        format!("it is a number with its unit, such as `24h`, `90m`, `3600s` or `7d`, and at most `{days}d`")
    };
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit_s: u32 = match text.strip_prefix(digits) {
        Some("s") => 1,
        Some("m") => 60,
        Some("h") => 3_600,
        Some("d") => 86_400,
        Some(_) | None => return Err(wrong()),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let seconds = digits.parse::<u32>().ok().and_then(|number| number.checked_mul(unit_s));
    seconds.filter(|seconds| *seconds <= seconds_max).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_number_with_its_unit() {
        for (text, seconds) in [("24h", 86_400), ("90m", 5_400), ("0s", 0), ("30d", 2_592_000), ("720h", 2_592_000)] {
            assert_eq!(parse(text), Ok(seconds), "{text}");
        }
        for wrong in ["", "24", "h", "-1h", "+1h", "1 h", "1w", "31d", "721h", "1.5h", "99999999999s", "1hh"] {
            assert!(parse(wrong).unwrap_err().contains("24h"), "{wrong}");
        }
        assert_eq!(parse_of_key("31d"), Ok(2_678_400));
        assert!(parse_of_key("32d").unwrap_err().contains("at most `31d`"));
    }
}
