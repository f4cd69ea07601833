//! A restore that came to nothing because a disk was full: how much room it takes is worked out of how far it came.

use std::path::Path;

use super::RestoreError;
use crate::app::room::{bytes_in, free};

/// What the system says of a full disk and of a used-up quota: ENOSPC and EDQUOT. A database tells it as text only.
const FULL: [&str; 2] = ["os error 28)", "os error 122)"];
/// Below this a disk counts as full, whatever was said: the database takes half of it at a time.
const FREE_MIN: u64 = 1 << 20;

/// How far a restore came, in bytes of the backup unpacked.
#[derive(Debug, Clone, Copy)]
pub(super) struct PutBack {
    /// All of it; 0 where that is not known.
    pub unpacked: u64,
    /// How much of it was put back.
    pub put: u64,
}

/// The error, or that there is no room where that is what it comes of. `folders` may lie on disks of their own.
pub(super) fn or_no_room(error: RestoreError, put_back: &PutBack, data_dir: &Path, store: &Path) -> RestoreError {
    if matches!(error, RestoreError::Backup(_)) {
        return error;
    }
    let is_told = FULL.iter().any(|full| chain(&error).contains(full));
    let full = [store, data_dir].into_iter().find(|folder| free(folder).is_some_and(|free| free < FREE_MIN));
    let Some(folder) = full.or(is_told.then_some(store)) else { return error };
    let written = bytes_in(data_dir).saturating_add(if store.starts_with(data_dir) { 0 } else { bytes_in(store) });
    let (part, needed) = told(put_back, written);
    RestoreError::NoRoom { folder: folder.to_owned(), put_back: written, part, needed }
}

/// Which part was put back and how much is needed, in words.
fn told(put_back: &PutBack, written: u64) -> (String, String) {
    let PutBack { unpacked, put } = *put_back;
    let (all, done) = (u128::from(unpacked), u128::from(put));
    let percent = done.saturating_mul(100).checked_div(all).unwrap_or_default();
    // What was put last may not have been written.
    let at_this_rate = u128::from(written).saturating_mul(all).checked_div(done).unwrap_or_default();
    let needed = u64::try_from(at_this_rate).unwrap_or(u64::MAX).max(unpacked).max(written);
    let at_least = if put == 0 { "more than" } else { "about" };
    (format!("{percent} % of the register"), format!("{at_least} {} MB", megabytes(needed)))
}

/// Bytes in millions, rounded up.
pub(super) fn megabytes(bytes: u64) -> u64 {
    bytes.div_ceil(1_000_000)
}

fn chain(error: &RestoreError) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn how_much_is_needed_is_worked_out_of_how_far_it_came() {
        let million = 1_000_000;
        let at = |put: u64| PutBack { unpacked: 10 * million, put: put * million };
        assert_eq!(told(&at(5), 7 * million), ("50 % of the register".to_owned(), "about 14 MB".to_owned()));
        assert_eq!(told(&at(5), 2 * million).1, "about 10 MB", "what was put last may not have been written");
        assert_eq!(told(&at(10), 15 * million + 1).1, "about 16 MB");
        assert_eq!(told(&at(0), 12 * million), ("0 % of the register".to_owned(), "more than 12 MB".to_owned()));
        assert_eq!(told(&PutBack { unpacked: 0, put: 0 }, 3 * million).1, "more than 3 MB");
    }

    #[test]
    fn other_errors_stay_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let put_back = PutBack { unpacked: 4, put: 2 };
        let of = |source| RestoreError::Folder { path: path.to_owned(), source };
        let store = path.join("store");
        let denied = or_no_room(of(io::ErrorKind::PermissionDenied.into()), &put_back, path, &store);
        assert!(matches!(denied, RestoreError::Folder { .. }), "{denied}");
        let full = or_no_room(of(io::Error::from_raw_os_error(28)), &put_back, path, &store);
        assert!(matches!(&full, RestoreError::NoRoom { folder, .. } if *folder == store), "{full}");
        let quota = or_no_room(of(io::Error::from_raw_os_error(122)), &put_back, path, &store);
        assert!(quota.to_string().contains("and about 1 MB are needed: delete the folder"), "{quota}");
    }
}
