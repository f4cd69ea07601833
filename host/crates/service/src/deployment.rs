//! The operations on concept groups, and on other keyed lists of the deployment that take few lines. Local codes and identifier systems have
//! files of their own.
//!
//! **Invariant:** every code of a group that is set is known when it is set. The deployment's definition wins over a pack's.

use crate::vocabulary_publisher::{Decision, VocabularyPublisher};
use daftar_domain::context::OpContext;
use daftar_domain::deployment::{CONCEPT_GROUPS_MAX, Deployment, Setting, SettingKey};
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::error_code::ErrorCode;
use daftar_domain::vocabulary::{ConceptGroup, Selection};
pub use daftar_vocabulary::limits::{DESCRIPTION_TEXT_BYTES_MAX, SELECTIONS_MAX};
use daftar_vocabulary::{Generation, LookUpProblem, check_concept_group};

/// With how many problems the search for what was meant by wrong codes ends.
const SEARCHES_MAX: usize = 50;

/// Defines a concept group for this deployment, in place of any pack's definition.
///
/// # Errors
/// [`AppError::Invalid`] with every selection that is not right, [`AppError::Conflict`] when there is no room, or when the
/// store fails.
pub async fn set_concept_group(
    ctx: &OpContext,
    publisher: &VocabularyPublisher,
    group: ConceptGroup,
) -> Result<(), AppError> {
    let target = group.name.clone();
    let decide = move |deployment: &Deployment, generation: &Generation| {
        check_selections(generation, &group)?;
        let is_new = deployment.concept_group(&group.name).is_none();
        if is_new && deployment.concept_groups().len() >= CONCEPT_GROUPS_MAX {
            let message = format!("there are {CONCEPT_GROUPS_MAX} concept groups, and no more are kept");
            return Err(AppError::Conflict(ErrorCode::LimitReached, message));
        }
        Ok(Decision::Put(Box::new(Setting::ConceptGroup(group))))
    };
    publisher.decide(ctx, shown(&target), "concept group set", decide).await
}

/// Takes the deployment's definition back: the pack's counts again, or none.
///
/// # Errors
/// [`AppError::NotThere`] when the deployment defines no such group, or when the store fails.
pub async fn reset_concept_group(ctx: &OpContext, publisher: &VocabularyPublisher, name: &str) -> Result<(), AppError> {
    let of = name.to_owned();
    let decide = move |deployment: &Deployment, _: &Generation| {
        if deployment.concept_group(&of).is_none() {
            let message = format!(
                "the deployment defines no concept group `{}`; `daftar concept-group list` shows who defines what",
                shown(&of)
            );
            let field = "name".to_owned();
            return Err(AppError::NotThere(FieldProblem { field, code: "unknown_concept_group", message }));
        }
        Ok(Decision::Remove(SettingKey::ConceptGroup(of)))
    };
    publisher.decide(ctx, shown(name), "concept group reset", decide).await
}

fn check_selections(generation: &Generation, group: &ConceptGroup) -> Result<(), AppError> {
    let mut problems = Vec::new();
    if let Err(found) = check_concept_group(group.clone()) {
        problems.extend(found.problems().iter().map(|problem| FieldProblem {
            field: String::new(),
            code: "invalid",
            message: problem.to_string(),
        }));
    }
    if group.includes.is_empty() {
        let message = "a concept group includes at least one code; to take the deployment's definition back, reset it";
        problems.push(FieldProblem { field: "includes".into(), code: "required", message: message.into() });
    }
    for (field, selections) in [("includes", &group.includes), ("excludes", &group.excludes)] {
        for (at, selection) in selections.iter().enumerate() {
            let (Selection::Code(uri) | Selection::DescendantsOf(uri)) = selection;
            // A group with very many wrong codes is a mistake of another kind, and each search for what was meant takes its time.
            let absent = (problems.len() >= SEARCHES_MAX).then(|| generation.plainly_absent(uri)).flatten();
            let problem = match absent {
                Some(LookUpProblem::Code(problem)) => Some(problem),
                Some(LookUpProblem::UnknownNamespace { .. } | LookUpProblem::NotInstalled { .. }) | None => {
                    generation.check_known(uri).err()
                }
            };
            problems.extend(problem.map(|problem| problem.at(format!("{field}[{at}]"))));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(AppError::Invalid(problems)) }
}

/// As much of a name as is repeated.
fn shown(name: &str) -> String {
    name.chars().filter(|one| !one.is_control()).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_vocabulary::testing::{concept_group, generation};

    #[test]
    fn the_search_for_what_was_meant_ends_with_the_problems_that_are_told() {
        let wrong: Vec<String> = ('a'..='z')
            .chain('A'..='Z')
            .map(|letter| format!("urn:svc:vocab:relationship#grandparent{letter}"))
            .collect();
        let (first, last) = wrong.split_at(30);
        let includes: Vec<&str> = first.iter().map(String::as_str).collect();
        let excludes: Vec<&str> = last.iter().map(String::as_str).collect();
        let refused = check_selections(&generation(), &concept_group("many", &includes, &excludes));
        let Err(AppError::Invalid(problems)) = refused else { panic!("{refused:?}") };
        assert_eq!(problems.len(), wrong.len(), "every wrong code is counted");
        assert!(problems.iter().all(|problem| problem.code == "unknown_code"), "{problems:?}");
        let suggested: Vec<bool> = problems.iter().map(|problem| problem.message.contains("did you mean")).collect();
        let expected: Vec<bool> = (0..wrong.len()).map(|at| at < SEARCHES_MAX).collect();
        assert_eq!(suggested, expected, "{problems:?}");
    }
}
