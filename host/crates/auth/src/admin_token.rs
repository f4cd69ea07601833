//! The administrator's token: a file that only the server's owner can read.

use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use super::entropy::{self, EntropyError};
use super::secret_file::{self, SecretFileError};

/// The token's file within the data folder.
pub const ADMIN_TOKEN_FILE: &str = "admin.token";
/// The prefix of a generated token, so that leak scanners recognise it.
pub const ADMIN_TOKEN_PREFIX: &str = "daftar_admin_";
/// The shortest accepted token: 43 characters of base64 are 256 bits.
const TOKEN_BYTES_MIN: usize = 43;
/// The longest accepted token.
const TOKEN_BYTES_MAX: usize = 512;

/// The reason why the administrator's token cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AdminTokenError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] SecretFileError),
    /// There are no random bytes for a new token.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// The token file does not exist.
    #[error("`{0}` does not exist: start the server once to create it")]
    Absent(PathBuf),
    /// The token is too short, too long, or not valid in a header.
    #[error(
        "the token in `{0}` is not {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} visible ASCII characters: delete the file"
    )]
    Unusable(PathBuf),
}

/// The bearer token that the administrator's commands send with every request.
#[derive(Debug, Clone)]
pub struct AdminToken(SecretString);

impl AdminToken {
    /// Reads the token of a data folder. Creates one if none exists.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written, other users may read it, or the token is too weak. The
    /// message states the remedy.
    pub fn load_or_create(data_folder: &Path) -> Result<Self, AdminTokenError> {
        let path = data_folder.join(ADMIN_TOKEN_FILE);
        if secret_file::read(&path)?.is_none() {
            let text = entropy::random_text(ADMIN_TOKEN_PREFIX)?;
            // False if another process created the file concurrently: its token is read below.
            secret_file::create(&path, &SecretString::from(format!("{}\n", text.expose_secret())))?;
        }
        Self::load(data_folder)
    }

    /// Reads the token of a data folder, for commands that connect to a running server.
    ///
    /// # Errors
    /// Returns an error if the token does not exist, or as [`Self::load_or_create`].
    pub fn load(data_folder: &Path) -> Result<Self, AdminTokenError> {
        Self::load_file(&data_folder.join(ADMIN_TOKEN_FILE))
    }

    /// Reads the token from a file.
    ///
    /// # Errors
    /// Returns an error if the token does not exist, or as [`Self::load_or_create`].
    pub fn load_file(path: &Path) -> Result<Self, AdminTokenError> {
        let text = secret_file::read(path)?.ok_or_else(|| AdminTokenError::Absent(path.to_owned()))?;
        Self::parse(text.expose_secret()).ok_or_else(|| AdminTokenError::Unusable(path.to_owned()))
    }

    /// Parses a token after trimming white space; `None` if it is too weak or not valid in a header.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_ascii();
        let is_usable = (TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_usable.then(|| Self(SecretString::from(text)))
    }

    /// Returns true if `presented` is the token. Compares in constant time.
    #[must_use]
    pub fn matches(&self, presented: &[u8]) -> bool {
        self.0.expose_secret().as_bytes().ct_eq(presented).into()
    }

    /// Returns the token, to be sent.
    #[must_use]
    pub fn secret(&self) -> &SecretString {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn is_created_once_and_matches_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(AdminToken::load(folder.path()), Err(AdminTokenError::Absent(_))));
        let made = AdminToken::load_or_create(folder.path()).unwrap();
        let again = AdminToken::load_or_create(folder.path()).unwrap();
        let text = made.secret().expose_secret();
        assert!(text.starts_with(ADMIN_TOKEN_PREFIX) && text.len() == ADMIN_TOKEN_PREFIX.len() + 43);
        assert!(again.matches(text.as_bytes()));
        for wrong in ["", "x", &text[1..], &format!("{text}x"), &text.to_uppercase()] {
            assert!(!again.matches(wrong.as_bytes()));
        }
        assert!(!format!("{made:?}").contains(text));
    }

    #[test]
    fn rejects_a_weak_token_and_a_file_that_others_may_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(ADMIN_TOKEN_FILE);
        secret_file::create(&path, &"secret".into()).unwrap();
        assert!(matches!(AdminToken::load_or_create(folder.path()), Err(AdminTokenError::Unusable(_))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(AdminToken::load_or_create(folder.path()), Err(AdminTokenError::File(_))));
        assert!(AdminToken::parse(&"x".repeat(42)).is_none());
        assert!(AdminToken::parse(&format!(" {}\n", "x".repeat(43))).is_some());
        assert!(AdminToken::parse(&"x".repeat(513)).is_none());
        assert!(AdminToken::parse(&format!("{} y", "x".repeat(43))).is_none());
    }
}
