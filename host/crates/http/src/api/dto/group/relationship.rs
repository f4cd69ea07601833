//! How a group stands to other groups, in its body.

use serde::Serialize;
use serde_json::Value;

use super::{EntityBody, ShownEntity, read_reference};
use crate::api::dto::reader::{ObjectReader, Problems};
use crate::api::dto::shared::{CodeBody, PeriodBody};
use daftar_domain::code::{CodeUri, CodedValue};
use daftar_domain::group::Relationship;
use daftar_domain::identifier::{IdentifierKey, REFERENCE_BYTES_MAX};
use daftar_domain::individual::LIST_ITEMS_MAX;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::vocabulary::DisplayedCode;

/// Reads `relationship[]`; absent and empty are different.
pub(super) fn read(
    reader: &mut ObjectReader,
    problems: &mut Problems,
) -> Option<Vec<Relationship<CodeUri, IdentifierKey>>> {
    let items = reader.list("relationship", LIST_ITEMS_MAX, problems)?;
    Some(items.into_iter().filter_map(|(path, item)| read_one(path, item, problems)).collect())
}

fn read_one(path: String, item: Value, problems: &mut Problems) -> Option<Relationship<CodeUri, IdentifierKey>> {
    let mut reader = ObjectReader::at(path, item, problems);
    let target = reader.object("target", problems).and_then(|mut target| {
        let reference = target.text("reference", REFERENCE_BYTES_MAX, problems);
        target.take("display");
        let path = target.path_of("reference");
        target.finish(problems);
        read_reference(&path, &reference?, RecordKind::Group, problems)
    });
    if target.is_none() && !reader.is_problem_within("target", problems) {
        let message = "a relationship names the other group: `{reference: \"Group/<system>|<value>\"}`";
        problems.add(reader.path_of("target"), "required", message);
    }
    let kind = reader.code("type", problems);
    if kind.is_none() && !reader.is_problem("type", problems) {
        let message = "a relationship says what the other group is: a code of `urn:svc:vocab:relationship` for groups";
        problems.add(reader.path_of("type"), "required", message);
    }
    let period = reader.period("period", problems);
    reader.finish(problems);
    Some(Relationship { target: target?, kind: kind?, period })
}

/// A relationship on the wire.
#[derive(Debug, Serialize)]
pub(super) struct RelationshipBody {
    target: EntityBody,
    #[serde(rename = "type")]
    kind: CodeBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    period: Option<PeriodBody>,
}

impl RelationshipBody {
    /// Writes the relationships whose other group may be shown.
    pub(super) fn all(
        relationships: &[Relationship],
        show: &dyn Fn(CodedValue) -> DisplayedCode,
        show_group: &dyn Fn(RecordId) -> Option<ShownEntity>,
    ) -> Vec<Self> {
        let body = |relationship: &Relationship| {
            Some(Self {
                target: EntityBody::from(show_group(relationship.target)?),
                kind: CodeBody::from(show(relationship.kind)),
                period: relationship.period.map(PeriodBody::from),
            })
        };
        relationships.iter().filter_map(body).collect()
    }
}
