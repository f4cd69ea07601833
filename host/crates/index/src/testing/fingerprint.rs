//! Fingerprints of registers, for comparing two registers.

use std::hash::Hasher as _;

use serde::Serialize;
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::Snapshot;
use crate::bitmaps::{Posting, RowSet};
use crate::image::Image;
use crate::rows::Rows;
use crate::stored::{self, bytes_of};
use crate::subjects::Subjects;
use crate::terms::TermIndex;
use daftar_domain::group::GroupSummary;
use daftar_domain::record::RecordType;

/// The content of a register, as one number for each of its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint(Vec<(String, u128)>);

impl Image {
    /// Returns a fingerprint for comparing this register with another image of it or of its
    /// [`crate::Columns::sibling`]: the same records give the same fingerprint, in any write order.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut visitor = Visitor::default();
        let Snapshot { hasher: _, extensions: _, individuals, groups, members, places, about, covers } = &self.snapshot;
        let terms = &self.terms;
        visitor.subjects("individuals", individuals);
        visitor.of_rows("terms of individuals", &individuals.rows, |row| terms.individuals.get(row).to_vec());
        visitor.subjects("groups", groups);
        visitor.of_rows("terms of groups", &groups.rows, |row| terms.groups.get(row).to_vec());
        visitor.values("members of groups", members.named.iter().map(|(entry, ())| *entry));
        visitor.of_rows("active members of groups", &groups.rows, |row| members.seats.get(row).to_vec());
        visitor.of_rows("summaries of groups", &groups.rows, |row| {
            // Their systems are numbered in the order of their first use.
            let GroupSummary { called, name, members } = members.summaries.get(row, |_| true)?;
            Some((called.map(|key| key.reveal()), name, format!("{members:?}")))
        });
        // The order of several memberships is ignored.
        visitor.of_rows("places of individuals", &individuals.rows, |row| {
            let mut places: Vec<Vec<u8>> = places.of(row).map(|place| bytes_of(&place)).collect();
            places.sort_unstable();
            places.concat()
        });
        visitor.values("programs", about.programs.values().map(|program| (program.id, program.meta.version.0)));
        visitor.term_index("memberships", "terms of memberships", &about.memberships);
        let columns = &about.of_memberships;
        visitor.of_rows("columns of memberships", &about.memberships.rows, |row| {
            (columns.fields.get(row), columns.last_updated.get(row), columns.versions.get(row))
        });
        visitor.term_index("consents", "terms of consents", &about.consents);
        let of_memberships = |row| terms.about.memberships.get(row).to_vec();
        visitor.of_rows("terms of memberships by row", &about.memberships.rows, of_memberships);
        let of_consents = |row| terms.about.consents.get(row).to_vec();
        visitor.of_rows("terms of consents by row", &about.consents.rows, of_consents);
        covers.visit(&mut visitor);
        Fingerprint(visitor.parts)
    }
}

impl Fingerprint {
    /// Returns the names of the parts in which two registers differ; empty if they are equal.
    pub fn differs_in(&self, other: &Self) -> Vec<&str> {
        let pairs = self.0.iter().zip(&other.0);
        pairs.filter(|(one, other)| one != other).map(|((part, _), _)| part.as_str()).collect()
    }
}

/// Hashes the parts of a register.
#[derive(Default)]
pub(crate) struct Visitor {
    parts: Vec<(String, u128)>,
}

impl Visitor {
    /// Visits everything about records of one kind.
    fn subjects<R: RecordType>(&mut self, records: &str, subjects: &Subjects<R>) {
        let Subjects { rows, codes, words, identifiers, inactive, names, last_updated, versions, columns } = subjects;
        self.rows(records, rows);
        self.postings(format!("codes of {records}"), codes.iter());
        self.postings(format!("words of {records}"), words.iter().map(|(word, rows)| (&**word, rows)));
        self.values(format!("identifiers of {records}"), identifiers.entries.iter().map(|(entry, ())| *entry));
        self.postings(format!("inactive {records}"), [(&(), inactive)]);
        self.of_rows(format!("names of {records}"), rows, |row| names.get(row).map(<[u8]>::to_vec));
        self.of_rows(format!("last writes of {records}"), rows, |row| last_updated.get(row));
        self.of_rows(format!("versions of {records}"), rows, |row| versions.get(row));
        self.of_rows(format!("columns of {records}"), rows, |row| columns.get(row));
    }

    /// Visits records that are found by terms.
    fn term_index<K: Ord + Clone + Serialize>(&mut self, records: &str, terms: &str, index: &TermIndex<K>) {
        self.rows(records, &index.rows);
        self.postings(terms, index.postings.iter());
    }

    /// Visits the record of each row.
    fn rows(&mut self, part: &str, rows: &Rows) {
        self.of_rows(part, rows, |row| rows.id(row));
    }

    /// Visits one value per row.
    fn of_rows<T: Serialize>(&mut self, part: impl Into<String>, rows: &Rows, value: impl Fn(u32) -> T) {
        self.values(part, (0..rows.count()).map(value));
    }

    /// Visits the rows by key.
    pub(crate) fn postings<'p, K: Serialize + ?Sized + 'p>(
        &mut self,
        part: impl Into<String>,
        postings: impl IntoIterator<Item = (&'p K, &'p Posting)>,
    ) {
        let rows = |rows| RowSet::union([rows]).rows().collect::<Vec<u32>>();
        self.values(part, postings.into_iter().map(|(key, posting)| (bytes_of(key), rows(posting))));
    }

    /// Visits values in their order.
    pub(crate) fn values<T: Serialize>(&mut self, part: impl Into<String>, values: impl IntoIterator<Item = T>) {
        // No secret key is required: there is no benefit in forging a collision of two registers.
        let mut hasher = SipHasher24::new();
        let mut bytes = Vec::new();
        for value in values {
            stored::put(&mut bytes, &value);
            if bytes.len() >= 1 << 16 {
                hasher.write(&bytes);
                bytes.clear();
            }
        }
        hasher.write(&bytes);
        self.parts.push((part.into(), hasher.finish128().as_u128()));
    }
}
