//! Whether a group can have the members and relationships that it is given.

use std::collections::HashMap;

use crate::context::OpContext;
use crate::domain::calendar::utc_day;
use crate::domain::code::CodedValue;
use crate::domain::group::{GroupDetails, Member, Relationship};
use crate::domain::identifier::IdentifierKey;
use crate::domain::record::{RecordId, RecordKind};
use crate::error::{AppError, FieldProblem};
use crate::service::registry::Registry;
use crate::service::{identifiers, subjects};
use crate::vocab::Generation;

/// The concept group whose codes make a member the head.
const HEAD_GROUP: &str = "head_of_household";

/// The members and other groups of a draft; one that leads nowhere, or from a group to itself, is a problem of its field. `own` is
/// the group that is changed.
pub(super) async fn resolve_references(
    registry: &Registry,
    own: Option<RecordId>,
    draft: GroupDetails<CodedValue, IdentifierKey>,
    problems: &mut Vec<FieldProblem>,
) -> Result<GroupDetails, AppError> {
    let mut members = draft.members.as_ref().map(|members| Vec::with_capacity(members.len()));
    for (at, member) in draft.members.into_iter().flatten().enumerate() {
        match identifiers::find(&*registry.store, RecordKind::Individual, &member.individual).await {
            Ok(individual) => members.get_or_insert_default().push(Member {
                individual,
                role: member.role,
                period: member.period,
                is_inactive: member.is_inactive,
            }),
            Err(error) => subjects::unresolved(&format!("member[{at}].entity.reference"), error, problems)?,
        }
    }
    let mut relationships = draft.relationships.as_ref().map(|all| Vec::with_capacity(all.len()));
    for (at, relationship) in draft.relationships.into_iter().flatten().enumerate() {
        let field = format!("relationship[{at}].target.reference");
        let is_own = draft.identifiers.iter().any(|identifier| identifier.key == relationship.target);
        let found = identifiers::find(&*registry.store, RecordKind::Group, &relationship.target).await;
        match found {
            _ if is_own => problems.push(to_itself(field)),
            Ok(target) if Some(target) == own => problems.push(to_itself(field)),
            Ok(target) => relationships.get_or_insert_default().push(Relationship {
                target,
                kind: relationship.kind,
                period: relationship.period,
            }),
            Err(error) => subjects::unresolved(&field, error, problems)?,
        }
    }
    Ok(GroupDetails {
        identifiers: draft.identifiers,
        active: draft.active,
        name: draft.name,
        group_type: draft.group_type,
        housing_type: draft.housing_type,
        members,
        relationships,
        address: draft.address,
        extension: draft.extension,
    })
}

fn to_itself(field: String) -> FieldProblem {
    let message = "a group has no relationship to itself".to_owned();
    FieldProblem { field, code: "self_reference", message }
}

/// No relationship twice: the same other group, as the same, at the same time.
pub(super) fn check_relationships(details: &GroupDetails, problems: &mut Vec<FieldProblem>) {
    let all = details.relationships.as_deref().unwrap_or_default();
    for (at, relationship) in all.iter().enumerate() {
        let period = relationship.period.unwrap_or_default();
        let is_same = |earlier: &Relationship| {
            earlier.target == relationship.target
                && earlier.kind == relationship.kind
                && earlier.period.unwrap_or_default().overlaps(&period)
        };
        if let Some(earlier) = all.iter().take(at).position(is_same) {
            problems.push(FieldProblem {
                field: format!("relationship[{at}]"),
                code: "duplicate",
                message: format!("the same relationship is relationship[{earlier}] already"),
            });
        }
    }
}

/// Nobody twice, and at most one head.
pub(super) fn check_members(
    ctx: &OpContext,
    generation: &Generation,
    details: &GroupDetails,
    problems: &mut Vec<FieldProblem>,
) {
    let today = utc_day(ctx.now);
    let mut seen = HashMap::new();
    let mut head = None;
    for (at, member) in details.members.iter().flatten().enumerate().filter(|(_, member)| member.is_active(today)) {
        if let Some(earlier) = seen.insert(member.individual, at) {
            problems.push(FieldProblem {
                field: format!("member[{at}].entity"),
                code: "duplicate",
                message: format!("the same person is member[{earlier}] already"),
            });
        }
        if member.role.is_some_and(|role| is_head(generation, role)) {
            if let Some(earlier) = head {
                problems.push(FieldProblem {
                    field: format!("member[{at}].role"),
                    code: "second_head",
                    message: format!("a group has at most one active head, and member[{earlier}] is one already"),
                });
            }
            head = head.or(Some(at));
        }
    }
}

fn is_head(generation: &Generation, role: CodedValue) -> bool {
    generation.concept_group(HEAD_GROUP).is_some_and(|heads| heads.members().any(|number| number == role.number))
}
