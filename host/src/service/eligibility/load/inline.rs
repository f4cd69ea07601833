//! Records that the request itself brings: their codes are checked as those of records to be stored.

use std::collections::BTreeMap;

use super::Loader;
use crate::domain::code::CodeUri;
use crate::domain::subject::SubjectReference;
use crate::domain::vocabulary::CodedField;
use crate::error::AppError;
use crate::service::codes::{Held, resolve, resolve_group, resolve_individual};
use crate::service::eligibility::evaluate::SubjectInput;
use crate::service::eligibility::facts::{
    InlineMe, InlinePerson, InlineSubject, Me, Members, Person, PersonInHousehold, Programs, SubjectFacts,
};
use crate::service::{group, individual};

impl Loader<'_> {
    /// Puts the inline records beside what was loaded: one a subject, in the order asked.
    ///
    /// # Errors
    /// [`AppError::Invalid`] with every problem of inline records.
    pub(in crate::service::eligibility) fn with_inline(
        &self,
        mut stored: BTreeMap<usize, Result<SubjectFacts, AppError>>,
        subjects: &[SubjectInput],
    ) -> Result<Vec<Result<SubjectFacts, AppError>>, AppError> {
        let mut all = Vec::with_capacity(subjects.len());
        let mut problems = Vec::new();
        for (at, subject) in subjects.iter().enumerate() {
            match subject {
                SubjectInput::Reference(kind, _) | SubjectInput::Stored(SubjectReference { kind, .. }) => {
                    all.push(stored.remove(&at).unwrap_or(Err(AppError::NotFound(kind.record_kind()))));
                }
                SubjectInput::Inline(inline) => match self.inline(inline) {
                    Ok(facts) => all.push(Ok(facts)),
                    Err(AppError::Invalid(found)) => problems.extend(found.into_iter().map(|mut problem| {
                        problem.field = format!("subjects[{at}].{}", problem.field);
                        problem
                    })),
                    Err(other) => return Err(other),
                },
            }
        }
        if problems.is_empty() { Ok(all) } else { Err(AppError::Invalid(problems)) }
    }

    fn inline(&self, inline: &InlineSubject) -> Result<SubjectFacts, AppError> {
        let mut problems = Vec::new();
        let mut members = Vec::new();
        for (at, member) in inline.members.iter().flatten().enumerate() {
            match self.inline_person(member) {
                Ok(member) => members.push(member),
                Err(AppError::Invalid(found)) => problems.extend(found.into_iter().map(|mut problem| {
                    problem.field = format!("members[{at}].{}", problem.field);
                    problem
                })),
                Err(other) => return Err(other),
            }
        }
        let me = match &inline.me {
            InlineMe::Person(person) => match self.inline_person(person) {
                Ok(person) => Some(Me::Person(person)),
                Err(AppError::Invalid(found)) => {
                    problems.extend(found);
                    None
                }
                Err(other) => return Err(other),
            },
            InlineMe::Group(draft) => Some(Me::InlineGroup(Box::new(resolve_group(
                self.generation,
                &Held::default(),
                (**draft).clone(),
                &mut problems,
            )))),
        };
        let members = if inline.members.is_some() { Members::Known(members) } else { Members::Unknown };
        let programs = inline.programs.clone().map_or(Programs::Unknown, Programs::Known);
        match me {
            Some(me) if problems.is_empty() => Ok(SubjectFacts { me, members, programs }),
            Some(_) | None => Err(AppError::Invalid(problems)),
        }
    }

    fn inline_person(&self, person: &InlinePerson) -> Result<PersonInHousehold, AppError> {
        let mut problems = Vec::new();
        let role = person
            .role
            .as_ref()
            .and_then(|code| resolve(self.generation, CodedField::MemberRole, "role".to_owned(), code, &mut problems));
        match resolve_individual(self.generation, &Held::default(), person.details.clone()) {
            Ok(details) if problems.is_empty() => {
                Ok(PersonInHousehold { person: Person::Inline(Box::new(details)), role })
            }
            Ok(_) => Err(AppError::Invalid(problems)),
            Err(AppError::Invalid(found)) => {
                problems.extend(found);
                Err(AppError::Invalid(problems))
            }
            Err(other) => Err(other),
        }
    }
}

/// Every code of the inline records among some subjects.
pub(in crate::service::eligibility) fn inline_codes(subjects: &[SubjectInput]) -> Vec<CodeUri> {
    let mut codes = Vec::new();
    for subject in subjects {
        let SubjectInput::Inline(inline) = subject else { continue };
        let me = match &inline.me {
            InlineMe::Person(person) => Some(person),
            InlineMe::Group(draft) => {
                codes.extend(group::codes_of(draft));
                None
            }
        };
        for person in me.into_iter().map(|person| &**person).chain(inline.members.iter().flatten()) {
            codes.extend(person.role.clone());
            codes.extend(individual::codes_of(&person.details));
        }
    }
    codes
}
