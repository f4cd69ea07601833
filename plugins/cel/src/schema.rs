//! The fields and types of the registry that an expression may use.

use std::collections::{BTreeMap, BTreeSet};

/// The kind of a rule's subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A person.
    Individual,
    /// A household or another group.
    Group,
}

/// The rows that a field belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    /// The subject itself.
    Me,
    /// The active members of the subject's household.
    Members,
    /// The program memberships of the subject.
    Programs,
}

impl Space {
    /// The root's name in an expression, and the prefix of a missing fact's name.
    pub fn root(self) -> &'static str {
        match self {
            Space::Me => "me",
            Space::Members => "members",
            Space::Programs => "programs",
        }
    }
}

/// The type of one value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// True or false.
    Boolean,
    /// A whole number of 64 bits.
    Integer,
    /// A number of 64 bits with a fraction.
    Number,
    /// Text.
    Text,
    /// A calendar day.
    Date,
    /// A code of a vocabulary.
    Coded,
    /// A repeated structure; its parts are fields of their own.
    Structure,
}

/// One field that an expression may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The rows it belongs to.
    pub space: Space,
    /// Dotted path below the root; a field inside a repeated structure is written `address[].district`.
    pub path: String,
    /// The type of its values, or of its items if it is repeated.
    pub kind: FieldType,
    /// True if it is a list in expressions.
    pub is_repeated: bool,
    /// The namespaces of its codes; empty unless coded.
    pub vocabularies: Vec<String>,
}

/// The schema of expressions.
#[derive(Clone, Debug)]
pub struct Schema {
    subject: Subject,
    fields: BTreeMap<(Space, String), Field>,
}

impl Schema {
    /// A schema of these fields; later duplicates replace earlier ones.
    pub fn new(subject: Subject, fields: impl IntoIterator<Item = Field>) -> Self {
        let fields = fields.into_iter().map(|field| ((field.space, field.path.clone()), field)).collect();
        Self { subject, fields }
    }

    /// The kind of the subject.
    pub fn subject(&self) -> Subject {
        self.subject
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Returns true if there are no fields.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The field of that path.
    pub fn field(&self, space: Space, path: &str) -> Option<&Field> {
        self.fields.get(&(space, path.to_owned()))
    }

    /// The fields whose path starts with `prefix`, sorted by path.
    pub fn below<'a>(&'a self, space: Space, prefix: &'a str) -> impl Iterator<Item = &'a Field> + 'a {
        self.fields
            .range((space, prefix.to_owned())..)
            .map(|(_, field)| field)
            .take_while(move |field| field.space == space && field.path.starts_with(prefix))
    }

    /// The next part of the path of every field below `prefix`: `family` and `given` for `name.`.
    pub fn names_below<'a>(&'a self, space: Space, prefix: &'a str) -> Vec<&'a str> {
        let names: BTreeSet<&str> = self
            .below(space, prefix)
            .filter_map(|field| field.path.get(prefix.len()..))
            .map(|rest| rest.split(['.', '[']).next().unwrap_or(rest))
            .filter(|name| !name.is_empty())
            .collect();
        names.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str) -> Field {
        Field {
            space: Space::Me,
            path: path.into(),
            kind: FieldType::Text,
            is_repeated: false,
            vocabularies: Vec::new(),
        }
    }

    #[test]
    fn names_below_a_prefix_are_the_next_parts_once_each() {
        let schema = Schema::new(
            Subject::Individual,
            [text("name.given"), text("name.family"), text("address[].city"), text("address"), text("names")],
        );
        assert_eq!(schema.names_below(Space::Me, "name."), ["family", "given"]);
        assert_eq!(schema.names_below(Space::Me, ""), ["address", "name", "names"]);
        assert!(schema.names_below(Space::Members, "").is_empty());
    }
}
