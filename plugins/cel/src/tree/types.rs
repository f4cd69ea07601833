//! The static types of expressions.

use super::Domain;
use crate::facts::FactSet;
use crate::schema::Space;

/// The static type of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
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
    /// A code, with the fields from which it may have been read.
    Coded(FactSet),
    /// A row, or a structure in it.
    Record(RecordType),
    /// A list of such values.
    List(Box<Type>),
    /// The items of an empty list literal.
    Nothing,
    /// A value of CEL of a type that records do not have.
    Other(OtherType),
    /// A value whose type is known only at evaluation.
    Dynamic,
}

/// A type of CEL that no field of a record has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherType {
    /// A whole number without a sign, such as `5u`.
    Unsigned,
    /// Bytes.
    Bytes,
    /// `null`.
    Null,
    /// A map.
    Map,
    /// An instant, by `timestamp(…)`.
    Timestamp,
    /// A span of time, by `duration(…)`.
    Duration,
    /// A type, by `type(…)` or its name.
    Kind,
    /// An optional value, such as `me.?district`.
    Optional,
}

/// The type of a person, a membership or a structure.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordType {
    /// The space of its fields.
    pub space: Space,
    /// The prefix of the paths of its fields: empty, `name.` or `address[].`
    pub prefix: String,
    /// The rows of its columns.
    pub domain: Domain,
}

impl Type {
    /// The type's name in CEL.
    pub fn cel_name(&self) -> &'static str {
        match self {
            Type::Boolean => "bool",
            Type::Integer => "int",
            Type::Number => "double",
            Type::Text => "string",
            Type::Date => "date",
            Type::Coded(_) => "code",
            Type::Record(_) => "record",
            Type::List(_) => "list",
            Type::Nothing | Type::Dynamic => "dyn",
            Type::Other(OtherType::Unsigned) => "uint",
            Type::Other(OtherType::Bytes) => "bytes",
            Type::Other(OtherType::Null) => "null_type",
            Type::Other(OtherType::Map) => "map",
            Type::Other(OtherType::Timestamp) => "google.protobuf.Timestamp",
            Type::Other(OtherType::Duration) => "google.protobuf.Duration",
            Type::Other(OtherType::Kind) => "type",
            Type::Other(OtherType::Optional) => "optional_type",
        }
    }

    /// Returns true if it is a number of either kind.
    pub fn is_numeric(&self) -> bool {
        matches!(self, Type::Integer | Type::Number)
    }

    /// Returns true if the crate supports its values: all but dates, codes and records.
    pub fn is_portable(&self) -> bool {
        match self {
            Type::Date | Type::Coded(_) | Type::Record(_) => false,
            Type::List(item) => item.is_portable(),
            Type::Boolean
            | Type::Integer
            | Type::Number
            | Type::Text
            | Type::Nothing
            | Type::Other(_)
            | Type::Dynamic => true,
        }
    }

    /// Returns true if only the crate supports its values, or those in it.
    pub fn is_foreign(&self) -> bool {
        match self {
            Type::Other(_) | Type::Dynamic => true,
            Type::List(item) => item.is_foreign(),
            _ => false,
        }
    }

    /// The common type of both, if there is one.
    pub fn common(&self, other: &Type) -> Option<Type> {
        match (self, other) {
            (Type::Nothing, wider) | (wider, Type::Nothing) => Some(wider.clone()),
            (Type::Dynamic, other) | (other, Type::Dynamic) => other.is_portable().then_some(Type::Dynamic),
            (Type::Other(this), Type::Other(that)) if this == that => Some(self.clone()),
            (Type::Coded(these), Type::Coded(those)) => Some(Type::Coded(these.union(*those))),
            (Type::List(these), Type::List(those)) => Some(Type::List(Box::new(these.common(those)?))),
            (Type::Record(this), Type::Record(that)) if this == that => Some(self.clone()),
            (Type::Boolean, Type::Boolean)
            | (Type::Integer, Type::Integer)
            | (Type::Number, Type::Number)
            | (Type::Text, Type::Text)
            | (Type::Date, Type::Date) => Some(self.clone()),
            _ => None,
        }
    }
}
