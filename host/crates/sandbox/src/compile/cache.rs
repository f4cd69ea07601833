//! A cache of machine code on disk.
//!
//! A forged file would run with this process's rights, so each file begins with a message authentication code
//! (HMAC-SHA-256) of the engine, the plugin's digest and the machine code, with a key of this data folder. A file is
//! read into memory, verified, and loaded from there, so that the verified bytes are the ones that run.
//!
//! **Invariant:** the folder and the key belong to the account of the server alone; otherwise nothing is cached.
//! **Invariant:** an invalid file (absent, truncated, forged, of another engine) leads to a compilation, never to an
//! error.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use wasmtime::Engine;

use crate::files::{FolderError, private_folder, read_at_most, remove_files, remove_unfinished, write_whole};
use crate::package::Digest;

type Authenticator = Hmac<Sha256>;

const MAC_BYTES: usize = 32;
/// One block of SHA-256, so that HMAC uses the key unchanged.
const KEY_BYTES: usize = 64;

/// The suffix of code files.
const SUFFIX: &str = ".code";

/// The largest file that is read, in bytes. Machine code is two to four times the size of the component's code.
const FILE_BYTES_MAX: usize = 256 << 20;

/// A folder of cached machine code.
pub(crate) struct CodeCache {
    folder: PathBuf,
    key: [u8; KEY_BYTES],
}

impl CodeCache {
    /// Opens the cache in `folder`; creates the folder and a key if they are missing.
    ///
    /// # Errors
    /// The folder or the key cannot be created, or they do not belong to this account.
    pub fn open(folder: &Path) -> Result<Self, FolderError> {
        private_folder(folder)?;
        let path = folder.join("key");
        let key = read_key(&path).map_err(|error| FolderError::new(&path, error))?;
        Ok(Self { folder: folder.to_owned(), key })
    }

    /// Returns the code of the plugin with that digest, if it is cached and authentic.
    pub fn get(&self, engine: &Engine, digest: Digest) -> Option<Vec<u8>> {
        let path = self.path(engine, digest);
        let mut file = match read_bounded(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => return self.discard(&path, &error.to_string()),
        };
        if file.len() < MAC_BYTES {
            return self.discard(&path, "it is truncated");
        }
        let code = file.split_off(MAC_BYTES);
        match self.authenticator(engine, digest, &code).verify_slice(&file) {
            Ok(()) => Some(code),
            Err(_) => self.discard(&path, "its authentication code is wrong"),
        }
    }

    /// Returns true if there is a file for that plugin and engine. Its content is not verified.
    #[must_use]
    pub fn is_cached(folder: &Path, engine: &Engine, digest: Digest) -> bool {
        folder.join(file_name(engine, digest)).is_file()
    }

    /// Returns true if there is a file for that plugin and engine. Its content is not verified.
    pub fn has(&self, engine: &Engine, digest: Digest) -> bool {
        Self::is_cached(&self.folder, engine, digest)
    }

    /// Caches the code of the plugin with that digest, and replaces the code that other engines compiled of it. A
    /// failure is not an error: the plugin is compiled again at the next start.
    pub fn put(&self, engine: &Engine, digest: Digest, code: &[u8]) {
        self.forget(digest);
        let mut file = self.authenticator(engine, digest, code).finalize().into_bytes().to_vec();
        file.extend_from_slice(code);
        let path = self.path(engine, digest);
        if let Err(error) = write_whole(&path, &file) {
            tracing::warn!(path = %path.display(), error = %error, "failed to cache plugin code");
        }
    }

    /// Removes the code of all plugins except those with these digests, and files that an interrupted write left.
    /// Requires exclusive use of the folder.
    pub fn retain(&self, digests: &BTreeSet<Digest>) {
        remove_unfinished(&self.folder);
        remove_files(&self.folder, |name| {
            name.strip_suffix(SUFFIX).is_some_and(|stem| {
                let digest = stem.split_once('-').and_then(|(digest, _)| Digest::from_hex(digest));
                digest.is_none_or(|digest| !digests.contains(&digest))
            })
        });
    }

    /// Removes the code of the plugin with that digest, for any engine.
    pub fn forget(&self, digest: Digest) {
        let prefix = format!("{}-", digest.to_hex());
        remove_files(&self.folder, |name| name.starts_with(&prefix));
    }

    fn discard(&self, path: &Path, reason: &str) -> Option<Vec<u8>> {
        tracing::warn!(path = %path.display(), reason, "cached plugin code discarded, recompiling");
        let _ = fs::remove_file(path);
        None
    }

    fn path(&self, engine: &Engine, digest: Digest) -> PathBuf {
        self.folder.join(file_name(engine, digest))
    }

    fn authenticator(&self, engine: &Engine, digest: Digest, code: &[u8]) -> Authenticator {
        let mut authenticator = Authenticator::new(&self.key.into());
        authenticator.update(&fingerprint(engine).to_le_bytes());
        authenticator.update(digest.as_bytes());
        authenticator.update(code);
        authenticator
    }
}

fn file_name(engine: &Engine, digest: Digest) -> String {
    format!("{}-{:016x}{SUFFIX}", digest.to_hex(), fingerprint(engine))
}

/// A number that differs between engines with incompatible code: version, settings, processor. It also differs between
/// versions of this program: cached code implies that the plugin passed the checks of that version.
fn fingerprint(engine: &Engine) -> u64 {
    #[expect(
        deprecated,
        reason = "the number must be the same in the next run; `RandomState` has a new seed each time"
    )]
    let mut hasher = std::hash::SipHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    hasher.finish()
}

/// Reads the key, or creates it. A key that others can read is replaced.
fn read_key(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    match File::open(path) {
        Ok(mut file) => {
            let metadata = file.metadata()?;
            let is_private =
                metadata.permissions().mode() & 0o077 == 0 && metadata.uid() == rustix::process::geteuid().as_raw();
            let mut key = [0u8; KEY_BYTES];
            if is_private && metadata.len() == KEY_BYTES as u64 && file.read_exact(&mut key).is_ok() {
                return Ok(key);
            }
            tracing::warn!(path = %path.display(), "code cache key is exposed or corrupt, generating a new one");
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let key: [u8; KEY_BYTES] = rand::random();
    write_whole(path, &key)?;
    Ok(key)
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let bytes = read_at_most(File::open(path)?, FILE_BYTES_MAX)?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it is larger than {FILE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Setup {
        folder: tempfile::TempDir,
        engine: Engine,
        cache: CodeCache,
        digest: Digest,
    }

    impl Setup {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let cache = CodeCache::open(&folder.path().join("code")).unwrap();
            Self { folder, engine: Engine::default(), cache, digest: Digest::of(b"plugin") }
        }

        fn file(&self) -> PathBuf {
            self.cache.path(&self.engine, self.digest)
        }
    }

    #[test]
    fn returns_cached_code_in_this_run_and_the_next() {
        let setup = Setup::new();
        assert_eq!(setup.cache.get(&setup.engine, setup.digest), None);
        setup.cache.put(&setup.engine, setup.digest, b"code");
        assert_eq!(setup.cache.get(&setup.engine, setup.digest).as_deref(), Some(&b"code"[..]));
        let again = CodeCache::open(&setup.folder.path().join("code")).unwrap();
        assert_eq!(again.get(&setup.engine, setup.digest).as_deref(), Some(&b"code"[..]));
    }

    #[test]
    fn a_changed_byte_anywhere_discards_the_file() {
        let setup = Setup::new();
        for index in [0, MAC_BYTES - 1, MAC_BYTES, MAC_BYTES + 3] {
            setup.cache.put(&setup.engine, setup.digest, b"code");
            let mut bytes = fs::read(setup.file()).unwrap();
            bytes[index] ^= 1;
            fs::write(setup.file(), bytes).unwrap();
            assert_eq!(setup.cache.get(&setup.engine, setup.digest), None, "byte {index}");
            assert!(!setup.file().exists());
        }
    }

    #[test]
    fn a_truncated_file_is_discarded() {
        let setup = Setup::new();
        for length in [0, 1, MAC_BYTES, MAC_BYTES + 2] {
            setup.cache.put(&setup.engine, setup.digest, b"code");
            let bytes = fs::read(setup.file()).unwrap();
            fs::write(setup.file(), &bytes[..length]).unwrap();
            assert_eq!(setup.cache.get(&setup.engine, setup.digest), None, "{length} bytes");
        }
    }

    #[test]
    fn code_of_another_plugin_or_key_is_not_taken() {
        let setup = Setup::new();
        setup.cache.put(&setup.engine, Digest::of(b"other"), b"code");
        fs::copy(setup.cache.path(&setup.engine, Digest::of(b"other")), setup.file()).unwrap();
        assert_eq!(setup.cache.get(&setup.engine, setup.digest), None);

        setup.cache.put(&setup.engine, setup.digest, b"code");
        let mut other = CodeCache::open(&setup.folder.path().join("code")).unwrap();
        other.key = [7; KEY_BYTES];
        assert_eq!(other.get(&setup.engine, setup.digest), None);
    }

    #[test]
    fn folder_and_key_are_private_and_an_exposed_key_is_replaced() {
        let setup = Setup::new();
        let folder = setup.folder.path().join("code");
        let key = folder.join("key");
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        setup.cache.put(&setup.engine, setup.digest, b"code");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        let again = CodeCache::open(&folder).unwrap();
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(again.get(&setup.engine, setup.digest), None);
    }

    #[test]
    fn forgets_one_plugin_and_keeps_the_others() {
        let setup = Setup::new();
        setup.cache.put(&setup.engine, setup.digest, b"code");
        setup.cache.put(&setup.engine, Digest::of(b"gone"), b"code");
        setup.cache.forget(Digest::of(b"gone"));
        assert!(setup.cache.get(&setup.engine, setup.digest).is_some());
        assert!(setup.cache.get(&setup.engine, Digest::of(b"gone")).is_none());
        assert!(setup.folder.path().join("code/key").exists());
    }

    #[test]
    fn retains_the_named_code_and_no_unfinished_files() {
        let setup = Setup::new();
        let folder = setup.folder.path().join("code");
        for plugin in [setup.digest, Digest::of(b"gone")] {
            setup.cache.put(&setup.engine, plugin, b"code");
        }
        for left in [".unfinished-abc", "nonsense.code"] {
            fs::write(folder.join(left), b"half").unwrap();
        }
        setup.cache.retain(&BTreeSet::from([setup.digest]));
        let mut left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        left.sort();
        let mut expected = [setup.file(), folder.join("key")];
        expected.sort();
        assert_eq!(left, expected);
        assert_eq!(setup.cache.get(&setup.engine, setup.digest).as_deref(), Some(&b"code"[..]));
    }

    #[test]
    fn engines_with_other_settings_do_not_share_code() {
        let setup = Setup::new();
        setup.cache.put(&setup.engine, setup.digest, b"code");
        let other = Engine::new(wasmtime::Config::new().consume_fuel(true)).unwrap();
        assert_eq!(setup.cache.get(&other, setup.digest), None);
        setup.cache.put(&other, setup.digest, b"other code");
        assert_eq!(setup.cache.get(&setup.engine, setup.digest), None, "the code of the previous engine is replaced");
    }
}
