//! Facts about a subject, from the register or from the request. The codes of inline records are checked in the same
//! way as those of records to be stored.

use std::collections::BTreeMap;

use super::evaluate::SubjectInput;
use crate::codes::{self, Held, resolve};
use crate::edit;
use crate::program_membership::MembershipView;
use crate::visibility::Seen;
use daftar_domain::code::{CodeNumber, CodeUri, CodedValue};
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::field::FieldSet;
use daftar_domain::group::GroupDetails;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::individual::IndividualDetails;
use daftar_domain::program_membership::{FIELDS, PROGRAM};
use daftar_domain::record::{Fields, RecordType};
use daftar_domain::schema::{self, Field, Tag};
use daftar_domain::subject::SubjectReference;
use daftar_domain::value::{self, Values};
use daftar_domain::vocabulary::CodedField;
use daftar_vocabulary::Generation;

/// A record with the fields that a rule may read.
#[derive(Debug, Clone)]
pub(super) enum Known<D> {
    /// A record of the register, with the fields that the rule may read.
    Stored(Seen<D>),
    /// An inline record of the request.
    Inline(Box<D>),
}

impl<D> Known<D> {
    /// Returns the details of the record.
    pub fn details(&self) -> &D {
        match self {
            Self::Stored(seen) => &seen.record.details,
            Self::Inline(details) => details,
        }
    }

    /// Returns the fields that the rule may read.
    pub fn fields(&self) -> &FieldSet {
        match self {
            Self::Stored(seen) => &seen.fields,
            Self::Inline(_) => &FieldSet::All,
        }
    }
}

/// An individual with its role in the household; `None` if the role is not recorded or unknown.
#[derive(Debug, Clone)]
pub(super) struct PersonInHousehold {
    pub person: Known<IndividualDetails>,
    pub role: Option<CodedValue>,
}

/// The subject itself.
#[derive(Debug, Clone)]
pub(super) enum Me {
    Person(PersonInHousehold),
    Group(Known<GroupDetails>),
}

/// The known facts about a subject.
#[derive(Debug, Clone)]
pub(super) struct SubjectFacts {
    pub me: Me,
    /// The members of its household, possibly none. `None` if the household is unknown: the individual is in several
    /// households, or the request does not state it.
    pub members: Option<Vec<PersonInHousehold>>,
    /// Its memberships in programs, possibly none; `None` if they are unknown.
    pub programs: Option<Vec<MembershipFact>>,
}

impl SubjectFacts {
    /// Returns the numbers of all codes in the facts.
    pub fn codes(&self) -> Vec<CodeNumber> {
        let mut codes = Vec::new();
        match &self.me {
            Me::Person(person) => person.add_codes(&mut codes),
            Me::Group(group) => codes.extend(codes_in(group.details())),
        }
        self.members.iter().flatten().for_each(|member| member.add_codes(&mut codes));
        for membership in self.programs.iter().flatten() {
            codes.extend(membership.values.codes(FIELDS).into_iter().map(|(_, code)| code.number));
        }
        codes
    }
}

impl PersonInHousehold {
    fn add_codes(&self, codes: &mut Vec<CodeNumber>) {
        codes.extend(codes_in(self.person.details()));
        codes.extend(self.role.map(|role| role.number));
    }
}

fn codes_in<T: RecordType>(details: &Fields<T>) -> impl Iterator<Item = CodeNumber> {
    let codes = details.every_code().into_iter().map(|(_, code)| code);
    codes.chain(details.extension.codes()).map(|code| code.number)
}

/// The facts of one membership that a rule may read.
#[derive(Debug, Clone)]
pub struct MembershipFact {
    /// Reference of the program, `Program/<system>|<value>`; `None` if hidden.
    pub program: Option<String>,
    /// The other fields for rules, as far as the rule may read them.
    pub values: Values,
}

impl From<&MembershipView> for MembershipFact {
    fn from(view: &MembershipView) -> Self {
        let fields = value::in_order(FIELDS, view.membership.details.iter());
        let is_reported =
            |field: &Field| field.in_rules && field.tag != PROGRAM.tag() && view.fields.allows(field.name);
        let reported = fields.filter(|(field, _)| is_reported(field));
        let values = reported.map(|(field, value)| (field.tag, value.clone())).collect();
        Self { program: view.fields.allows("program").then(|| view.program.clone()), values }
    }
}

/// An inline individual of a request. Its codes are not checked yet.
#[derive(Debug, Clone)]
pub struct InlinePerson {
    /// Its properties.
    pub details: IndividualDetails<CodeUri, IdentifierKey>,
    /// Its role in the household.
    pub role: Option<CodeUri>,
}

/// An inline subject of a request.
#[derive(Debug, Clone)]
pub struct InlineSubject {
    /// The subject.
    pub me: InlineMe,
    /// The members of its household, if the request states them.
    pub members: Option<Vec<InlinePerson>>,
    /// Its memberships in programs, if the request states them.
    pub programs: Option<Vec<MembershipFact>>,
}

impl InlineSubject {
    /// Returns the number of individuals in the request for this subject, members included.
    #[must_use]
    pub fn people(&self) -> usize {
        let itself = match self.me {
            InlineMe::Person(_) => 1,
            InlineMe::Group(_) => 0,
        };
        itself + self.members.as_ref().map_or(0, Vec::len)
    }
}

/// The record of an inline subject.
#[derive(Debug, Clone)]
pub enum InlineMe {
    /// An individual.
    Person(Box<InlinePerson>),
    /// A group. Its members are in [`InlineSubject::members`].
    Group(Box<GroupDetails<CodeUri, IdentifierKey>>),
}

/// Maximum number of reported problems of inline records, equal to the limit of a response. When the limit is reached,
/// no further record is checked.
const PROBLEMS_MAX: usize = 50;

/// Combines the inline records with the records fetched from the register: one entry per subject, in the order of the
/// request.
///
/// # Errors
/// [`AppError::Invalid`] with the problems of inline records.
pub(super) fn with_inline(
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

/// Resolves the facts of an inline subject, and adds its problems. Members after the maximum number of problems are
/// omitted.
fn facts(generation: &Generation, inline: &InlineSubject, problems: &mut Vec<FieldProblem>) -> SubjectFacts {
    let me = match &inline.me {
        InlineMe::Person(person) => Me::Person(person_of(generation, person, problems)),
        InlineMe::Group(draft) => Me::Group(Known::Inline(Box::new(resolved(generation, draft, problems)))),
    };
    let mut members = Vec::new();
    for (at, member) in inline.members.iter().flatten().enumerate() {
        if problems.len() >= PROBLEMS_MAX {
            break;
        }
        let place = || format!("members[{at}]");
        members.push(placed(place, problems, |problems| person_of(generation, member, problems)));
    }
    SubjectFacts { me, members: inline.members.as_ref().map(|_| members), programs: inline.programs.clone() }
}

fn person_of(generation: &Generation, person: &InlinePerson, problems: &mut Vec<FieldProblem>) -> PersonInHousehold {
    let role = person.role.as_ref();
    let role = role.and_then(|code| resolve(generation, CodedField::MemberRole, "role", code, problems));
    let details = resolved(generation, &person.details, problems);
    PersonInHousehold { person: Known::Inline(Box::new(details)), role }
}

fn resolved<T: RecordType>(
    generation: &Generation,
    draft: &Fields<T, CodeUri, IdentifierKey>,
    problems: &mut Vec<FieldProblem>,
) -> Fields<T> {
    edit::resolve(generation, &Held::default(), None, without_references(draft), problems)
}

/// Returns a record without the fields that refer to other records and that no rule reads. These fields do not affect
/// the result and are not checked.
fn without_references<T: RecordType>(draft: &Fields<T, CodeUri, IdentifierKey>) -> Fields<T, CodeUri, IdentifierKey> {
    let is_read = |tag: Tag| schema::row(Fields::<T>::schema(), tag).is_some_and(|field| field.in_rules);
    let fields = draft.iter().filter(|(tag, value)| value.references().is_empty() || is_read(*tag));
    let values = fields.map(|(tag, value)| (tag, value.clone())).collect();
    Fields::new(draft.identifiers.clone(), values, draft.extension.clone())
}

/// Checks a part of the request, and prefixes the fields of the new problems with its path.
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

/// Returns all codes of the inline records among some subjects.
pub(super) fn inline_codes(subjects: &[SubjectInput]) -> Vec<CodeUri> {
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
    use daftar_domain::code::EditionNumber;
    use daftar_domain::individual::GENDER;
    use daftar_vocabulary::testing::generation;

    /// An individual with an invalid gender code, and `members` members of its household with the same.
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
    fn the_codes_of_facts_include_those_of_members_and_roles() {
        let coded = |number| CodedValue { number: CodeNumber(number), edition: EditionNumber(0) };
        let person = |gender, role| {
            let details: IndividualDetails = IndividualDetails::default().with(GENDER, coded(gender));
            PersonInHousehold { person: Known::Inline(Box::new(details)), role: Some(coded(role)) }
        };
        let facts = SubjectFacts {
            me: Me::Person(person(1, 2)),
            members: Some(vec![person(3, 4)]),
            programs: Some(Vec::new()),
        };
        assert_eq!(facts.codes(), [1, 2, 3, 4].map(CodeNumber));
    }

    #[test]
    fn after_the_maximum_of_problems_no_further_record_is_checked() {
        let generation = generation();
        for (subjects, members, reported, last) in [
            (49, 0, 49, "subjects[48].gender"),
            (50, 0, 50, "subjects[49].gender"),
            (51, 0, 50, "subjects[49].gender"),
            (1_000, 19, 50, "subjects[2].members[8].gender"),
            (1, 499, 50, "subjects[0].members[48].gender"),
        ] {
            let subjects: Vec<SubjectInput> = (0..subjects).map(|_| wrong(members)).collect();
            let Err(AppError::Invalid(problems)) = with_inline(&generation, BTreeMap::new(), &subjects) else {
                panic!("problems were expected")
            };
            assert_eq!((problems.len(), problems[reported - 1].field.as_str()), (reported, last));
        }
    }
}
