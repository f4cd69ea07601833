//! Relationships of a person to other people, and of a group to other groups.

use super::hidden::Hidden;
use super::references::UNRESOLVED;
use daftar_domain::calendar::Period;
use daftar_domain::code::CodedValue;
use daftar_domain::error::FieldProblem;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::relationship::{RELATIONSHIP_PERIOD, RELATIONSHIP_TARGET, RELATIONSHIP_TYPE};
use daftar_domain::value::{Key, List, Part, Values};

/// The other records that a record has a relationship to.
pub(crate) fn targets(details: &Values, relationship: Key<List<Part>>) -> Vec<RecordId> {
    let targets = details.items(relationship).filter_map(|relationship| relationship.get(RELATIONSHIP_TARGET));
    targets.map(|target| target.id).collect()
}

/// No relationship twice: the same other record of that kind, as the same, at the same time. Problems name places as the client sees them.
pub(crate) fn check(
    details: &Values,
    (kind, relationship): (RecordKind, Key<List<Part>>),
    hidden: &Hidden,
    problems: &mut Vec<FieldProblem>,
) {
    type Relationship = (RecordId, Option<CodedValue>, Period);
    let all = details.items(relationship).filter_map(|relationship| {
        let target = relationship.get(RELATIONSHIP_TARGET)?.id;
        let period = relationship.get(RELATIONSHIP_PERIOD).unwrap_or_default();
        Some((target, relationship.get(RELATIONSHIP_TYPE).copied(), period))
    });
    let all: Vec<Relationship> = all.filter(|(target, ..)| !hidden.holds(kind, *target)).collect();
    for (at, (target, kind, period)) in all.iter().enumerate() {
        let is_same = |earlier: &Relationship| {
            earlier.0 == *target && earlier.1 == *kind && earlier.2.overlaps(period) && *target != UNRESOLVED
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
