//! Random bytes for secrets and keys, from the operating system.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::TryRng;
use rand::rngs::SysRng;
use secrecy::zeroize::Zeroize;
use secrecy::{ExposeSecret, SecretBox, SecretString};

/// The number of random bytes of a secret or key: 256 bits.
pub const SECRET_BYTES: usize = 32;

/// The operating system provided no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the operating system provided no random bytes")]
pub struct EntropyError(#[source] rand::rngs::SysError);

/// Draws 256 random bits.
///
/// # Errors
/// If the operating system provides no random bytes.
pub(super) fn random_bytes() -> Result<SecretBox<[u8; SECRET_BYTES]>, EntropyError> {
    let mut bytes = [0_u8; SECRET_BYTES];
    SysRng.try_fill_bytes(&mut bytes).map_err(EntropyError)?;
    let secret = SecretBox::new(Box::new(bytes));
    bytes.zeroize();
    Ok(secret)
}

/// Draws 256 random bits and writes them as 43 URL-safe characters after a prefix.
///
/// # Errors
/// If the operating system provides no random bytes.
pub(super) fn random_text(prefix: &str) -> Result<SecretString, EntropyError> {
    let bytes = random_bytes()?;
    let mut text = String::with_capacity(prefix.len() + 43);
    text.push_str(prefix);
    URL_SAFE_NO_PAD.encode_string(bytes.expose_secret(), &mut text);
    Ok(SecretString::from(text))
}
