//! Texts within the parts of a record that searches compare as a whole, such as the region of an address. Which there are follows from
//! the schema: a text in a part, or in each part of a list, that is filtered by.

use crate::person_name::search_phrase;
use crate::record::RecordKind;
use crate::schema::{self, Field, Kind, Tag};
use crate::value::{Value, Values};

/// The field whose parts give their names to filters, without its own before them.
const UNNAMED: &str = "address";

/// A text that searches compare as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhraseField {
    /// The field of the record, as clients are granted fields.
    pub field: &'static str,
    part: &'static str,
    tags: (Tag, Tag),
}

impl PhraseField {
    /// Those of a kind of record, in the order of the schema.
    pub fn all(kind: RecordKind) -> impl Iterator<Item = Self> {
        schema::fields(kind).iter().flat_map(|field| {
            let texts = field.kind.parts().iter();
            let texts = texts.filter(|part| part.is_filterable && matches!(part.kind, Kind::Text(_)));
            texts.map(move |part| Self::of(field, part))
        })
    }

    /// The one of that kind of record whose filter has the name.
    #[must_use]
    pub fn find(kind: RecordKind, name: &str) -> Option<Self> {
        Self::all(kind).find(|field| field.name() == name)
    }

    fn of(field: &'static Field, part: &'static Field) -> Self {
        Self { field: field.name, part: part.name, tags: (field.tag, part.tag) }
    }

    /// The name of the filter.
    #[must_use]
    pub fn name(self) -> String {
        if self.field == UNNAMED { self.part.to_owned() } else { format!("{}.{}", self.field, self.part) }
    }

    /// What the text is kept under where records are found by words: [`search_phrase`] of it behind the tags. No other word of a record
    /// begins so.
    #[must_use]
    pub fn term(self, phrase: &str) -> String {
        format!("p{}.{} {phrase}", self.tags.0, self.tags.1)
    }

    /// The texts of a record, in the form in which they are compared; none of those that hold no word.
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

    /// What all such texts of a record are kept under.
    pub fn terms(kind: RecordKind, values: &Values) -> impl Iterator<Item = String> {
        Self::all(kind).flat_map(|field| field.phrases(values).into_iter().map(move |phrase| field.term(&phrase)))
    }
}
