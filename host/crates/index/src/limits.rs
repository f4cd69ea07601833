//! Which records exist for one client, and on which of them it may look at which field.
//!
//! **Invariant:** a search under limits gives what it would give if the other records were not there, no condition held on a field
//! that may not be looked at, and such a field had no value to be put in order by: totals and pages alike.

use std::collections::BTreeMap;

use super::bitmaps::Posting;

/// The rows of one kind of record that exist for a client.
#[derive(Debug, Clone, Default)]
pub struct RowLimits {
    visible: Posting,
    whole: Posting,
    fields: BTreeMap<Box<str>, Posting>,
}

impl RowLimits {
    /// Limits to `visible`. Each field may be looked at on the rows that `fields` names for it; one that is not named there on
    /// those of `whole`. Fields are named as the API does, those of modules `extension.<key>`, or `extension` for all of them.
    pub(super) fn new(visible: Posting, whole: Posting, fields: BTreeMap<Box<str>, Posting>) -> Self {
        Self { visible, whole, fields }
    }

    /// The records that exist.
    pub(super) fn visible(&self) -> &Posting {
        &self.visible
    }

    /// The records on which a field may be looked at.
    pub(super) fn field(&self, name: &str) -> &Posting {
        let of_modules = || name.starts_with("extension.").then(|| self.fields.get("extension")).flatten();
        self.fields.get(name).or_else(of_modules).unwrap_or(&self.whole)
    }
}

/// The limits of a search: of the records searched for, and of the groups that it looks at beside.
#[derive(Debug, Clone, Copy, Default)]
pub struct SearchLimits<'a> {
    /// Of the records searched for; all exist, where absent.
    pub records: Option<&'a RowLimits>,
    /// Of groups, where people are searched by their places; all exist, where absent.
    pub groups: Option<&'a RowLimits>,
}

impl<'a> SearchLimits<'a> {
    /// The rows on which a field of the records may be looked at; absent where that is all of them.
    pub(super) fn field(&self, name: &str) -> Option<&'a Posting> {
        self.records.map(|limits| limits.field(name))
    }
}

#[cfg(test)]
impl RowLimits {
    /// Limits from plain rows.
    pub(super) fn of_rows(visible: &[u32], whole: &[u32], fields: &[(&str, Vec<u32>)]) -> Self {
        let posting = |rows: &[u32]| {
            let mut posting = Posting::default();
            rows.iter().for_each(|row| posting.insert(*row));
            posting
        };
        Self {
            visible: posting(visible),
            whole: posting(whole),
            fields: fields.iter().map(|(name, rows)| (Box::from(*name), posting(rows))).collect(),
        }
    }
}
