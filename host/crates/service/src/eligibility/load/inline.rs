//! Records that the request itself brings: their codes are checked as those of records to be stored.

use std::collections::BTreeMap;

use super::Loader;
use crate::codes::{self, Held, resolve};
use crate::edit;
use crate::eligibility::evaluate::SubjectInput;
use crate::eligibility::facts::{
    InlineMe, InlinePerson, InlineSubject, Me, Members, Person, PersonInHousehold, Programs, SubjectFacts,
};
use daftar_domain::code::CodeUri;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::{Fields, RecordType};
use daftar_domain::schema::{self, Tag};
use daftar_domain::subject::SubjectReference;
use daftar_domain::vocabulary::CodedField;
use daftar_vocabulary::Generation;

/// The most problems of inline records that are told, as many as an answer shows: once there are so many, no further record is looked
/// at.
const PROBLEMS_MAX: usize = 50;

impl Loader<'_> {
    /// Puts the inline records beside what was loaded: one a subject, in the order asked.
    ///
    /// # Errors
    /// [`AppError::Invalid`] with the problems of inline records.
    pub(in crate::eligibility) fn with_inline(
        &self,
        stored: BTreeMap<usize, Result<SubjectFacts, AppError>>,
        subjects: &[SubjectInput],
    ) -> Result<Vec<Result<SubjectFacts, AppError>>, AppError> {
        all(self.generation, stored, subjects)
    }
}

fn all(
    generation: &Generation,
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
            SubjectInput::Inline(inline) => {
                let place = || format!("subjects[{at}]");
                all.push(Ok(placed(place, &mut problems, |problems| facts(generation, inline, problems))));
            }
        }
        if problems.len() >= PROBLEMS_MAX {
            break;
        }
    }
    problems.truncate(PROBLEMS_MAX);
    if problems.is_empty() { Ok(all) } else { Err(AppError::Invalid(problems)) }
}

/// What an inline record says; where that adds problems, or there are as many as are told, nothing.
fn facts(generation: &Generation, inline: &InlineSubject, problems: &mut Vec<FieldProblem>) -> SubjectFacts {
    let me = match &inline.me {
        InlineMe::Person(person) => Me::Person(person_of(generation, person, problems)),
        InlineMe::Group(draft) => Me::InlineGroup(Box::new(resolved(generation, draft, problems))),
    };
    let mut members = Vec::new();
    for (at, member) in inline.members.iter().flatten().enumerate() {
        if problems.len() >= PROBLEMS_MAX {
            break;
        }
        let place = || format!("members[{at}]");
        members.push(placed(place, problems, |problems| person_of(generation, member, problems)));
    }
    let members = if inline.members.is_some() { Members::Known(members) } else { Members::Unknown };
    let programs = inline.programs.clone().map_or(Programs::Unknown, Programs::Known);
    SubjectFacts { me, members, programs }
}

fn person_of(generation: &Generation, person: &InlinePerson, problems: &mut Vec<FieldProblem>) -> PersonInHousehold {
    let role = person.role.as_ref();
    let role = role.and_then(|code| resolve(generation, CodedField::MemberRole, "role", code, problems));
    let details = resolved(generation, &person.details, problems);
    PersonInHousehold { person: Person::Inline(Box::new(details)), role }
}

fn resolved<T: RecordType>(
    generation: &Generation,
    draft: &Fields<T, CodeUri, IdentifierKey>,
    problems: &mut Vec<FieldProblem>,
) -> Fields<T> {
    edit::resolve(generation, &Held::default(), None, without_references(draft), problems)
}

/// A record without the fields that refer to others and that no rule reads: these decide nothing, and are left.
fn without_references<T: RecordType>(draft: &Fields<T, CodeUri, IdentifierKey>) -> Fields<T, CodeUri, IdentifierKey> {
    let is_read = |tag: Tag| schema::row(Fields::<T>::schema(), tag).is_some_and(|field| field.in_rules);
    let fields = draft.iter().filter(|(tag, value)| value.references().is_empty() || is_read(*tag));
    let values = fields.map(|(tag, value)| (tag, value.clone())).collect();
    Fields::new(draft.identifiers.clone(), values, draft.extension.clone())
}

/// Checks a part of the request, and puts its place before the fields of the problems that this adds.
fn placed<T>(
    place: impl Fn() -> String,
    problems: &mut Vec<FieldProblem>,
    check: impl FnOnce(&mut Vec<FieldProblem>) -> T,
) -> T {
    let before = problems.len();
    let checked = check(problems);
    for problem in problems.iter_mut().skip(before) {
        problem.field = format!("{}.{}", place(), problem.field);
    }
    checked
}

/// Every code of the inline records among some subjects.
pub(in crate::eligibility) fn inline_codes(subjects: &[SubjectInput]) -> Vec<CodeUri> {
    let mut codes = Vec::new();
    for subject in subjects {
        let SubjectInput::Inline(inline) = subject else { continue };
        let me = match &inline.me {
            InlineMe::Person(person) => Some(person),
            InlineMe::Group(draft) => {
                codes.extend(codes::of_draft(&without_references(draft)));
                None
            }
        };
        for person in me.into_iter().map(|person| &**person).chain(inline.members.iter().flatten()) {
            codes.extend(person.role.clone());
            codes.extend(codes::of_draft(&without_references(&person.details)));
        }
    }
    codes
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::individual::{GENDER, IndividualDetails};
    use daftar_vocabulary::testing::generation;

    /// A person of a sex that is none, with as many members of the household like it.
    fn wrong(members: usize) -> SubjectInput {
        let gender = CodeUri::parse("urn:iso:std:iso:5218#7").unwrap();
        let details: IndividualDetails<CodeUri, IdentifierKey> = IndividualDetails::default().with(GENDER, gender);
        let person = || InlinePerson { details: details.clone(), role: None };
        let members = Some((0..members).map(|_| person()).collect());
        SubjectInput::Inline(Box::new(InlineSubject {
            me: InlineMe::Person(Box::new(person())),
            members,
            programs: None,
        }))
    }

    #[test]
    fn after_so_many_problems_no_further_record_is_looked_at() {
        let generation = generation();
        for (subjects, members, told, last) in [
            (49, 0, 49, "subjects[48].gender"),
            (50, 0, 50, "subjects[49].gender"),
            (51, 0, 50, "subjects[49].gender"),
            (1_000, 19, 50, "subjects[2].members[8].gender"),
            (1, 499, 50, "subjects[0].members[48].gender"),
        ] {
            let subjects: Vec<SubjectInput> = (0..subjects).map(|_| wrong(members)).collect();
            let Err(AppError::Invalid(problems)) = all(&generation, BTreeMap::new(), &subjects) else {
                panic!("problems were expected")
            };
            assert_eq!((problems.len(), problems[told - 1].field.as_str()), (told, last));
        }
    }
}
