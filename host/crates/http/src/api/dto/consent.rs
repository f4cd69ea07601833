//! The body of a consent.

use serde::Serialize;
use serde_json::{Map, Value};

use super::program_membership::read_subject;
use super::reader::{ObjectReader, Problems, text_value};
use super::shared::{MetaBody, read_type};
use daftar_domain::consent::{CONSENT_RESOURCES, ConsentId, PURPOSE_BYTES_MAX, consent_fields, is_consent_field};
use daftar_domain::individual::LIST_ITEMS_MAX;
use daftar_domain::organization::{LegalBasis, ORGANIZATION_CHARACTERS_MAX, Organization};
use daftar_domain::record::RecordKind;
use daftar_domain::scope::Resource;
use daftar_domain::subject::Subject;
use daftar_service::consent::{ConsentDraft, ConsentView};

/// The longest name of a field or resource that is looked at, in bytes.
const NAME_BYTES_MAX: usize = 100;

/// Reads a body into a consent of that name whose subject is not resolved yet; nothing where a needed field is missing, which
/// is a problem then.
pub fn read(id: ConsentId, members: Map<String, Value>, problems: &mut Problems) -> Option<ConsentDraft> {
    let mut reader = ObjectReader::root(members);
    read_type(&mut reader, RecordKind::Consent, problems);
    let subject = read_subject(&mut reader, "subject", problems);
    let grantee = read_grantee(&mut reader, problems);
    let purpose = reader.text("purpose", PURPOSE_BYTES_MAX, problems);
    let effective_date = reader.date("effective_date", problems);
    if effective_date.is_none() && !reader.is_problem("effective_date", problems) {
        problems.add("effective_date", "required", "the first day on which the consent holds is needed");
    }
    let expiry_date = reader.date("expiry_date", problems);
    if let (Some(first), Some(last)) = (effective_date, expiry_date)
        && last < first
    {
        problems.add("expiry_date", "invalid_date", "the last day lies before the first one, `effective_date`");
    }
    let resources = read_resources(&mut reader, problems);
    check_about(subject.as_ref().map(|subject| subject.kind), &resources, problems);
    let fields = read_fields(&mut reader, problems);
    let legal_bases = LegalBasis::ALL.map(|basis| (basis.name(), basis));
    let legal_basis = reader.word("legal_basis", &legal_bases, problems).unwrap_or(LegalBasis::Consent);
    reader.finish(problems);
    Some(ConsentDraft {
        id,
        subject: subject?,
        grantee: grantee?,
        purpose,
        effective_date: effective_date?,
        expiry_date,
        resources,
        fields,
        legal_basis,
        is_withdrawn: false,
    })
}

fn read_grantee(reader: &mut ObjectReader, problems: &mut Problems) -> Option<Organization> {
    let Some(text) = reader.text("grantee", 4 * ORGANIZATION_CHARACTERS_MAX, problems) else {
        if !reader.is_problem("grantee", problems) {
            problems.add("grantee", "required", "the organization that the consent is given to is needed");
        }
        return None;
    };
    match Organization::parse(&text) {
        Ok(organization) => Some(organization),
        Err(error) => {
            problems.add("grantee", "invalid", error.to_string());
            None
        }
    }
}

fn read_resources(reader: &mut ObjectReader, problems: &mut Problems) -> Vec<Resource> {
    let names: Vec<String> = CONSENT_RESOURCES.iter().map(|resource| format!("`{}`", resource.name())).collect();
    let names = names.join(", ");
    let items = reader.list("scopes", LIST_ITEMS_MAX, problems).unwrap_or_default();
    if items.is_empty() && !reader.is_problem("scopes", problems) {
        problems.add("scopes", "required", format!("what the consent opens is needed, at least one of {names}"));
    }
    let mut resources = Vec::new();
    for (path, item) in items {
        let Some(text) = text_value(&path, item, NAME_BYTES_MAX, problems) else { continue };
        match CONSENT_RESOURCES.into_iter().find(|resource| resource.name() == text) {
            None => problems.add(path, "unknown_value", format!("a consent opens some of {names}")),
            Some(resource) if resources.contains(&resource) => {
                problems.add(path, "duplicate", "the same resource stands twice");
            }
            Some(resource) => resources.push(resource),
        }
    }
    resources
}

/// A consent none of whose scopes is about its subject would open nothing.
fn check_about(kind: Option<Subject>, resources: &[Resource], problems: &mut Problems) {
    let Some(kind) = kind else { return };
    let own = kind.record_kind().resource();
    if !resources.is_empty() && !resources.iter().any(|resource| opens(own, *resource)) {
        let (name, own) = (kind.name(), own.name());
        let message = format!("the consent of a subject of type `{name}` opens `{own}`, `program_membership` or both");
        problems.add("scopes", "contradiction", message);
    }
}

fn opens(own: Resource, resource: Resource) -> bool {
    resource == own || resource == Resource::ProgramMembership
}

fn read_fields(reader: &mut ObjectReader, problems: &mut Problems) -> Option<Vec<String>> {
    let items = reader.list("fields", LIST_ITEMS_MAX, problems)?;
    if items.is_empty() {
        problems.add("fields", "required", "name at least one field, or leave `fields` out to mean all of them");
    }
    let mut fields: Vec<String> = Vec::new();
    for (path, item) in items {
        let Some(text) = text_value(&path, item, NAME_BYTES_MAX, problems) else { continue };
        if !is_consent_field(&text) {
            let message =
                format!("a consent names fields such as {} and `extension.<key>`", consent_fields().join(", "));
            problems.add(path, "unknown_value", message);
        } else if fields.contains(&text) {
            problems.add(path, "duplicate", "the same field stands twice");
        } else {
            fields.push(text);
        }
    }
    Some(fields)
}

/// A consent on the wire.
#[derive(Debug, Serialize)]
pub struct ConsentBody<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    consent_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grantee: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purpose: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effective_date: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiry_date: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scopes: Option<Vec<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    legal_basis: Option<&'static str>,
    meta: MetaBody<'a>,
}

/// Writes what is seen of a consent.
#[must_use]
pub fn write(view: &ConsentView) -> ConsentBody<'_> {
    let (details, seen) = (&view.consent.details, &view.fields);
    ConsentBody {
        kind: "Consent",
        consent_id: details.id.to_string(),
        status: seen.allows("status").then(|| view.status.name()),
        subject: seen.allows("subject").then_some(view.subject.as_str()),
        grantee: seen.allows("grantee").then(|| details.grantee.as_str()),
        purpose: details.purpose.as_deref().filter(|_| seen.allows("purpose")),
        effective_date: seen.allows("effective_date").then(|| details.effective_date.to_string()),
        expiry_date: details.expiry_date.filter(|_| seen.allows("expiry_date")).map(|day| day.to_string()),
        scopes: seen.allows("scopes").then(|| details.resources.iter().map(|resource| resource.name()).collect()),
        fields: details.fields.as_deref().filter(|_| seen.allows("fields")),
        legal_basis: seen.allows("legal_basis").then(|| details.legal_basis.name()),
        meta: MetaBody::from(&view.consent.meta),
    }
}
