//! Whether a group can have the members and relationships that it is given.

use std::collections::HashMap;

use super::hidden::Hidden;
use super::shown::Shown;
use crate::registry::Registry;
use crate::{subjects, visibility};
use daftar_domain::calendar::{Period, utc_day};
use daftar_domain::code::CodedValue;
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::group::{GroupDetails, Member, Relationship};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_vocabulary::Generation;

/// The concept group whose codes make a member the head.
const HEAD_GROUP: &str = "head_of_household";

/// The members and other groups of a draft; one that leads nowhere, or from a group to itself, is a problem of its field. `own` is
/// the group that is changed, and `shown` how its members and other groups are shown now.
pub(super) async fn resolve_references(
    ctx: &OpContext,
    registry: &Registry,
    (own, shown): (Option<RecordId>, &Shown),
    draft: GroupDetails<CodedValue, IdentifierKey>,
    problems: &mut Vec<FieldProblem>,
) -> Result<GroupDetails, AppError> {
    let mut members = draft.members.as_ref().map(|members| Vec::with_capacity(members.len()));
    for (at, member) in draft.members.into_iter().flatten().enumerate() {
        let found = match shown.member(&member.individual) {
            Some(present) => Ok(present),
            None => find(ctx, registry, RecordKind::Individual, &member.individual).await,
        };
        match found {
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
        let is_own = draft.identifiers.iter().any(|own| own.is_open() && own.key == relationship.target);
        let found = match shown.group(&relationship.target) {
            Some(present) => Ok(present),
            None => find(ctx, registry, RecordKind::Group, &relationship.target).await,
        };
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

async fn find(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    key: &IdentifierKey,
) -> Result<RecordId, AppError> {
    visibility::find(ctx, registry, kind, key).await.map(|(id, _)| id)
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

/// Nobody twice, and at most one head, today and on every day to come: a group that is right today stays right by itself. Problems
/// name places as the client sees them; whom it does not see they do not name.
pub(super) fn check_members(
    ctx: &OpContext,
    generation: &Generation,
    details: &GroupDetails,
    hidden: &Hidden,
    problems: &mut Vec<FieldProblem>,
) {
    let today = utc_day(ctx.now);
    let mut places: HashMap<RecordId, Vec<(usize, Period)>> = HashMap::new();
    let mut heads = Vec::new();
    let mut hidden_heads = Vec::new();
    let mut next_place = 0;
    for member in details.members.iter().flatten() {
        let still = member.still_active(today);
        let as_head = still.filter(|_| member.role.is_some_and(|role| is_head(generation, role)));
        if hidden.holds(member.individual) {
            hidden_heads.extend(as_head);
            continue;
        }
        let at = next_place;
        next_place += 1;
        heads.extend(as_head.map(|period| (at, period)));
        let Some(period) = still else { continue };
        let earlier = places.entry(member.individual).or_default();
        if let Some(earlier) = at_the_same_time(earlier, &period) {
            problems.push(FieldProblem {
                field: format!("member[{at}].entity"),
                code: "duplicate",
                message: format!("the same person is member[{earlier}] already"),
            });
        }
        earlier.push((at, period));
    }
    for (before, (at, period)) in heads.iter().enumerate() {
        let is_beside_hidden = hidden_heads.iter().any(|hidden| hidden.overlaps(period));
        let earlier = at_the_same_time(heads.get(..before).unwrap_or_default(), period);
        let who = match earlier {
            None if !is_beside_hidden => continue,
            Some(earlier) if !is_beside_hidden => format!(", and member[{earlier}] is one already"),
            None | Some(_) => String::new(),
        };
        problems.push(FieldProblem {
            field: format!("member[{at}].role"),
            code: "second_head",
            message: format!("a group has at most one active head{who}"),
        });
    }
}

/// The first of those places that has a day in common with a period.
fn at_the_same_time(places: &[(usize, Period)], period: &Period) -> Option<usize> {
    places.iter().find(|(_, earlier)| earlier.overlaps(period)).map(|(at, _)| *at)
}

fn is_head(generation: &Generation, role: CodedValue) -> bool {
    generation.concept_group(HEAD_GROUP).is_some_and(|heads| heads.members().any(|number| number == role.number))
}
