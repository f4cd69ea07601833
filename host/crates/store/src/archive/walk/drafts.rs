//! Rule drafts in a snapshot. All their versions may be gigabytes, so only the number of the present version of each
//! draft is read at the beginning of the snapshot, and the versions page by page after it.
//!
//! A version is never rewritten, and the draft itself has the value of its present version. So the versions up to the
//! listed number are the state at the mark. A deletion removes all versions in one write, and adds a last one without
//! content.
//!
//! **Invariant:** a draft is read completely or left out, and it is left out only if it was deleted since the mark.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use daftar_domain::deployment::{Setting, SettingKey};
use daftar_domain::record::VersionId;
use daftar_domain::rule_draft::{DraftStatus, RuleDraft, RuleDraftId};

use super::{Step, read};
use crate::StoreError;
use crate::archive::Entry;
use crate::record::setting::{SettingKind, decode, key_bytes};
use crate::verify::{RawValue, RawValues, Table, after_setting};

/// Number of settings per read: one has up to a mebibyte, a version of a draft up to 85 kB.
const SETTINGS_PER_PAGE: usize = 32;

// Settings are in the order of their kinds: all drafts are known before the first version, and versions are the last.
const _: () = assert!(
    SettingKind::RuleDraft as usize + 1 == SettingKind::ALL.len()
        && SettingKind::RuleDraftVersion as usize == SettingKind::ALL.len()
);

/// The rule drafts at the mark.
#[derive(Default)]
pub(super) struct Drafts {
    /// The number of the present version of each draft whose versions have not all been read.
    at_mark: BTreeMap<RuleDraftId, VersionId>,
    /// Versions of the first of these drafts, from the first one on without gaps.
    versions: Vec<Vec<u8>>,
    /// True if that draft has been deleted since.
    is_deleted: bool,
    /// Versions that belong to the snapshot, each with true for the present version of its draft.
    ready: VecDeque<(Vec<u8>, bool)>,
    /// Position of the next page of settings.
    after: Option<Vec<u8>>,
    /// True once a version was read.
    has_versions: bool,
    /// True after the last page.
    is_read: bool,
}

impl Drafts {
    /// Lists the drafts. Also returns the settings of all other kinds.
    pub(super) fn list(values: &dyn RawValues) -> Result<(Self, Vec<Entry>), StoreError> {
        let (mut drafts, mut others) = (Self::default(), Step::default());
        while !drafts.has_versions && !drafts.is_read {
            drafts.read_page(values, &mut others)?;
        }
        Ok((drafts, others.entries))
    }

    /// Adds the next versions to the step; true at the end.
    pub(super) fn next(&mut self, values: &dyn RawValues, step: &mut Step) -> Result<bool, StoreError> {
        if self.ready.is_empty() && !self.is_read {
            self.read_page(values, step)?;
        }
        while !step.is_full()
            && let Some((value, is_present)) = self.ready.pop_front()
        {
            // The draft itself is its present version.
            let draft = is_present.then(|| value.clone());
            step.push(Entry::Setting { kind: SettingKind::RuleDraftVersion, value });
            if let Some(value) = draft {
                step.push(Entry::Setting { kind: SettingKind::RuleDraft, value });
            }
        }
        Ok(self.is_read && self.ready.is_empty())
    }

    /// Reads the next page of settings. Those of other kinds, before the drafts, are added to the step.
    fn read_page(&mut self, values: &dyn RawValues, others: &mut Step) -> Result<(), StoreError> {
        let page = read(values, Table::Settings, self.after.as_deref(), SETTINGS_PER_PAGE)?;
        for value in page.values {
            let RawValue::Setting(kind, key, value) = value else { continue };
            match kind {
                SettingKind::RuleDraft => {
                    let draft = draft_under(kind, &key, &value)?;
                    self.at_mark.insert(draft.id, draft.version);
                }
                SettingKind::RuleDraftVersion => {
                    self.has_versions = true;
                    let draft = draft_under(kind, &key, &value)?;
                    self.add(values, &draft, value)?;
                }
                SettingKind::LocalCode
                | SettingKind::ConceptGroup
                | SettingKind::RetainedConcepts
                | SettingKind::EarlierVersion
                | SettingKind::IdentifierSystem => others.push(Entry::Setting { kind, value }),
            }
        }
        self.is_read = page.next.is_none();
        self.after = page.next;
        if self.is_read { self.end_before(values, None) } else { Ok(()) }
    }

    /// Adds the next version, in the order of keys.
    fn add(&mut self, values: &dyn RawValues, draft: &RuleDraft, value: Vec<u8>) -> Result<(), StoreError> {
        self.end_before(values, Some(draft.id))?;
        let is_deletion = draft.status == DraftStatus::Deleted;
        match self.at_mark.first_key_value() {
            Some((id, at_mark)) if *id == draft.id => {
                if draft.version > *at_mark {
                    self.is_deleted |= is_deletion;
                } else if draft.version.0 == self.versions.len() as u64 + 1 {
                    self.versions.push(value);
                }
            }
            // Of a draft that was deleted before the mark. One that was created and deleted since cannot be
            // distinguished: its last version is included, which has no content.
            _ if is_deletion => self.ready.push_back((value, false)),
            // Of a draft that was created since.
            _ => {}
        }
        Ok(())
    }

    /// Ends the drafts before that one, or all of them: their versions have been read.
    fn end_before(&mut self, values: &dyn RawValues, next: Option<RuleDraftId>) -> Result<(), StoreError> {
        while let Some(first) = self.at_mark.first_entry()
            && next.is_none_or(|next| *first.key() < next)
        {
            let (id, at_mark) = first.remove_entry();
            let mut versions = std::mem::take(&mut self.versions);
            let is_deleted = std::mem::take(&mut self.is_deleted);
            let is_complete = versions.len() as u64 == at_mark.0;
            match versions.pop().filter(|_| is_complete) {
                Some(present) => {
                    self.ready.extend(versions.into_iter().map(|version| (version, false)));
                    self.ready.push_back((present, true));
                }
                None if is_deleted || is_deleted_since(values, id, at_mark)? => {}
                None => {
                    let reason = format!("one of the {} versions of {} is missing", at_mark.0, id.reference());
                    return Err(StoreError::Corrupt { what: "rule draft", reason });
                }
            }
        }
        Ok(())
    }
}

/// True if a draft whose versions are missing was deleted since the mark. The page in which they are missing may have
/// been read in part before the deletion, so that it does not contain the last version.
fn is_deleted_since(values: &dyn RawValues, id: RuleDraftId, at_mark: VersionId) -> Result<bool, StoreError> {
    if values.is_snapshot() {
        return Ok(false);
    }
    let key = key_bytes(&SettingKey::RuleDraftVersion(id, at_mark));
    let page = read(values, Table::Settings, Some(&after_setting(SettingKind::RuleDraftVersion, &key)), 1)?;
    let Some(RawValue::Setting(kind, key, value)) = page.values.into_iter().next() else { return Ok(false) };
    // No kind of setting follows this one.
    let next = draft_under(kind, &key, &value)?;
    Ok(next.id == id && next.status == DraftStatus::Deleted)
}

/// Decodes a draft, or a version of one, that is stored under that key.
fn draft_under(kind: SettingKind, key: &[u8], value: &[u8]) -> Result<Arc<RuleDraft>, StoreError> {
    let setting = decode(kind, value)?;
    let is_own_key = key_bytes(&setting.key()) == key;
    match setting {
        Setting::RuleDraft(draft) | Setting::RuleDraftVersion(draft) if is_own_key => Ok(draft),
        _ => Err(StoreError::Corrupt { what: kind.name(), reason: "it does not match its key".to_owned() }),
    }
}
