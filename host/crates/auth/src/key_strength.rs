//! Refuses keys that cannot have come from a good source of randomness, and says why.
//!
//! Nobody can tell random bytes by looking at them; these are the shapes that keys have which people made: too short, one byte or a
//! block repeated, bytes that count, typed text.
//!
//! **Invariant:** a reason tells lengths and counts, never a byte of the key.

use std::collections::BTreeSet;

use super::entropy::SECRET_BYTES;

/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 1024;
/// The bits that a key needs.
const BITS_MIN: usize = SECRET_BYTES * 8;
/// Fewer different bytes than this are a pattern: 32 random bytes have as few less than once in 10^30 draws.
const DISTINCT_BYTES_MIN: usize = 8;

/// Checks a key.
///
/// # Errors
/// Why it is too weak, or too long.
pub(super) fn check(secret: &[u8]) -> Result<(), String> {
    if secret.len() < SECRET_BYTES {
        return Err(format!("its secret has {} bits, at least {BITS_MIN} are needed", secret.len() * 8));
    }
    if secret.len() > KEY_BYTES_MAX {
        return Err(format!("its secret is longer than {KEY_BYTES_MAX} bytes"));
    }
    let period = period(secret);
    if period == 1 {
        return Err("its secret is one byte repeated, not random bytes".to_owned());
    }
    if period < SECRET_BYTES {
        return Err(format!("its secret is the same {period} bytes repeated, not random bytes"));
    }
    if counts(secret) {
        return Err("the bytes of its secret go up or down in even steps, they are not random".to_owned());
    }
    let distinct = secret.iter().collect::<BTreeSet<_>>().len();
    if distinct < DISTINCT_BYTES_MIN {
        return Err(format!("its secret is a pattern of {distinct} different bytes, not random bytes"));
    }
    match bits_of_text(secret) {
        Some(bits) if bits < BITS_MIN => Err(format!(
            "its secret is text of {} characters, which has at most {bits} bits, and {BITS_MIN} are needed: use random bytes",
            secret.len()
        )),
        Some(_) | None => Ok(()),
    }
}

/// The length of the shortest block that the bytes are repetitions of, the last perhaps cut; all of them where there is none. A block
/// stands there twice at least: that a key ends as it begins, for a byte or two, is nothing but chance.
fn period(secret: &[u8]) -> usize {
    let repeats = |length: &usize| secret.iter().zip(secret.iter().skip(*length)).all(|(one, later)| one == later);
    (1..=secret.len() / 2).find(repeats).unwrap_or(secret.len())
}

/// Whether each byte differs from the one before by the same step.
fn counts(secret: &[u8]) -> bool {
    let mut steps = secret.iter().zip(secret.iter().skip(1)).map(|(one, next)| next.wrapping_sub(*one));
    let first = steps.next();
    steps.all(|step| Some(step) == first)
}

/// How many bits printable text of that length and kind has at most; none where it is no such text.
fn bits_of_text(secret: &[u8]) -> Option<usize> {
    if !secret.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return None;
    }
    let holds = |is_of: fn(&u8) -> bool| secret.iter().any(is_of);
    let is_hexadecimal = |letters: fn(&u8) -> bool| secret.iter().all(|byte| byte.is_ascii_digit() || letters(byte));
    let hexadecimal =
        is_hexadecimal(|byte| matches!(byte, b'a'..=b'f')) || is_hexadecimal(|byte| matches!(byte, b'A'..=b'F'));
    let kinds = [
        (holds(u8::is_ascii_digit), 10_u32),
        (holds(u8::is_ascii_lowercase), 26),
        (holds(u8::is_ascii_uppercase), 26),
        (holds(|byte| !byte.is_ascii_alphanumeric()), 33),
    ];
    let characters: u32 = kinds.iter().filter(|(is_there, _)| *is_there).map(|(_, size)| size).sum();
    let characters = if hexadecimal { characters.min(16) } else { characters };
    // At most a thousand bytes of at most 7 bits each.
    Some((secret.len() as f64 * f64::from(characters).log2()) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy;
    use secrecy::ExposeSecret;

    #[test]
    fn what_the_operating_system_draws_is_strong() {
        for _ in 0..1_000 {
            check(entropy::random_bytes().unwrap().expose_secret()).unwrap();
        }
    }

    #[test]
    fn refuses_what_people_make_with_the_reason() {
        let random = entropy::random_bytes().unwrap().expose_secret().to_vec();
        let half = random[..16].to_vec();
        let twice: Vec<u8> = [random.clone(), random.clone()].concat();
        let two_bytes: Vec<u8> = (0..40).map(|place| if [3, 17, 18, 30].contains(&place) { 9 } else { 200 }).collect();
        for (secret, reason) in [
            (Vec::new(), "has 0 bits, at least 256"),
            (random[..31].to_vec(), "has 248 bits, at least 256"),
            (vec![0; 32], "one byte repeated"),
            (vec![255; 1024], "one byte repeated"),
            ([half.clone(), half].concat(), "the same 16 bytes repeated"),
            (b"abcabcabcabcabcabcabcabcabcabcabca".to_vec(), "the same 3 bytes repeated"),
            ((0..32).collect(), "in even steps"),
            ((0..64).map(|place| 255 - 3 * place).collect(), "in even steps"),
            (two_bytes, "a pattern of 2 different bytes"),
            (b"correct horse battery staple and more".to_vec(), "text of 37 characters, which has at most 217 bits"),
            (b"31415926535897932384626433832795028841".to_vec(), "at most 126 bits"),
            (b"0123456789abcdef0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a697".to_vec(), "at most 252 bits"),
            (vec![7; 1025], "longer than 1024"),
        ] {
            let told = check(&secret).unwrap_err();
            assert!(told.contains(reason), "{told} should say {reason}");
        }
        check(&twice).unwrap();
        // Ends as it begins, as one of 256 random keys does.
        let same_ends = [&random[..31], &random[..1]].concat();
        check(&same_ends).unwrap();
        check(b"0123456789abcdef0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a6978").unwrap();
    }
}
