//! Access that consents grant to a client, as conditions on rows.

use std::collections::BTreeMap;

use tokio_postgres::Row;

use super::filter::Parameters;
use super::row::{key, subject_in, subject_kind};
use super::time::Day;
use crate::rows::column;
use daftar_domain::consent::{ConsentId, Opened};
use daftar_domain::extension::EXTENSION;
use daftar_domain::field::{ALWAYS_SHOWN, FieldName, FieldSet, extension_key};
use daftar_domain::scope::Resource;
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_store::StoreError;
use daftar_store::index::Sees;

/// The rows that a client sees, and which of their fields.
pub(super) struct Sight {
    /// Condition of a consent `c` that is valid for the client today.
    counts: String,
}

impl Sight {
    /// `None` if no consent can grant access to the client.
    pub(super) fn new(sees: Sees<'_>, parameters: &mut Parameters) -> Option<Self> {
        let organization = sees.filter.organization.as_ref()?.as_str().to_owned();
        let grantee = parameters.bind(organization, "text");
        let day = parameters.bind(Day::from(sees.day), "date");
        let mut counts =
            format!("c.grantee = {grantee} AND c.first_day <= {day} AND c.last_day >= {day} AND NOT c.is_withdrawn");
        if let Some(purpose) = &sees.filter.purpose {
            let purpose = parameters.bind(purpose.as_str().to_owned(), "text");
            counts.push_str(&format!(" AND c.purpose = {purpose}"));
        }
        Some(Self { counts })
    }

    /// Requires that the client sees a record, or may check a field of it if one is named. `record` is the key of an
    /// individual or group; a membership is the row `p`.
    pub(super) fn opens(
        &self,
        resource: Resource,
        record: &str,
        field: Option<&str>,
        parameters: &mut Parameters,
    ) -> String {
        let (counts, granting) = (&self.counts, granting(resource));
        let whose = match resource {
            Resource::ProgramMembership => {
                "c.subject = p.beneficiary AND c.subject_kind = p.beneficiary_kind".to_owned()
            }
            _ => format!("c.subject = {record}"),
        };
        let names = match field {
            Some(field) if !ALWAYS_SHOWN.contains(&field) => {
                let named = FieldName::parse(resource, field).ok().map(|field| field.as_str().to_owned());
                let of_modules = extension_key(field).map(|_| EXTENSION.to_owned());
                let names: Vec<String> = named.into_iter().chain(of_modules).collect();
                format!(" AND (c.fields IS NULL OR c.fields && {})", parameters.bind(names, "text[]"))
            }
            Some(_) | None => String::new(),
        };
        format!("EXISTS (SELECT FROM daftar.search_consent AS c WHERE {whose} AND {granting} AND {counts}{names})")
    }

    /// The statement that returns the consents for these records, or for their memberships, with their subjects.
    pub(super) fn consents(
        &self,
        resource: Resource,
        subjects: &[SubjectReference],
        parameters: &mut Parameters,
    ) -> String {
        let kinds: Vec<i16> = subjects.iter().map(|subject| subject_kind(subject.kind)).collect();
        let keys: Vec<i64> = subjects.iter().map(|subject| key(subject.id)).collect();
        let (kinds, keys) = (parameters.bind(kinds, "smallint[]"), parameters.bind(keys, "bigint[]"));
        let granting = granting(resource);
        format!(
            "SELECT c.subject_kind, c.subject, c.consent_id::text, c.fields FROM daftar.search_consent AS c \
             WHERE (c.subject_kind, c.subject) IN (SELECT * FROM unnest({kinds}, {keys})) AND {granting} AND {} ORDER BY c.id",
            self.counts
        )
    }
}

/// Condition of a consent `c` that grants access to its subject, or to the memberships of its subject.
fn granting(resource: Resource) -> String {
    let of_subject = |kind| format!("c.subject_kind = {} AND c.opens_subject", subject_kind(kind));
    match resource {
        Resource::Individual => of_subject(Subject::Individual),
        Resource::Group => of_subject(Subject::Group),
        Resource::ProgramMembership => "c.opens_memberships".to_owned(),
        Resource::Program | Resource::Consent | Resource::Vocabulary | Resource::Eligibility | Resource::Identifier => {
            "false".to_owned()
        }
    }
}

/// Access that the consents of each record grant together, in the order in which they were stored.
pub(super) fn opened(
    resource: Resource,
    subjects: &[SubjectReference],
    rows: &[Row],
) -> Result<Vec<Option<Opened>>, StoreError> {
    let mut by_subject: BTreeMap<SubjectReference, Opened> = BTreeMap::new();
    for row in rows {
        let id = ConsentId::parse(column(row, 2)?)
            .map_err(|error| StoreError::Corrupt { what: "consent in the index", reason: error.to_string() })?;
        let fields = match column::<Option<Vec<String>>>(row, 3)? {
            None => FieldSet::All,
            Some(names) => FieldSet::only(names.iter().filter_map(|name| FieldName::parse(resource, name).ok())),
        };
        let nothing = || Opened { fields: FieldSet::none(), consents: Vec::new() };
        let opened = by_subject.entry(subject_in(row, 0)?).or_insert_with(nothing);
        opened.fields = opened.fields.union(&fields);
        opened.consents.push(id);
    }
    Ok(subjects.iter().map(|subject| by_subject.get(subject).cloned()).collect())
}
