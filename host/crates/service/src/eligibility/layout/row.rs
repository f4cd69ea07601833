//! What one row of a space says under a path.

use crate::eligibility::facts::MembershipFact;
use crate::eligibility::schema::ROLE_PATH;
use daftar_domain::address::Address;
use daftar_domain::calendar::days_since_epoch;
use daftar_domain::code::{CodeNumber, CodedValue};
use daftar_domain::eligibility::FieldType;
use daftar_domain::extension::{Extension, ExtensionContent, ExtensionValue};
use daftar_domain::field::FieldSet;
use daftar_domain::group::GroupDetails;
use daftar_domain::individual::{IncomePeriod, IndividualDetails};
use daftar_domain::vocabulary::CodedField;

/// One row of a space; what its fields do not allow is missing to the rule.
#[derive(Clone, Copy)]
pub(in crate::eligibility) enum Row<'a> {
    Person(&'a IndividualDetails, Option<CodedValue>, &'a FieldSet),
    Group(&'a GroupDetails, &'a FieldSet),
    Address(&'a Address),
    Code(CodedValue),
    Value(&'a ExtensionValue),
    Membership(&'a MembershipFact),
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

/// What the paths of fields begin with that modules add.
pub(super) const EXTENSION_PREFIX: &str = "extension.";

impl Cell<'_> {
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
}

pub(super) fn extension_of<'a>(row: &Row<'a>) -> Option<&'a Extension> {
    match row {
        Row::Person(details, ..) => Some(&details.extension),
        Row::Group(details, _) => Some(&details.extension),
        Row::Address(_) | Row::Code(_) | Row::Value(_) | Row::Membership(_) => None,
    }
}

fn extension_cell(value: &ExtensionValue) -> Cell<'_> {
    match value {
        ExtensionValue::Boolean(value) => Cell::Boolean(*value),
        ExtensionValue::Integer(value) => Cell::Integer(*value),
        ExtensionValue::Number(value) => Cell::Number(*value),
        ExtensionValue::Text(value) => Cell::Text(value),
        ExtensionValue::Date(value) => Cell::Day(days_since_epoch(*value)),
        ExtensionValue::Code(value) => Cell::Code(value.number),
    }
}

/// Whether a rule may see what stands under a path. A place in a household is the household's to show.
pub(super) fn is_seen(row: &Row<'_>, path: &str) -> bool {
    match row {
        Row::Person(_, _, fields) => path == ROLE_PATH || fields.allows(path),
        Row::Group(_, fields) => fields.allows(path),
        Row::Address(_) | Row::Code(_) | Row::Value(_) | Row::Membership(_) => true,
    }
}

/// What a row says under a path; nothing where it is missing or hidden.
pub(super) fn cell<'a>(row: Row<'a>, path: &str) -> Option<Cell<'a>> {
    let text = |text: &'a Option<String>| text.as_deref().map(Cell::Text);
    let code = |value: Option<CodedValue>| value.map(|value| Cell::Code(value.number));
    if !is_seen(&row, path) {
        return None;
    }
    match row {
        Row::Code(value) => code(Some(value)),
        Row::Value(value) => Some(extension_cell(value)),
        Row::Person(..) | Row::Group(..) if let Some(path) = path.strip_prefix(EXTENSION_PREFIX) => {
            match extension_of(&row)?.get(path)? {
                ExtensionContent::One(value) => Some(extension_cell(value)),
                ExtensionContent::Many(_) => None,
            }
        }
        Row::Membership(fact) => match path {
            "program" => text(&fact.program),
            "status" => fact.status.map(|status| Cell::Text(status.name())),
            "enrollment_date" => fact.enrollment_date.map(|day| Cell::Day(days_since_epoch(day))),
            "exit_date" => fact.exit_date.map(|day| Cell::Day(days_since_epoch(day))),
            "exit_reason" => text(&fact.exit_reason),
            _ => None,
        },
        Row::Group(details, _) => match path {
            "active" => Some(Cell::Boolean(details.active.unwrap_or(true))),
            "name" => text(&details.name),
            "group_type" => code(details.group_type),
            "housing_type" => code(details.housing_type),
            _ => None,
        },
        Row::Address(address) => match path {
            "type" => text(&address.kind),
            "text" => text(&address.text),
            "city" => text(&address.city),
            "district" => text(&address.district),
            "region" => text(&address.region),
            "postal_code" => text(&address.postal_code),
            "country" => code(address.country),
            _ => None,
        },
        Row::Person(details, role, _) => match path {
            ROLE_PATH => code(role),
            "active" => Some(Cell::Boolean(details.active.unwrap_or(true))),
            "birth_date" => details.birth_date.map(|day| Cell::Day(days_since_epoch(day))),
            "birth_date_estimated" => details.birth_date_estimated.map(Cell::Boolean),
            "deceased_date" => details.deceased_date.map(|day| Cell::Day(days_since_epoch(day))),
            "income.amount" => details.income.map(|income| Cell::Number(income.amount)),
            "income.currency" => code(details.income.and_then(|income| income.currency)),
            "income.period" => details.income.and_then(|income| income.period).map(|period| {
                Cell::Text(match period {
                    IncomePeriod::Month => "month",
                    IncomePeriod::Year => "year",
                })
            }),
            _ => match path.strip_prefix("name.") {
                Some(part) => name_part(details, part),
                None => {
                    let field = CodedField::individual_singles().find(|field| field.path() == path);
                    field.and_then(|field| code(details.code(field)))
                }
            },
        },
    }
}

fn name_part<'a>(details: &'a IndividualDetails, part: &str) -> Option<Cell<'a>> {
    let name = details.name.as_ref()?;
    let text = match part {
        "family" => &name.family,
        "given" => &name.given,
        "middle" => &name.middle,
        "prefix" => &name.prefix,
        "suffix" => &name.suffix,
        "text" => &name.text,
        _ => return None,
    };
    text.as_deref().map(Cell::Text)
}
