//! The body of a person.

use crate::api::openapi::shape::{self, Members, Shape, boolean, date, list, named, text, word, written};
use crate::api::openapi::shared::{code_of, code_sent_of, extension, extension_sent, list_sent, type_sent};
use daftar_domain::extension::ExtensionFields;
use daftar_domain::individual::TEXT_BYTES_MAX;
use daftar_domain::person_name::NAME_PART_BYTES_MAX;
use daftar_domain::record::RecordKind;
use daftar_domain::vocabulary::CodedField;

/// The parts of a name.
const NAME_PARTS: [&str; 6] = ["family", "given", "middle", "prefix", "suffix", "text"];
/// What a person may be reached by.
const TELECOM_SYSTEMS: [&str; 4] = ["phone", "email", "sms", "url"];
/// How often an income comes.
const INCOME_PERIODS: [&str; 2] = ["month", "year"];
/// The shapes of this noun, by name; `fields` are those that installed modules add.
#[must_use]
pub fn shapes(fields: &ExtensionFields) -> Vec<(String, Shape)> {
    let identifiers = || list_sent(named("IdentifierSent")).min_items(Some(1));
    let sent = person_sent(Members::sent("A person, to be written."), fields);
    let patch = person_sent(Members::sent("What is to be changed of a person."), fields);
    [
        ("Individual", answered(fields)),
        ("IndividualSent", sent.needs("identifier", identifiers()).into()),
        ("IndividualPatch", patch.may_filled("identifier", identifiers()).into()),
        ("IndividualPage", crate::api::openapi::shared::page_of("Individual")),
        ("Place", place()),
    ]
    .map(|(name, shape)| (name.to_owned(), shape))
    .into()
}

/// Everything that a request may say of a person beside the identifiers.
#[must_use]
pub fn person_sent(members: Members, fields: &ExtensionFields) -> Members {
    let name = Members::sent("What a person is called.")
        .may_each(NAME_PARTS.map(|part| (part, written(NAME_PART_BYTES_MAX).into())));
    let telecom = Members::sent("A way to reach somebody.")
        .needs("system", word(TELECOM_SYSTEMS))
        .needs("value", written(TEXT_BYTES_MAX))
        .may("use", written(100))
        .may("rank", shape::whole(1).maximum(Some(f64::from(u32::MAX))));
    let income = Members::sent("What somebody earns.")
        .needs("amount", shape::number().minimum(Some(0.0)))
        .may("currency", code_sent_of(CodedField::IncomeCurrency))
        .may("period", word(INCOME_PERIODS));
    members
        .may_each(type_sent(RecordKind::Individual))
        .may("active", boolean())
        .may("name", name)
        .may("birth_date", date())
        .may("birth_date_estimated", boolean())
        .may("deceased_date", date())
        .may_each(CodedField::individual_singles().map(|field| (field.path(), code_sent_of(field))))
        .may_each(CodedField::individual_lists().map(|field| (field.path(), list_sent(code_sent_of(field)).into())))
        .may("telecom", list_sent(Shape::from(telecom)))
        .may("address", list_sent(named("AddressSent")))
        .may("income", income)
        .may("photo", shape::base64().description(Some("A picture, of at most 5,000,000 bytes.")))
        .may("extension", extension_sent(fields))
        .may("meta", shape::ignored())
        .may("group_membership", shape::ignored())
}

fn answered(fields: &ExtensionFields) -> Shape {
    let name = Members::answered("What a person is called.").may_each(NAME_PARTS.map(|part| (part, text().into())));
    let telecom = Members::answered("A way to reach somebody.")
        .may("system", word(TELECOM_SYSTEMS))
        .may("value", text())
        .may("use", text())
        .may("rank", shape::whole(1));
    let income = Members::answered("What somebody earns.")
        .may("amount", shape::number().minimum(Some(0.0)))
        .may("currency", code_of(CodedField::IncomeCurrency))
        .may("period", word(INCOME_PERIODS));
    let about = "A person. A field that is not there is not recorded, or not for this client; an empty list is known to be empty.";
    Members::answered(about)
        .needs("type", word(["Individual"]))
        .needs("identifier", list(named("Identifier")))
        .may("active", boolean().description(Some("A record without it is in use.")))
        .may("name", name)
        .may("birth_date", date())
        .may("birth_date_estimated", boolean())
        .may("deceased_date", date())
        .may_each(CodedField::individual_singles().map(|field| (field.path(), code_of(field))))
        .may_each(CodedField::individual_lists().map(|field| (field.path(), list(code_of(field)).into())))
        .may("telecom", list(Shape::from(telecom)))
        .may("address", list(named("Address")))
        .may("income", income)
        .may("photo", text().description(Some("In base64; only where one person is read.")))
        .may("extension", extension(fields))
        .may(
            "group_membership",
            list(named("Place")).description(Some("Only where one person is read, with `group:read`.")),
        )
        .needs("meta", named("Meta"))
        .into()
}

fn place() -> Shape {
    Members::answered("A person's place in a group.")
        .may("group", named("Reference"))
        .may("role", code_of(CodedField::MemberRole))
        .may("period", named("Period"))
        .may("inactive", boolean())
        .into()
}
