//! The API fields of each resource, and sets of them to which a grant or a consent gives access.
//!
//! **Invariant:** the names are those of the schema ([`super::schema`]). `type`, `identifier`, `meta` and the id of a
//! consent are always included: a record without them could not be addressed or changed.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use super::extension::EXTENSION;
use super::record::RecordKind;
use super::schema;
use super::scope::Resource;

/// Fields included for every record, regardless of restrictions.
pub const ALWAYS_SHOWN: [&str; 4] = ["type", "identifier", "meta", "consent_id"];

/// Maximum length of a key below `extension`, in bytes.
const EXTENSION_KEY_BYTES_MAX: usize = 60;

/// Computed fields, in addition to the schema, by kind: the server derives them from other records.
const COMPUTED: [(RecordKind, &str); 3] =
    [(RecordKind::Individual, "group_membership"), (RecordKind::Group, "quantity"), (RecordKind::Consent, "status")];

/// Returns the computed field of a kind of record.
#[must_use]
pub fn computed(kind: RecordKind) -> Option<&'static str> {
    COMPUTED.iter().find(|(of, _)| *of == kind).map(|(_, name)| *name)
}

/// Returns the names of the fields of a kind of record, as in bodies, identifiers first.
fn names(kind: RecordKind) -> Vec<&'static str> {
    let identifier = (kind != RecordKind::Consent).then_some("identifier");
    let fields = schema::fields(kind).iter().filter(|field| !field.is_internal).map(|field| field.name);
    let extension = matches!(kind, RecordKind::Individual | RecordKind::Group).then_some(EXTENSION);
    identifier.into_iter().chain(fields).chain(extension).chain(computed(kind)).collect()
}

/// Returns the fields of a resource that can be restricted; empty if it has none. With `extension`, each
/// `extension.<key>` is valid too.
#[must_use]
pub fn fields_of(resource: Resource) -> &'static [&'static str] {
    static NAMES: LazyLock<[Vec<&str>; 5]> = LazyLock::new(|| RecordKind::ALL.map(names));
    let kind = RecordKind::ALL.iter().position(|kind| kind.resource() == resource);
    kind.and_then(|kind| NAMES.get(kind)).map_or(&[], Vec::as_slice)
}

/// Error: a text is not a field name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no field of `{}`", .resource.name())]
pub struct FieldNameError {
    /// The text, truncated.
    pub text: String,
    /// The resource.
    pub resource: Resource,
}

/// The name of a field: one of [`fields_of`], or `extension.<key>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldName(String);

texts!(FieldName);

impl FieldName {
    /// Parses the name of a field of a resource.
    ///
    /// # Errors
    /// The resource has no such field.
    pub fn parse(resource: Resource, text: &str) -> Result<Self, FieldNameError> {
        let known = fields_of(resource);
        let is_extension = || known.contains(&EXTENSION) && extension_key(text).is_some_and(is_key);
        if known.contains(&text) || is_extension() {
            return Ok(Self(text.to_owned()));
        }
        let text = text.chars().take(80).filter(|shown| !shown.is_control()).collect();
        Err(FieldNameError { text, resource })
    }

    /// Creates the name of a field of a later version, as found in stored data; it grants access to nothing here. None
    /// if the text cannot be a field name.
    #[must_use]
    pub fn of_newer(text: &str) -> Option<Self> {
        is_key(text).then(|| Self(text.to_owned()))
    }
}

impl Borrow<str> for FieldName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Returns the key of `extension.<key>`.
#[must_use]
pub fn extension_key(name: &str) -> Option<&str> {
    name.strip_prefix(EXTENSION)?.strip_prefix('.')
}

/// True if a text is a valid key below `extension`.
#[must_use]
pub fn is_key(key: &str) -> bool {
    !key.is_empty()
        && key.len() <= EXTENSION_KEY_BYTES_MAX
        && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Returns the field of a path: `address` of `address[0].country`, `extension.farmer` of `extension.farmer.crops`.
#[must_use]
pub fn field_of_path(path: &str) -> &str {
    let end_of_key = |from: usize| {
        let rest = path.get(from..).unwrap_or_default();
        rest.find(['.', '[']).map_or(path.len(), |end| from + end)
    };
    let first = end_of_key(0);
    let end = match extension_key(path) {
        Some(_) => end_of_key(first + 1),
        None => first,
    };
    path.get(..end).unwrap_or(path)
}

/// A set of fields of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FieldSet {
    /// Every field.
    All,
    /// Only these, and the fields that are always included. `extension` includes each `extension.<key>`.
    Only(Arc<BTreeSet<FieldName>>),
}

impl FieldSet {
    /// Returns the set of only the fields that are always included.
    #[must_use]
    pub fn none() -> Self {
        Self::Only(Arc::default())
    }

    /// Returns the set of these fields.
    pub fn only(names: impl IntoIterator<Item = FieldName>) -> Self {
        let mut names: BTreeSet<FieldName> = names.into_iter().collect();
        if names.contains(EXTENSION) {
            names.retain(|name| extension_key(name.as_str()).is_none());
        }
        Self::Only(Arc::new(names))
    }

    /// True if a field, or the field of a path, is in the set or always included.
    #[must_use]
    pub fn allows(&self, path: &str) -> bool {
        let field = field_of_path(path);
        ALWAYS_SHOWN.contains(&field) || self.names(field)
    }

    /// True if a field is in the set itself, also if it is always included.
    #[must_use]
    pub fn names(&self, field: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(field) || (extension_key(field).is_some() && names.contains(EXTENSION)),
        }
    }

    /// True if the set contains every field.
    #[must_use]
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }

    /// Returns the union of both sets.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::Only(one), Self::Only(two)) => Self::only(one.union(two).cloned()),
        }
    }

    /// Returns the intersection of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::All, set) | (set, Self::All) => set.clone(),
            (Self::Only(one), Self::Only(two)) => {
                let in_both = one.iter().filter(|name| other.names(name.as_str()));
                Self::only(in_both.chain(two.iter().filter(|name| self.names(name.as_str()))).cloned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> FieldSet {
        FieldSet::only(names.iter().map(|name| FieldName::parse(Resource::Individual, name).unwrap()))
    }

    #[test]
    fn a_name_is_a_field_of_its_resource_or_a_key_of_its_extension() {
        for (resource, name) in [
            (Resource::Individual, "birth_date"),
            (Resource::Individual, "extension.farmer"),
            (Resource::Group, "extension"),
            (Resource::ProgramMembership, "override"),
        ] {
            assert_eq!(FieldName::parse(resource, name).unwrap().as_str(), name);
        }
        for (resource, name) in [
            (Resource::Individual, "birthdate"),
            (Resource::Individual, "extension."),
            (Resource::Individual, "extension.farmer.crops"),
            (Resource::Individual, "extension.Farmer"),
            (Resource::Individual, "address.country"),
            (Resource::Program, "extension.farmer"),
            (Resource::Vocabulary, "name"),
            (Resource::Group, ""),
        ] {
            assert!(FieldName::parse(resource, name).is_err(), "{name}");
        }
        let key = "k".repeat(EXTENSION_KEY_BYTES_MAX);
        assert!(FieldName::parse(Resource::Group, &format!("extension.{key}")).is_ok());
        assert!(FieldName::parse(Resource::Group, &format!("extension.{key}k")).is_err());
    }

    #[test]
    fn a_path_belongs_to_a_field() {
        for (path, field) in [
            ("name", "name"),
            ("address[0].country", "address"),
            ("name.given", "name"),
            ("extension", "extension"),
            ("extension.farmer", "extension.farmer"),
            ("extension.farmer.crops[1]", "extension.farmer"),
            ("extensions.farmer", "extensions"),
            ("", ""),
        ] {
            assert_eq!(field_of_path(path), field);
        }
    }

    #[test]
    fn a_set_allows_its_fields_and_those_always_included() {
        let some = set(&["name", "extension.farmer"]);
        for path in ["type", "identifier[0].value", "meta.version_id", "name.given", "extension.farmer.crops"] {
            assert!(some.allows(path), "{path}");
        }
        for path in ["birth_date", "extension", "extension.herder", "names", ""] {
            assert!(!some.allows(path), "{path}");
        }
        assert!(!some.names("identifier") && set(&["identifier"]).names("identifier"));
        assert!(FieldSet::All.allows("birth_date") && FieldSet::All.names("identifier"));
        assert!(FieldSet::none().allows("identifier") && !FieldSet::none().allows("name"));
    }

    #[test]
    fn extension_includes_each_of_its_keys() {
        let (whole, key) = (set(&["extension", "name"]), set(&["extension.farmer"]));
        assert!(whole.allows("extension.farmer.crops") && whole.allows("extension"));
        assert_eq!(whole.union(&key), whole);
        assert_eq!(whole.intersection(&key), key);
        assert_eq!(key.intersection(&whole), key);
        assert_eq!(set(&["name"]).intersection(&set(&["gender"])), FieldSet::none());
        assert_eq!(FieldSet::All.intersection(&key), key);
        assert_eq!(FieldSet::All.union(&key), FieldSet::All);
    }
}
