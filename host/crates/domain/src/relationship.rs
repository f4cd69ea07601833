//! How a record stands to another one of its kind, told from its own side. Nothing is written into the other one.

use super::calendar::Period;
use super::record::RecordKind;
use super::schema::{Field, Kind, PERIOD, Struct};
use super::value::{Code, Key, Link};
use super::vocabulary::CodedField;

/// The other record.
pub const RELATIONSHIP_TARGET: Key<Link> = Key::new(1);
/// What the other record is to this one: a code of the relationship vocabulary for records of their kind.
pub const RELATIONSHIP_TYPE: Key<Code> = Key::new(2);
/// When.
pub const RELATIONSHIP_PERIOD: Key<Period> = Key::new(3);

/// How a person stands to another one, in whatever groups they are.
pub const KINSHIPS: Struct = Struct {
    name: "Kinship",
    about: "The relationship of a person to another one.",
    fields: &[
        Field::new(RELATIONSHIP_TARGET, "target", Kind::Reference(&[RecordKind::Individual]))
            .required("a relationship names the other person: `{reference: \"Individual/<system>|<value>\"}`"),
        Field::new(RELATIONSHIP_TYPE, "type", Kind::Code(CodedField::KinshipType))
            .required(
                "a relationship says what the other person is: a code of `urn:svc:vocab:relationship` for individuals",
            )
            .in_rules(),
        Field::new(RELATIONSHIP_PERIOD, "period", Kind::Struct(&PERIOD)).in_rules(),
    ],
};

/// How a group stands to another one.
pub const RELATIONSHIPS: Struct = Struct {
    name: "Relationship",
    about: "The relationship of a group to another one.",
    fields: &[
        Field::new(RELATIONSHIP_TARGET, "target", Kind::Reference(&[RecordKind::Group]))
            .required("a relationship names the other group: `{reference: \"Group/<system>|<value>\"}`"),
        Field::new(RELATIONSHIP_TYPE, "type", Kind::Code(CodedField::RelationshipType))
            .required("a relationship says what the other group is: a code of `urn:svc:vocab:relationship` for groups"),
        Field::new(RELATIONSHIP_PERIOD, "period", Kind::Struct(&PERIOD)),
    ],
};
