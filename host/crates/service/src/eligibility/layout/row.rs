//! What one row of a space says in a field.

use crate::eligibility::facts::MembershipFact;
use crate::eligibility::schema::{LIST_MARK, ROLE_PATH, record_kind};
use daftar_domain::calendar::days_since_epoch;
use daftar_domain::code::{CodeNumber, CodedValue};
use daftar_domain::eligibility::{FieldType, RowSpace, Subject};
use daftar_domain::extension::{Extension, ExtensionContent, ExtensionValue};
use daftar_domain::field::{FieldSet, extension_key};
use daftar_domain::record::{Fields, RecordKind};
use daftar_domain::schema::{self, Field, Kind};
use daftar_domain::value::{Value, Values};
use daftar_domain::{group, individual};

/// One row of a space; what its fields do not allow is missing to the rule.
#[derive(Clone, Copy)]
pub(in crate::eligibility) enum Row<'a> {
    /// A person or a group, with the role of a person in the household.
    Record { values: &'a Values, extension: &'a Extension, role: Option<CodedValue>, fields: &'a FieldSet },
    /// An item of a list.
    Item(&'a Value),
    /// An item of a list in a field that a module adds.
    Extended(&'a ExtensionValue),
    /// A membership in a program.
    Membership(&'a MembershipFact),
}

impl<'a> Row<'a> {
    pub(in crate::eligibility) fn of<T>(
        details: &'a Fields<T>,
        role: Option<CodedValue>,
        fields: &'a FieldSet,
    ) -> Self {
        Self::Record { values: &details.values, extension: &details.extension, role, fields }
    }
}

/// One value, before it has a column.
#[derive(Clone, Copy)]
pub(super) enum Cell<'a> {
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Text(&'a str),
    Day(i32),
    Code(CodeNumber),
}

/// Where the values of a column are found in rows: worked out of the path once for a column.
#[derive(Clone, Copy)]
pub(super) enum Place<'p> {
    /// The role in the household. It is the household's to show.
    Role,
    /// What the program of a membership is called.
    Program,
    /// A field of the record that is as if it were `true` where nothing is recorded.
    InUse(&'static Field),
    /// A field of the record.
    Field(&'static Field),
    /// A field of a part that stands in a field of the record.
    Within(&'static Field, &'static Field),
    /// A field that a module adds, by its path in the record and below `extension`.
    Extension(&'p str, &'p str),
    /// The item of a list itself.
    Item(&'static Kind),
    /// A field of the item of a list.
    OfItem(&'static Field),
    /// A field of a part that stands in a field of the item of a list.
    WithinItem(&'static Field, &'static Field),
}

impl<'p> Place<'p> {
    /// The place of a path in the rows of a space; that of a part of items in a list is the place in these.
    pub(super) fn of(subject: Subject, space: RowSpace, path: &'p str) -> Option<Self> {
        let kind = record_kind(subject, space);
        if kind == RecordKind::Individual && path == ROLE_PATH {
            return Some(Self::Role);
        }
        if let Some(below) = extension_key(path) {
            return Some(Self::Extension(path, below));
        }
        let fields = schema::fields(kind);
        if let Some((list, part)) = path.split_once(LIST_MARK) {
            let parts = schema::find(fields, list)?.kind.parts();
            let Some((part, within)) = part.split_once('.') else {
                return schema::find(parts, part).map(Self::OfItem);
            };
            let part = schema::find(parts, part)?;
            return schema::find(part.kind.parts(), within).map(|within| Self::WithinItem(part, within));
        }
        if let Some((field, part)) = path.split_once('.') {
            let field = schema::find(fields, field)?;
            return schema::find(field.kind.parts(), part).map(|part| Self::Within(field, part));
        }
        let field = schema::find(fields, path)?;
        Some(match (kind, &field.kind) {
            (RecordKind::ProgramMembership, Kind::Reference(_)) => Self::Program,
            (RecordKind::Individual, _) if field.tag == individual::ACTIVE.tag() => Self::InUse(field),
            (RecordKind::Group, _) if field.tag == group::ACTIVE.tag() => Self::InUse(field),
            _ => Self::Field(field),
        })
    }

    /// The place of the items of a list that stands here.
    pub(super) fn items(self) -> Option<Self> {
        match self {
            Self::Field(Field { kind: Kind::List { of, .. }, .. }) => Some(Self::Item(of)),
            Self::Extension(..) => Some(self),
            _ => None,
        }
    }

    /// Whether a rule may see what stands here in a record of which it sees these fields.
    fn is_seen(self, fields: &FieldSet) -> bool {
        fields.is_all()
            || match self {
                Self::InUse(field) | Self::Field(field) | Self::Within(field, _) => fields.allows(field.name),
                Self::Extension(path, _) => fields.allows(path),
                Self::Role | Self::Program | Self::Item(_) | Self::OfItem(_) | Self::WithinItem(..) => true,
            }
    }
}

impl<'a> Cell<'a> {
    pub(super) fn is_of(self, kind: FieldType) -> bool {
        match self {
            Self::Boolean(_) => kind == FieldType::Boolean,
            Self::Integer(_) => kind == FieldType::Integer,
            Self::Number(_) => kind == FieldType::Number,
            Self::Text(_) => kind == FieldType::Text,
            Self::Day(_) => kind == FieldType::Date,
            Self::Code(_) => kind == FieldType::Coded,
        }
    }

    fn of(value: &'a Value, kind: &'static Kind) -> Option<Self> {
        match (value, kind) {
            (Value::Boolean(value), _) => Some(Self::Boolean(*value)),
            (Value::Integer(value), _) => Some(Self::Integer(*value)),
            (Value::Number(value), _) => Some(Self::Number(*value)),
            (Value::Text(value), _) => Some(Self::Text(value)),
            (Value::Date(value), _) => Some(Self::Day(days_since_epoch(*value))),
            (Value::Code(value), _) => Some(Self::Code(value.number)),
            (Value::Word(place), Kind::Word(words)) => words.get(usize::from(*place)).map(|word| Self::Text(word)),
            _ => None,
        }
    }

    fn of_module(value: &'a ExtensionValue) -> Self {
        match value {
            ExtensionValue::Boolean(value) => Self::Boolean(*value),
            ExtensionValue::Integer(value) => Self::Integer(*value),
            ExtensionValue::Number(value) => Self::Number(*value),
            ExtensionValue::Text(value) => Self::Text(value),
            ExtensionValue::Date(value) => Self::Day(days_since_epoch(*value)),
            ExtensionValue::Code(value) => Self::Code(value.number),
        }
    }
}

/// What a row says in a place; nothing where it is missing or hidden.
pub(super) fn cell<'a>(row: &Row<'a>, place: Place<'_>) -> Option<Cell<'a>> {
    match *row {
        Row::Record { values, extension, role, fields } => {
            if !place.is_seen(fields) {
                return None;
            }
            match place {
                Place::Role => role.map(|role| Cell::Code(role.number)),
                Place::InUse(field) => {
                    let recorded = values.value(field.tag).and_then(|value| Cell::of(value, &field.kind));
                    recorded.or(Some(Cell::Boolean(true)))
                }
                Place::Field(field) => Cell::of(values.value(field.tag)?, &field.kind),
                Place::Within(field, part) => within(values, field, part),
                Place::Extension(_, path) => match extension.get(path)? {
                    ExtensionContent::One(value) => Some(Cell::of_module(value)),
                    ExtensionContent::Many(_) => None,
                },
                Place::Program | Place::Item(_) | Place::OfItem(_) | Place::WithinItem(..) => None,
            }
        }
        Row::Item(value) => match (place, value) {
            (Place::Item(kind), value) => Cell::of(value, kind),
            (Place::OfItem(part), Value::Struct(parts)) => Cell::of(parts.value(part.tag)?, &part.kind),
            (Place::WithinItem(field, part), Value::Struct(parts)) => within(parts, field, part),
            _ => None,
        },
        Row::Extended(value) => Some(Cell::of_module(value)),
        Row::Membership(fact) => match place {
            Place::Program => fact.program.as_deref().map(Cell::Text),
            Place::Field(field) => Cell::of(fact.values.value(field.tag)?, &field.kind),
            _ => None,
        },
    }
}

/// What a part says in a field that stands in a field of others.
fn within<'a>(values: &'a Values, field: &Field, part: &'static Field) -> Option<Cell<'a>> {
    match values.value(field.tag)? {
        Value::Struct(parts) => Cell::of(parts.value(part.tag)?, &part.kind),
        _ => None,
    }
}

/// Adds the items of the list that stands in a place of a row; whether one is recorded there and may be seen.
pub(super) fn add_items<'a>(row: &Row<'a>, place: Place<'_>, items: &mut Vec<Row<'a>>) -> bool {
    let Row::Record { values, extension, fields, .. } = *row else { return false };
    match place {
        _ if !place.is_seen(fields) => false,
        Place::Extension(_, path) => extension.get(path).is_some_and(|content| {
            items.extend(content.values().iter().map(Row::Extended));
            true
        }),
        Place::Field(field) => match values.value(field.tag) {
            Some(Value::List(list)) => {
                items.extend(list.iter().map(Row::Item));
                true
            }
            _ => false,
        },
        _ => false,
    }
}
