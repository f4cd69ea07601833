//! Photos: every part is there, and together they are what their digest says.

use sha2::{Digest, Sha256};

use super::finding;
use super::look::{Look, strange_key, undecodable};
use crate::keys;
use daftar_domain::photo::PhotoDigest;
use daftar_domain::verification::{Finding, Part, Remedy};
use daftar_store::record::photo::decode_part;

/// The photo whose parts are being looked at.
#[derive(Default)]
pub(super) struct Photos(Option<PhotoSoFar>);

struct PhotoSoFar {
    digest: PhotoDigest,
    sha256: Sha256,
    parts: u64,
    expected: Option<u32>,
    is_sound: bool,
}

impl PhotoSoFar {
    fn new(digest: PhotoDigest) -> Self {
        Self { digest, sha256: Sha256::new(), parts: 0, expected: None, is_sound: true }
    }

    fn add(&mut self, part: u64, value: &[u8]) {
        let is_next = part == self.parts;
        self.parts = self.parts.saturating_add(1);
        match decode_part(value) {
            Ok((expected, bytes)) => {
                self.is_sound &= is_next && self.expected.is_none_or(|before| before == expected);
                self.expected = Some(expected);
                self.sha256.update(bytes);
            }
            Err(_) => self.is_sound = false,
        }
    }

    fn ends_whole(self) -> bool {
        self.is_sound
            && self.expected.is_some_and(|expected| u64::from(expected) == self.parts)
            && self.sha256.finalize().as_slice() == self.digest.0
    }
}

impl Photos {
    /// Takes up the next part; gives the photo before it when that one is not whole.
    pub(super) fn see(&mut self, key: &[u8], value: &[u8]) -> Result<Option<PhotoDigest>, Finding> {
        let Some((digest, part)) = keys::read::photo_of(key) else { return Err(strange_key(Part::Photos, key)) };
        let broken = if self.0.as_ref().is_some_and(|photo| photo.digest == digest) { None } else { self.end() };
        self.0.get_or_insert_with(|| PhotoSoFar::new(digest)).add(part, value);
        Ok(broken)
    }

    /// Ends the photo that is being looked at; gives it when it is not whole.
    pub(super) fn end(&mut self) -> Option<PhotoDigest> {
        let photo = self.0.take()?;
        let digest = photo.digest;
        (!photo.ends_whole()).then_some(digest)
    }
}

/// Looks at a whole photo.
pub(super) fn inspect(look: &Look, digest: PhotoDigest) -> Vec<Finding> {
    let hexadecimal: String = digest.0.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let name = format!("the photo with the digest {hexadecimal}…");
    let mut photo = PhotoSoFar::new(digest);
    for entry in look.after(&keys::photo_prefix(digest), None) {
        let (key, value) = match entry {
            Ok(entry) => entry,
            Err(unreadable) => return vec![unreadable],
        };
        let Some((_, part)) = keys::read::photo_of(&key) else { continue };
        if let Err(error) = decode_part(&value) {
            return vec![undecodable(Part::Photos, name, &error)];
        }
        photo.add(part, &value);
    }
    let (parts, expected) = (photo.parts, photo.expected.unwrap_or_default());
    if photo.ends_whole() {
        return Vec::new();
    }
    let problem = if parts == u64::from(expected) {
        "its bytes are not those that it was stored with".to_owned()
    } else {
        format!("{parts} of its {expected} parts are there")
    };
    vec![finding(Part::Photos, name, problem, Remedy::Restore)]
}
