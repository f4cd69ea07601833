//! Phrase filters: exact texts in parts of records, such as the region of an address. They follow from the schema: a
//! filterable text in a part, or in each part of a list.

use crate::person_name::search_phrase;
use crate::record::RecordKind;
use crate::schema::{self, Field, Kind, Tag};
use crate::value::{Value, Values};

/// The field whose parts are filtered by their own names, without a prefix.
const UNNAMED: &str = "address";

/// A text that searches compare as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhraseField {
    /// The name of the field for field grants.
    pub field: &'static str,
    part: &'static str,
    tags: (Tag, Tag),
}

impl PhraseField {
    /// Returns those of a kind of record, in the order of the schema.
    pub fn all(kind: RecordKind) -> impl Iterator<Item = Self> {
        schema::fields(kind).iter().flat_map(|field| {
            let texts = field.kind.parts().iter();
            let texts = texts.filter(|part| part.is_filterable && matches!(part.kind, Kind::Text(_)));
            texts.map(move |part| Self::of(field, part))
        })
    }

    /// Returns the one of a kind of record with this filter name.
    #[must_use]
    pub fn find(kind: RecordKind, name: &str) -> Option<Self> {
        Self::all(kind).find(|field| field.name() == name)
    }

    fn of(field: &'static Field, part: &'static Field) -> Self {
        Self { field: field.name, part: part.name, tags: (field.tag, part.tag) }
    }

    /// Returns the name of the field that contains the text.
    #[must_use]
    pub fn field(self) -> &'static str {
        self.field
    }

    /// Returns the name of the filter.
    #[must_use]
    pub fn name(self) -> String {
        if self.field == UNNAMED { self.part.to_owned() } else { format!("{}.{}", self.field, self.part) }
    }

    /// Returns the index term of the text: its [`search_phrase`] after the tags. No other term of a record has this
    /// prefix.
    #[must_use]
    pub fn term(self, phrase: &str) -> String {
        format!("p{}.{} {phrase}", self.tags.0, self.tags.1)
    }

    /// Returns the texts of a record in search form, without those that contain no word.
    #[must_use]
    pub fn phrases(self, values: &Values) -> Vec<String> {
        let parts = match values.value(self.tags.0) {
            Some(Value::List(parts)) => parts.as_slice(),
            Some(part) => std::slice::from_ref(part),
            None => &[],
        };
        let texts = parts.iter().filter_map(|part| match part {
            Value::Struct(part) => part.value(self.tags.1),
            _ => None,
        });
        let phrases =
            texts.filter_map(|text| if let Value::Text(text) = text { Some(search_phrase(text)) } else { None });
        phrases.filter(|phrase| !phrase.is_empty()).collect()
    }

    /// Returns the index terms of all such texts of a record.
    pub fn terms(kind: RecordKind, values: &Values) -> impl Iterator<Item = String> {
        Self::all(kind).flat_map(|field| field.phrases(values).into_iter().map(move |phrase| field.term(&phrase)))
    }
}
