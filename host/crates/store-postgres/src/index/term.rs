//! Search terms of a record, as one set, and queries over them.
//!
//! **Invariant:** a term is a letter and a text, as defined in the index's migration; no path contains a code's `#`.

use std::collections::BTreeSet;
use std::error::Error;

use bytes::{BufMut as _, BytesMut};
use sha2::{Digest, Sha256};
use tokio_postgres::types::{IsNull, ToSql, Type, accepts, to_sql_checked};

use daftar_domain::code::CodeNumber;
use daftar_domain::hexadecimal;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::manifest::ExtensionPath;
use daftar_domain::search::{CodedPlace, TextConditions};
use daftar_domain::vocabulary::CodedField;

/// Term of every record, in counters.
pub(super) const EVERY: &str = "";
/// Term of an inactive record.
pub(super) const INACTIVE: &str = "x";
/// Term of a record that has more words than fit.
pub(super) const MORE: &str = "!";

/// The longest word among terms, in bytes: PostgreSQL accepts terms of 2,046.
pub(super) const WORD_BYTES_MAX: usize = 1_000;
/// Maximum size of all words of a record among its terms, in bytes: PostgreSQL accepts 1,048,575 for all terms.
pub(super) const WORDS_BYTES_MAX: usize = 400_000;

/// The number by which terms identify a field: its position among all, counted from 1. It never changes.
fn number_of(field: CodedField) -> usize {
    CodedField::ALL.iter().take_while(|before| **before != field).count().saturating_add(1)
}

/// A code in a field that every registry has.
pub(super) fn of_code(field: CodedField, number: CodeNumber) -> String {
    format!("c{}#{}", number_of(field), number.0)
}

/// Prefix of the terms of a field's codes.
pub(super) fn of_field(field: CodedField) -> String {
    format!("c{}#", number_of(field))
}

/// A code in a field of a module.
pub(super) fn of_extension_code(path: &ExtensionPath, number: CodeNumber) -> String {
    format!("e{path}#{}", number.0)
}

/// A code in the place of a condition.
pub(super) fn of_code_at(place: &CodedPlace, number: CodeNumber) -> String {
    match place {
        CodedPlace::Field(field) => of_code(*field, number),
        CodedPlace::Extension(path) => of_extension_code(path, number),
    }
}

/// A code in any field; in counters alone.
pub(super) fn of_code_anywhere(number: CodeNumber) -> String {
    format!("k{}", number.0)
}

/// An identifier: 128 bits for which no second identifier can be found.
pub(super) fn of_identifier(key: &IdentifierKey) -> String {
    // A system has no `|`, so no two identifiers have the same text.
    let digest = Sha256::new().chain_update(key.system.as_str()).chain_update("|").chain_update(key.value.as_str());
    format!("i{}", hexadecimal::encode(digest.finalize().iter().take(16)))
}

/// A word of the name.
pub(super) fn of_name_word(word: &str) -> String {
    format!("n{word}")
}

/// A word of an address.
pub(super) fn of_address_word(word: &str) -> String {
    format!("a{word}")
}

/// A term in the syntax of `tsvector` and `tsquery`.
pub(super) fn quoted(term: &str) -> String {
    format!("'{}'", term.replace('\\', "\\\\").replace('\'', "''"))
}

/// A word, or a whole phrase, of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The term, or its beginning.
    pub(super) term: String,
    /// True if it is a prefix.
    pub(super) is_beginning: bool,
}

impl Wanted {
    /// Returns every word and phrase of conditions on texts.
    pub(super) fn of_texts(texts: &TextConditions) -> Vec<Self> {
        let beginning = |term| Self { term, is_beginning: true };
        let whole = |term| Self { term, is_beginning: false };
        let names = texts.name_words.iter().map(|word| beginning(of_name_word(word)));
        let addresses = texts.address_words.iter().map(|word| beginning(of_address_word(word)));
        let phrases = texts.phrases.iter().map(|(field, phrase)| whole(field.term(phrase)));
        names.chain(addresses).chain(phrases).collect()
    }

    /// The query for it; `None` if it is too long to be a term.
    pub(super) fn query(&self) -> Option<String> {
        let suffix = if self.is_beginning { ":*" } else { "" };
        (self.term.len() <= WORD_BYTES_MAX + 1).then(|| format!("{}{suffix}", quoted(&self.term)))
    }
}

/// The query that matches if any of the queries does; its nesting depth grows with the logarithm of their number.
pub(super) fn any_of(queries: &[String]) -> String {
    match queries {
        [] => String::new(),
        [only] => only.clone(),
        several => {
            let (one, other) = several.split_at(several.len() / 2);
            format!("({} | {})", any_of(one), any_of(other))
        }
    }
}

/// A `tsvector` in binary: the number of terms, then each with a zero byte behind it and no positions. They are sorted
/// by their bytes, as PostgreSQL requires.
#[derive(Debug)]
pub(super) struct Vector(pub(super) BTreeSet<String>);

impl ToSql for Vector {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_i32(i32::try_from(self.0.len())?);
        for term in &self.0 {
            out.put_slice(term.as_bytes());
            out.put_u8(0);
            out.put_u16(0);
        }
        Ok(IsNull::No)
    }

    accepts!(TS_VECTOR);
    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::record::RecordKind;
    use daftar_domain::search::phrase::PhraseField;

    #[test]
    fn searched_text_is_never_read_as_an_operator() {
        assert_eq!(quoted("nit's \\ & | ! <->"), r"'nit''s \\ & | ! <->'");
        let region = PhraseField::find(RecordKind::Individual, "region").unwrap();
        let phrases = vec![(region, "nord est".to_owned())];
        let texts = TextConditions { name_words: vec!["abe".into()], phrases, ..Default::default() };
        let queries: Vec<_> = Wanted::of_texts(&texts).iter().filter_map(Wanted::query).collect();
        assert_eq!(queries, ["'nabe':*", "'p19.6 nord est'"]);
        let long = Wanted { term: of_name_word(&"x".repeat(WORD_BYTES_MAX + 1)), is_beginning: true };
        assert_eq!(long.query(), None);
    }

    #[test]
    fn a_field_keeps_its_number() {
        let first = [CodedField::Gender, CodedField::PregnancyStatus, CodedField::RelationshipType].map(of_field);
        assert_eq!(first, ["c1#", "c9#", "c18#"]);
    }

    #[test]
    fn many_alternatives_are_nested_a_few_deep() {
        let queries: Vec<String> = (0..5).map(|number| number.to_string()).collect();
        assert_eq!(any_of(&queries), "((0 | 1) | (2 | (3 | 4)))");
        assert_eq!(any_of(&queries[..1]), "0");
    }

    #[test]
    fn identifiers_of_different_systems_are_different() {
        let term = |text: &str| of_identifier(&IdentifierKey::parse(text).unwrap());
        assert_eq!(term("urn:a:x|1").len(), 33);
        assert_ne!(term("urn:a:x|1"), term("urn:a:x|2"));
        assert_ne!(term("urn:a:x|1"), term("urn:a:y|1"));
    }
}
