//! Whether a group can have the members that it is given.

use std::collections::HashMap;

use crate::context::OpContext;
use crate::domain::calendar::utc_day;
use crate::domain::code::CodedValue;
use crate::domain::group::{GroupDetails, Member};
use crate::domain::identifier::IdentifierKey;
use crate::domain::record::RecordKind;
use crate::error::{AppError, FieldProblem};
use crate::service::identifiers;
use crate::service::registry::Registry;
use crate::vocab::Generation;

/// The concept group whose codes make a member the head.
const HEAD_GROUP: &str = "head_of_household";

/// The members of a draft; one that leads nowhere is a problem of its field.
pub(super) async fn resolve_members(
    registry: &Registry,
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
            Err(error @ (AppError::NotFound(_) | AppError::Ambiguous)) => problems.push(FieldProblem {
                field: format!("member[{at}].entity.reference"),
                code: "unresolved_reference",
                message: error.to_string(),
            }),
            Err(other) => return Err(other),
        }
    }
    Ok(GroupDetails {
        identifiers: draft.identifiers,
        active: draft.active,
        name: draft.name,
        group_type: draft.group_type,
        housing_type: draft.housing_type,
        members,
        extension: draft.extension,
    })
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
