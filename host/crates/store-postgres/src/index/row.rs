//! Records converted to their rows in the index.

use std::collections::BTreeSet;

use tokio_postgres::Row;

use super::term::{self, Vector, WORD_BYTES_MAX, WORDS_BYTES_MAX};
use crate::failure::corrupt;
use crate::rows::{column, kind_number, kind_of, number};
use daftar_domain::address;
use daftar_domain::group::{self, Group};
use daftar_domain::identifier::Identifier;
use daftar_domain::individual::{self, Individual};
use daftar_domain::person_name::{name_words, search_words};
use daftar_domain::record::{Fields, RecordId, RecordKind, RecordType};
use daftar_domain::search::phrase::PhraseField;
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_domain::value::{Key, List, Part, Reference, Values};
use daftar_store::StoreError;

/// The key of a record in PostgreSQL; one that no record has, if it is not assigned yet.
pub(super) fn key(id: RecordId) -> i64 {
    i64::try_from(id.0).unwrap_or(-1)
}

/// The number of the kind of an individual or group, as in records.
pub(super) fn subject_kind(kind: Subject) -> i16 {
    kind_number(kind.record_kind())
}

/// The individual or group that a row references in two columns from `at` on, its kind and its key.
pub(super) fn subject_in(row: &Row, at: usize) -> Result<SubjectReference, StoreError> {
    let reference = Reference { kind: kind_of(column(row, at)?)?, id: RecordId(number(row, at.saturating_add(1))?) };
    SubjectReference::of(reference)
        .ok_or_else(|| corrupt("subject in the index", "it is neither an individual nor a group"))
}

/// Search terms of an individual or group.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Terms {
    /// Codes, identifiers, words that fit.
    terms: BTreeSet<String>,
    /// Words that do not fit.
    more_words: Vec<String>,
    /// Terms that are counted.
    pub(super) counted: BTreeSet<String>,
}

impl Terms {
    /// Terms of an individual.
    pub(super) fn of_individual(person: &Individual) -> Self {
        let details = &person.details;
        let names = details.get(individual::NAME).map(name_words).unwrap_or_default();
        Self::default()
            .with_codes(details)
            .with_others(&details.identifiers, details.get(individual::ACTIVE))
            .with_words(RecordKind::Individual, details, &names, individual::ADDRESS)
    }

    /// Terms of a group.
    pub(super) fn of_group(group: &Group) -> Self {
        let details = &group.details;
        let names = search_words(details.get(group::NAME).unwrap_or_default());
        Self::default().with_codes(details).with_others(&details.identifiers, details.get(group::ACTIVE)).with_words(
            RecordKind::Group,
            details,
            &names,
            group::ADDRESS,
        )
    }

    fn with_codes<T: RecordType>(mut self, details: &Fields<T>) -> Self {
        let fields = details.every_code();
        let of_fields = fields.iter().map(|(field, value)| (term::of_code(*field, value.number), value.number));
        let extension = details.extension.coded();
        let of_modules = extension.map(|(path, value)| (term::of_extension_code(path, value.number), value.number));
        for (code, number) in of_fields.chain(of_modules) {
            self.counted.insert(term::of_code_anywhere(number));
            self.counted.insert(code.clone());
            self.terms.insert(code);
        }
        self
    }

    fn with_others(mut self, identifiers: &[Identifier], active: Option<bool>) -> Self {
        self.counted.insert(term::EVERY.to_owned());
        if active == Some(false) {
            self.counted.insert(term::INACTIVE.to_owned());
            self.terms.insert(term::INACTIVE.to_owned());
        }
        self.terms.extend(identifiers.iter().map(|identifier| term::of_identifier(&identifier.key)));
        self
    }

    fn with_words(mut self, kind: RecordKind, values: &Values, names: &[String], addresses: Key<List<Part>>) -> Self {
        let mut words: BTreeSet<String> = names.iter().map(|word| term::of_name_word(word)).collect();
        let of_addresses = values.items(addresses).flat_map(address::search_words);
        words.extend(of_addresses.map(|word| term::of_address_word(&word)));
        words.extend(PhraseField::terms(kind, values));
        let mut bytes = 0_usize;
        for word in words {
            bytes = bytes.saturating_add(word.len());
            if word.len() > WORD_BYTES_MAX + 1 || bytes > WORDS_BYTES_MAX {
                self.more_words.push(word);
            } else {
                self.terms.insert(word);
            }
        }
        if !self.more_words.is_empty() {
            self.terms.insert(term::MORE.to_owned());
        }
        self
    }

    /// In the text format of `tsvector`.
    pub(super) fn vector(&self) -> String {
        let quoted: Vec<String> = self.terms.iter().map(|term| term::quoted(term)).collect();
        quoted.join(" ")
    }

    /// In the binary format of `tsvector`.
    pub(super) fn into_vector(self) -> Vector {
        Vector(self.terms)
    }

    /// The words that do not fit; `None` if there are none.
    pub(super) fn words_that_do_not_fit(&self) -> Option<Vec<String>> {
        (!self.more_words.is_empty()).then(|| self.more_words.clone())
    }

    /// The words that do not fit, in the text format of `text[]`; `None` if there are none.
    pub(super) fn more_words(&self) -> Option<String> {
        (!self.more_words.is_empty()).then(|| array(&self.more_words))
    }
}

/// Texts in the text format of `text[]`.
pub(super) fn array(texts: &[impl AsRef<str>]) -> String {
    let quoted = texts.iter().map(|text| {
        let escaped = text.as_ref().replace('\\', "\\\\").replace('"', "\\\"");
        format!("\"{escaped}\"")
    });
    format!("{{{}}}", quoted.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::individual::IndividualDetails;
    use daftar_domain::person_name;
    use daftar_domain::record::{Record, RecordMeta, VersionId};

    fn address_of(text: String) -> Values {
        Values::default().with(address::TEXT, text)
    }

    fn person(name: &str, addresses: Vec<Values>) -> Individual {
        let name: Values = Values::default().with(person_name::TEXT, name.to_owned());
        let details = IndividualDetails::default().with(individual::NAME, name).with(individual::ADDRESS, addresses);
        let meta = RecordMeta { version: VersionId::FIRST, last_updated: jiff::Timestamp::UNIX_EPOCH, source: None };
        Record { id: RecordId(1), meta, details }
    }

    #[test]
    fn words_that_do_not_fit_are_stored_separately() {
        let long = "x".repeat(WORD_BYTES_MAX + 1);
        let terms = Terms::of_individual(&person("Abeba", vec![address_of(format!("{long} hill"))]));
        assert_eq!(terms.vector(), "'!' 'ahill' 'nabeba'");
        assert_eq!(terms.more_words(), Some(format!("{{\"a{long}\"}}")));

        let word = |number: usize| format!("{number:0>900}");
        let many = (0..1_000).map(|number| address_of(word(number))).collect();
        let terms = Terms::of_individual(&person("Abeba", many));
        assert!(terms.vector().len() < WORDS_BYTES_MAX + 10_000);
        assert!(terms.more_words().is_some());
    }

    #[test]
    fn an_array_is_read_as_it_was_written() {
        assert_eq!(array(&["a b", "c\"d", "e\\f"]), r#"{"a b","c\"d","e\\f"}"#);
        assert_eq!(array(&[""; 0]), "{}");
    }
}
