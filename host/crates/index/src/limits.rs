//! The records that are visible to a client, and their visible fields.
//!
//! **Invariant:** a search under limits returns the result as if the other records did not exist, no condition on an
//! invisible field were satisfied, and invisible fields had no value to sort by. This applies to totals and pages.

use std::collections::BTreeMap;

use super::bitmaps::Posting;

/// The rows of one kind of record that are visible to a client.
#[derive(Debug, Clone, Default)]
pub struct RowLimits {
    visible: Posting,
    whole: Posting,
    fields: BTreeMap<Box<str>, Posting>,
}

impl RowLimits {
    /// Creates limits to `visible`. Each field in `fields` is visible on its rows, any other field on the rows of
    /// `whole`. Fields are named as in the API, fields of modules `extension.<key>`, or `extension` for all of them.
    pub(super) fn new(visible: Posting, whole: Posting, fields: BTreeMap<Box<str>, Posting>) -> Self {
        Self { visible, whole, fields }
    }

    /// Returns the visible records.
    pub(super) fn visible(&self) -> &Posting {
        &self.visible
    }

    /// Returns the records on which a field is visible.
    pub(super) fn field(&self, name: &str) -> &Posting {
        let of_modules = || name.starts_with("extension.").then(|| self.fields.get("extension")).flatten();
        self.fields.get(name).or_else(of_modules).unwrap_or(&self.whole)
    }
}

/// The limits of a search: of the records searched for, and of the groups that it reads in addition.
#[derive(Debug, Clone, Copy, Default)]
pub struct SearchLimits<'a> {
    /// The limits of the records searched for; `None`: all are visible.
    pub records: Option<&'a RowLimits>,
    /// The limits of groups, if people are searched by their group memberships; `None`: all are visible.
    pub groups: Option<&'a RowLimits>,
}

impl<'a> SearchLimits<'a> {
    /// Returns the rows on which a field of the records is visible; `None` if it is visible on all.
    pub(super) fn field(&self, name: &str) -> Option<&'a Posting> {
        self.records.map(|limits| limits.field(name))
    }
}
