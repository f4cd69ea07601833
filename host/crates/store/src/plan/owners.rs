//! Who carries an identifier: one record of a kind at a time, and everybody who ever did is remembered.

use std::collections::BTreeMap;

use super::Present;
use super::draft::Draft;
use crate::{IDENTIFIER_OWNERS_MAX, IdentifierOwner, StoreError};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::record::{RecordId, RecordKind};

impl<P: Present> Draft<'_, '_, P> {
    /// Enters the record as owner of its identifiers, and as a past owner of those that it no longer carries.
    pub fn claim(
        &mut self,
        kind: RecordKind,
        id: RecordId,
        before: &[Identifier],
        now: &[Identifier],
    ) -> Result<(), StoreError> {
        let mut open_by_key: BTreeMap<&IdentifierKey, bool> =
            before.iter().map(|identifier| (&identifier.key, false)).collect();
        for identifier in now {
            *open_by_key.entry(&identifier.key).or_insert(false) |= identifier.is_open();
        }
        for (key, is_open) in open_by_key {
            let mut owners = self.owners(kind, key)?;
            if is_open && owners.iter().any(|owner| owner.is_open && owner.id != id) {
                return Err(StoreError::IdentifierInUse(key.clone()));
            }
            let is_full = owners.len() >= IDENTIFIER_OWNERS_MAX;
            match owners.iter_mut().find(|owner| owner.id == id) {
                Some(owner) if owner.is_open == is_open => continue,
                Some(owner) => owner.is_open = is_open,
                None if is_full => {
                    return Err(StoreError::LimitReached("too many records have carried one of the identifiers"));
                }
                None => owners.push(IdentifierOwner { id, is_open }),
            }
            // The one that it holds for comes first, so that a limit on a look-up never hides it.
            owners.sort_unstable_by_key(|owner| (!owner.is_open, owner.id));
            self.outcome.owners.insert((kind, key.clone()), owners);
        }
        Ok(())
    }
}
