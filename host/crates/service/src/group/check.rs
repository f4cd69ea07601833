//! Whether a group can have the members that it is given.

use std::collections::HashMap;

use crate::edit::hidden::Hidden;
use crate::edit::references::UNRESOLVED;
use daftar_domain::calendar::{Period, utc_day};
use daftar_domain::code::CodedValue;
use daftar_domain::context::OpContext;
use daftar_domain::error::FieldProblem;
use daftar_domain::group::GroupDetails;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_vocabulary::Generation;

/// The concept group whose codes make a member the head.
const HEAD_GROUP: &str = "head_of_household";

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
    for member in details.members() {
        let still = member.still_active(today).filter(|_| member.individual != UNRESOLVED);
        let as_head = still.filter(|_| member.role.is_some_and(|role| is_head(generation, role)));
        if hidden.holds(RecordKind::Individual, member.individual) {
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
