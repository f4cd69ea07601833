//! One-directional relationships of a record to another one of its kind. The inverse is not created.

use super::calendar::Period;
use super::record::RecordKind;
use super::schema::{Field, Kind, PERIOD, Struct};
use super::value::{Code, Key, Link};
use super::vocabulary::CodedField;

/// The other record.
pub const RELATIONSHIP_TARGET: Key<Link> = Key::new(1);
/// The role of the other record: a code of the relationship vocabulary for records of their kind.
pub const RELATIONSHIP_TYPE: Key<Code> = Key::new(2);
/// Period.
pub const RELATIONSHIP_PERIOD: Key<Period> = Key::new(3);

/// Relationships between individuals, independent of groups.
pub const KINSHIPS: Struct = Struct {
    name: "Kinship",
    about: "The relationship of a person to another one.",
    fields: &[
        Field::new(RELATIONSHIP_TARGET, "target", Kind::Reference(&[RecordKind::Individual]))
            .required("a relationship requires a reference to the other person: `{reference: \"Individual/<system>|<value>\"}`"),
        Field::new(RELATIONSHIP_TYPE, "type", Kind::Code(CodedField::KinshipType))
            .required(
                "a relationship requires the role of the other person: a code of `urn:svc:vocab:relationship` for individuals",
            )
            .in_rules(),
        Field::new(RELATIONSHIP_PERIOD, "period", Kind::Struct(&PERIOD)).in_rules(),
    ],
};

/// Relationships between groups.
pub const RELATIONSHIPS: Struct = Struct {
    name: "Relationship",
    about: "The relationship of a group to another one.",
    fields: &[
        Field::new(RELATIONSHIP_TARGET, "target", Kind::Reference(&[RecordKind::Group])).required(
            "a relationship requires a reference to the other group: `{reference: \"Group/<system>|<value>\"}`",
        ),
        Field::new(RELATIONSHIP_TYPE, "type", Kind::Code(CodedField::RelationshipType)).required(
            "a relationship requires the role of the other group: a code of `urn:svc:vocab:relationship` for groups",
        ),
        Field::new(RELATIONSHIP_PERIOD, "period", Kind::Struct(&PERIOD)),
    ],
};
