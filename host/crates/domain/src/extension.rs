//! Extension fields: fields that installed modules add to records, below `extension`.
//!
//! A record retains the value of a field while no installed module declares it; it is returned again when one does.

use std::sync::Arc;

use jiff::civil::Date;

use super::code::CodedValue;
use super::field::field_of_path;
use super::manifest::{ExtensionField, ExtensionFieldKind, ExtensionPath};
use super::module::KnownModules;
use super::schema::Kind;

/// The member of a record that contains the extension fields.
pub const EXTENSION: &str = "extension";
/// Maximum number of values of a repeated extension field.
pub const VALUES_MAX: usize = 100;
/// Maximum length of a text in an extension field, in bytes.
pub const TEXT_BYTES_MAX: usize = 1_000;
/// Maximum number of extension fields of all installed modules together.
pub const FIELDS_MAX: usize = 500;

/// Returns the schema kind of an extension field type.
#[must_use]
pub const fn kind_of(kind: ExtensionFieldKind) -> &'static Kind {
    match kind {
        ExtensionFieldKind::Boolean => &Kind::Boolean,
        ExtensionFieldKind::Integer => &Kind::Integer,
        ExtensionFieldKind::Number => &Kind::Number,
        ExtensionFieldKind::Text => &Kind::Text(TEXT_BYTES_MAX),
        ExtensionFieldKind::Date => &Kind::Date,
        ExtensionFieldKind::Coded => &Kind::ModuleCode,
    }
}

/// One value of an extension field. `C` is the representation of codes: numbers in the register, URIs in a request.
#[derive(Debug, Clone, PartialEq)]
pub enum ExtensionValue<C = CodedValue> {
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A finite number.
    Number(f64),
    /// A text.
    Text(String),
    /// A day.
    Date(Date),
    /// A code.
    Code(C),
}

/// The content of an extension field.
#[derive(Debug, Clone, PartialEq)]
pub enum ExtensionContent<C = CodedValue> {
    /// One value.
    One(ExtensionValue<C>),
    /// A list; an empty list means "known to be none".
    Many(Vec<ExtensionValue<C>>),
}

/// The extension fields of a record, sorted by path, each at most once.
#[derive(Debug, Clone, PartialEq)]
pub struct Extension<C = CodedValue>(Vec<(ExtensionPath, ExtensionContent<C>)>);

impl<C> Default for Extension<C> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<C> Extension<C> {
    /// Combines fields; of several fields with the same path the first one is used.
    #[must_use]
    pub fn new(mut fields: Vec<(ExtensionPath, ExtensionContent<C>)>) -> Self {
        fields.sort_by(|one, other| one.0.cmp(&other.0));
        fields.dedup_by(|later, earlier| later.0 == earlier.0);
        Self(fields)
    }

    /// True if there are no fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns every field, by path.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&ExtensionPath, &ExtensionContent<C>)> {
        self.0.iter().map(|(path, content)| (path, content))
    }

    /// Returns the content of a field.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&ExtensionContent<C>> {
        let found = self.0.binary_search_by(|(known, _)| known.as_str().cmp(path)).ok()?;
        self.0.get(found).map(|(_, content)| content)
    }

    /// Returns the fields that differ, as `extension.<key>`, possibly with duplicates.
    pub fn differences(&self, other: &Self) -> Vec<String>
    where
        C: PartialEq,
    {
        let paths = self.iter().chain(other.iter()).map(|(path, _)| path);
        let changed = paths.filter(|path| self.get(path.as_str()) != other.get(path.as_str()));
        changed.map(|path| field_of_path(&format!("{EXTENSION}.{path}")).to_owned()).collect()
    }

    /// Returns every code.
    pub fn codes(&self) -> impl Iterator<Item = &C> {
        self.coded().map(|(_, code)| code)
    }

    /// Returns every code with its field.
    pub fn coded(&self) -> impl Iterator<Item = (&ExtensionPath, &C)> {
        let values = self.0.iter().flat_map(|(path, content)| content.values().iter().map(move |value| (path, value)));
        values
            .filter_map(|(path, value)| if let ExtensionValue::Code(code) = value { Some((path, code)) } else { None })
    }

    /// Maps every code with `translate`, which receives the field and the path in the record.
    pub fn map_codes<D>(self, mut translate: impl FnMut(&ExtensionPath, String, C) -> D) -> Extension<D> {
        let translated = self.0.into_iter().map(|(path, content)| {
            let at = format!("{EXTENSION}.{path}");
            let content = match content {
                ExtensionContent::One(value) => {
                    ExtensionContent::One(value.map_code(|code| translate(&path, at.clone(), code)))
                }
                ExtensionContent::Many(values) => {
                    let numbered = values.into_iter().enumerate();
                    ExtensionContent::Many(
                        numbered
                            .map(|(place, value)| {
                                value.map_code(|code| translate(&path, format!("{at}[{place}]"), code))
                            })
                            .collect(),
                    )
                }
            };
            (path, content)
        });
        Extension(translated.collect())
    }
}

impl<C> ExtensionContent<C> {
    /// Returns the values, one or many.
    #[must_use]
    pub fn values(&self) -> &[ExtensionValue<C>] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }
}

impl<C> ExtensionValue<C> {
    /// Returns the type of the value.
    #[must_use]
    pub fn kind(&self) -> ExtensionFieldKind {
        match self {
            Self::Boolean(_) => ExtensionFieldKind::Boolean,
            Self::Integer(_) => ExtensionFieldKind::Integer,
            Self::Number(_) => ExtensionFieldKind::Number,
            Self::Text(_) => ExtensionFieldKind::Text,
            Self::Date(_) => ExtensionFieldKind::Date,
            Self::Code(_) => ExtensionFieldKind::Coded,
        }
    }

    fn map_code<D>(self, translate: impl FnOnce(C) -> D) -> ExtensionValue<D> {
        match self {
            Self::Boolean(value) => ExtensionValue::Boolean(value),
            Self::Integer(value) => ExtensionValue::Integer(value),
            Self::Number(value) => ExtensionValue::Number(value),
            Self::Text(value) => ExtensionValue::Text(value),
            Self::Date(value) => ExtensionValue::Date(value),
            Self::Code(code) => ExtensionValue::Code(translate(code)),
        }
    }
}

/// The extension fields declared by active modules, by path, with all known modules, so that an error can name an
/// inactive module.
///
/// **Invariant:** no path equals or is a prefix of another, and exactly the coded fields name a vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExtensionFields {
    fields: Vec<ExtensionField>,
    modules: Arc<KnownModules>,
}

/// Error: an extension field of a module is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExtensionFieldFault {
    /// The path equals, contains or is contained in the path of another field.
    #[error("the extension field `{path}` conflicts with `{known}`")]
    Clash {
        /// The path.
        path: ExtensionPath,
        /// The path of the other field.
        known: ExtensionPath,
    },
    /// A coded field without a vocabulary.
    #[error("the extension field `{0}` is coded and requires a `vocabulary`")]
    NoVocabulary(ExtensionPath),
    /// An invalid vocabulary.
    #[error("the `vocabulary` of the extension field `{0}` is not a valid namespace")]
    Vocabulary(ExtensionPath),
    /// A vocabulary of a field without codes.
    #[error("the extension field `{0}` names a `vocabulary` but is not coded")]
    VocabularyOfUncoded(ExtensionPath),
    /// Too many fields.
    #[error("the number of extension fields would exceed {FIELDS_MAX}")]
    TooMany,
}

impl ExtensionFields {
    /// Adds a field.
    ///
    /// # Errors
    /// The reason why it is invalid; nothing is added.
    pub fn add(&mut self, field: ExtensionField) -> Result<(), ExtensionFieldFault> {
        let path = field.path.clone();
        match (&field.vocabulary, field.kind) {
            (Some(namespace), ExtensionFieldKind::Coded) => {
                if super::code::Namespace::parse(namespace).is_err() {
                    return Err(ExtensionFieldFault::Vocabulary(path));
                }
            }
            (None, ExtensionFieldKind::Coded) => return Err(ExtensionFieldFault::NoVocabulary(path)),
            (Some(_), _) => return Err(ExtensionFieldFault::VocabularyOfUncoded(path)),
            (None, _) => {}
        }
        if let Some(known) = self.fields.iter().find(|known| overlap(known.path.as_str(), path.as_str())) {
            return Err(ExtensionFieldFault::Clash { path, known: known.path.clone() });
        }
        if self.fields.len() >= FIELDS_MAX {
            return Err(ExtensionFieldFault::TooMany);
        }
        let place = self.fields.partition_point(|known| known.path < field.path);
        self.fields.insert(place, field);
        Ok(())
    }

    /// Sets the known modules.
    #[must_use]
    pub fn with_modules(self, modules: Arc<KnownModules>) -> Self {
        Self { modules, ..self }
    }

    /// Returns the known modules, active or not.
    #[must_use]
    pub fn modules(&self) -> &KnownModules {
        &self.modules
    }

    /// Returns every field, by path.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &ExtensionField> {
        self.fields.iter()
    }

    /// Returns the field of a path.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&ExtensionField> {
        let found = self.fields.binary_search_by(|known| known.path.as_str().cmp(path)).ok()?;
        self.fields.get(found)
    }
}

/// True if two paths cannot both contain values: they are equal, or one is below the other.
pub(super) fn overlap(one: &str, other: &str) -> bool {
    let is_above = |above: &str, below: &str| {
        below.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    is_above(one, other) || is_above(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(path: &str, kind: ExtensionFieldKind, vocabulary: Option<&str>) -> ExtensionField {
        let vocabulary = vocabulary.map(str::to_owned);
        ExtensionField { path: ExtensionPath::parse(path).unwrap(), kind, repeated: false, vocabulary }
    }

    #[test]
    fn paths_of_fields_are_distinct_and_not_nested() {
        let mut fields = ExtensionFields::default();
        fields.add(field("farmer.crops", ExtensionFieldKind::Coded, Some("urn:fao:agrovoc"))).unwrap();
        fields.add(field("farmer.area", ExtensionFieldKind::Number, None)).unwrap();
        fields.add(field("farmer.crops_2", ExtensionFieldKind::Text, None)).unwrap();
        for clashing in ["farmer.crops", "farmer.crops.kind"] {
            let fault = fields.add(field(clashing, ExtensionFieldKind::Text, None)).unwrap_err();
            assert!(matches!(fault, ExtensionFieldFault::Clash { .. }), "{clashing}: {fault}");
        }
        let paths: Vec<&str> = fields.iter().map(|field| field.path.as_str()).collect();
        assert_eq!(paths, ["farmer.area", "farmer.crops", "farmer.crops_2"]);
        assert!(fields.get("farmer.area").is_some());
        assert!(fields.get("farmer").is_none());
    }

    #[test]
    fn exactly_coded_fields_name_a_vocabulary() {
        let mut fields = ExtensionFields::default();
        let mut add = |kind, vocabulary| fields.add(field("a.b", kind, vocabulary));
        assert!(matches!(add(ExtensionFieldKind::Coded, None), Err(ExtensionFieldFault::NoVocabulary(_))));
        assert!(matches!(add(ExtensionFieldKind::Coded, Some("a b")), Err(ExtensionFieldFault::Vocabulary(_))));
        assert!(matches!(
            add(ExtensionFieldKind::Text, Some("urn:x")),
            Err(ExtensionFieldFault::VocabularyOfUncoded(_))
        ));
        assert_eq!(add(ExtensionFieldKind::Text, None), Ok(()));
    }

    #[test]
    fn the_number_of_fields_is_limited() {
        let mut fields = ExtensionFields::default();
        for at in 0..FIELDS_MAX {
            fields.add(field(&format!("a.b{at}"), ExtensionFieldKind::Text, None)).unwrap();
        }
        assert_eq!(fields.add(field("a.c", ExtensionFieldKind::Text, None)), Err(ExtensionFieldFault::TooMany));
    }

    #[test]
    fn codes_are_translated_with_their_paths() {
        let path = |text| ExtensionPath::parse(text).unwrap();
        let extension = Extension::new(vec![
            (path("b.one"), ExtensionContent::One(ExtensionValue::Code("x"))),
            (path("a.many"), ExtensionContent::Many(vec![ExtensionValue::Code("y"), ExtensionValue::Code("z")])),
        ]);
        let mut seen = Vec::new();
        let translated = extension.map_codes(|path, at, code| {
            seen.push(format!("{path} {at} {code}"));
            code.len()
        });
        assert_eq!(seen, ["a.many extension.a.many[0] y", "a.many extension.a.many[1] z", "b.one extension.b.one x"]);
        assert_eq!(translated.codes().sum::<usize>(), 3);
    }
}
