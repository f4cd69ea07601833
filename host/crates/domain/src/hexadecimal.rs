//! Bytes as hexadecimal digits, two for each byte.

/// Returns bytes in lower-case digits.
pub fn encode<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or_default();
    bytes.into_iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Returns the bytes of digits in either case.
#[must_use]
pub fn decode(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let digit = |digit: &u8| char::from(*digit).to_digit(16);
    let byte = |[first, second]: &[u8; 2]| u8::try_from(digit(first)? << 4 | digit(second)?).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_two_digits() {
        let all: Vec<u8> = (0..=255).collect();
        let digits: String = all.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(encode(&all), digits);
        assert_eq!((decode(&digits), decode(&digits.to_uppercase())), (Some(all.clone()), Some(all)));
        assert!(["0", "000", "+1", "0g", "ä"].iter().all(|wrong| decode(wrong).is_none()));
    }
}
