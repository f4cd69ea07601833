//! Fields that installed modules add to records, below `extension`.
//!
//! A record keeps what was written under a field even while no installed module declares it; it is shown again when one does.

use std::sync::Arc;

use jiff::civil::Date;

use super::code::CodedValue;
use super::field::field_of_path;
use super::manifest::{ExtensionField, ExtensionFieldKind, ExtensionPath};
use super::module::KnownModules;
use super::schema::Kind;

/// The member of a record that extension fields stand below.
pub const EXTENSION: &str = "extension";
/// The most values of one repeated extension field.
pub const VALUES_MAX: usize = 100;
/// The longest text of an extension field, in bytes.
pub const TEXT_BYTES_MAX: usize = 1_000;
/// The most extension fields of all installed modules together.
pub const FIELDS_MAX: usize = 500;

/// The values of an extension field of that type, as those of the schema.
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

/// One value of an extension field. `C` is how codes are given: numbered in the register, as URIs in a request.
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

/// What stands in an extension field.
#[derive(Debug, Clone, PartialEq)]
pub enum ExtensionContent<C = CodedValue> {
    /// One value.
    One(ExtensionValue<C>),
    /// A list; none is "known to be none".
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
    /// Puts fields together; of two of one path the first counts.
    #[must_use]
    pub fn new(mut fields: Vec<(ExtensionPath, ExtensionContent<C>)>) -> Self {
        fields.sort_by(|one, other| one.0.cmp(&other.0));
        fields.dedup_by(|later, earlier| later.0 == earlier.0);
        Self(fields)
    }

    /// Whether nothing is recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every field, by path.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&ExtensionPath, &ExtensionContent<C>)> {
        self.0.iter().map(|(path, content)| (path, content))
    }

    /// What stands in a field.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&ExtensionContent<C>> {
        let found = self.0.binary_search_by(|(known, _)| known.as_str().cmp(path)).ok()?;
        self.0.get(found).map(|(_, content)| content)
    }

    /// The fields that differ, as `extension.<key>`, each perhaps several times.
    pub fn differences(&self, other: &Self) -> Vec<String>
    where
        C: PartialEq,
    {
        let paths = self.iter().chain(other.iter()).map(|(path, _)| path);
        let changed = paths.filter(|path| self.get(path.as_str()) != other.get(path.as_str()));
        changed.map(|path| field_of_path(&format!("{EXTENSION}.{path}")).to_owned()).collect()
    }

    /// Every code.
    pub fn codes(&self) -> impl Iterator<Item = &C> {
        self.coded().map(|(_, code)| code)
    }

    /// Every code with the field that it stands in.
    pub fn coded(&self) -> impl Iterator<Item = (&ExtensionPath, &C)> {
        let values = self.0.iter().flat_map(|(path, content)| content.values().iter().map(move |value| (path, value)));
        values
            .filter_map(|(path, value)| if let ExtensionValue::Code(code) = value { Some((path, code)) } else { None })
    }

    /// The same fields with every code put through `translate`, which is told the field and where in the record it stands.
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
    /// The values, one or many.
    #[must_use]
    pub fn values(&self) -> &[ExtensionValue<C>] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }
}

impl<C> ExtensionValue<C> {
    /// The type of the value.
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

/// The extension fields that the active modules declare, by path, with the modules that are known, so that an error can name the one that is
/// not active.
///
/// **Invariant:** no path occurs twice or lies below another, and exactly the coded fields name a vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExtensionFields {
    fields: Vec<ExtensionField>,
    modules: Arc<KnownModules>,
}

/// Why a module's extension field cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExtensionFieldFault {
    /// Another field has that path, or one that lies above or below it.
    #[error("the extension field `{path}` clashes with `{known}`")]
    Clash {
        /// The path.
        path: ExtensionPath,
        /// The other field's.
        known: ExtensionPath,
    },
    /// A coded field without a vocabulary.
    #[error("the extension field `{0}` is coded and names no `vocabulary`")]
    NoVocabulary(ExtensionPath),
    /// A vocabulary that no code can be of.
    #[error("the `vocabulary` of the extension field `{0}` is no namespace")]
    Vocabulary(ExtensionPath),
    /// A vocabulary where there are no codes.
    #[error("the extension field `{0}` names a `vocabulary` and is not coded")]
    VocabularyOfUncoded(ExtensionPath),
    /// Too many fields.
    #[error("there would be more than {FIELDS_MAX} extension fields")]
    TooMany,
}

impl ExtensionFields {
    /// Adds a field.
    ///
    /// # Errors
    /// Why it cannot be; nothing is added then.
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

    /// The same beside those modules.
    #[must_use]
    pub fn among(self, modules: Arc<KnownModules>) -> Self {
        Self { modules, ..self }
    }

    /// The modules that are known, active or not.
    #[must_use]
    pub fn modules(&self) -> &KnownModules {
        &self.modules
    }

    /// Every field, by path.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &ExtensionField> {
        self.fields.iter()
    }

    /// The field of a path.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&ExtensionField> {
        let found = self.fields.binary_search_by(|known| known.path.as_str().cmp(path)).ok()?;
        self.fields.get(found)
    }
}

/// Whether two paths cannot both hold values: they are the same, or one lies below the other.
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
    fn fields_never_share_a_path_nor_lie_below_one_another() {
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
    fn there_is_a_bound_on_fields() {
        let mut fields = ExtensionFields::default();
        for at in 0..FIELDS_MAX {
            fields.add(field(&format!("a.b{at}"), ExtensionFieldKind::Text, None)).unwrap();
        }
        assert_eq!(fields.add(field("a.c", ExtensionFieldKind::Text, None)), Err(ExtensionFieldFault::TooMany));
    }

    #[test]
    fn codes_are_translated_in_their_places() {
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
