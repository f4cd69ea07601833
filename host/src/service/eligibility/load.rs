//! Fetches what is known of the subjects of a rule.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::civil::Date;

use super::evaluate::{Authority, SubjectInput};
use super::facts::{
    InlineMe, InlinePerson, InlineSubject, Me, Members, MembershipFact, Person, PersonInHousehold, Programs,
    SubjectFacts,
};
use crate::columns::MembershipTerm;
use crate::context::OpContext;
use crate::domain::code::CodeUri;
use crate::domain::field::FieldSet;
use crate::domain::group::{Group, GroupDetails};
use crate::domain::identifier::{Identifier, IdentifierKey};
use crate::domain::individual::{Individual, IndividualDetails};
use crate::domain::record::{RecordId, RecordKind, VersionId};
use crate::domain::search::Page;
use crate::domain::subject::{Subject, SubjectReference};
use crate::domain::vocabulary::CodedField;
use crate::error::AppError;
use crate::service::codes::{Held, resolve, resolve_group, resolve_individual};
use crate::service::program_membership::{self, MembershipView};
use crate::service::registry::Registry;
use crate::service::visibility::{self, Seen};
use crate::service::{group, identifiers, individual, records};
use crate::vocab::Generation;

/// How many groups of one person are read before others have their turn.
const GROUPS_PER_TURN: usize = 32;
/// The code of a group that is a household.
const HOUSEHOLD: &str = "urn:svc:vocab:group-type#household";
/// The most people that one request looks at, members of households included: some 1,000 large households.
const ROWS_MAX: usize = 20_000;

/// The most memberships of one subject that a rule looks at.
const MEMBERSHIPS_MAX: u32 = 1_000;

/// What a rule reads beside the subject itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Needs {
    /// Who lives with it.
    pub household: bool,
    /// Its memberships in programs.
    pub programs: bool,
}

/// Fetches facts as they stand on one day under one generation.
pub(super) struct Loader<'a> {
    pub ctx: &'a OpContext,
    pub authority: Authority,
    pub registry: &'a Registry,
    pub generation: &'a Generation,
    pub as_of: Date,
}

/// What was fetched.
#[derive(Default)]
pub(super) struct Loaded {
    /// The subjects that the register has, by their place in the request.
    pub stored: BTreeMap<usize, Result<SubjectFacts, AppError>>,
    /// What was read of the register for it.
    pub reads: Reads,
}

/// What was read of the register for one rule, each person once.
#[derive(Default)]
pub(super) struct Reads {
    /// Every record read, by reference, with its version.
    pub versions: BTreeMap<String, VersionId>,
    people: HashMap<RecordId, Seen<IndividualDetails>>,
    named: HashSet<(RecordKind, RecordId)>,
    rows: usize,
}

impl Reads {
    /// Counts a person that the rule will see, as subject or as member, however often it is the same one.
    fn count_row(&mut self) -> Result<(), AppError> {
        self.rows += 1;
        if self.rows <= ROWS_MAX { Ok(()) } else { Err(too_many()) }
    }

    fn note_person(&mut self, stored: &Individual) {
        self.note(RecordKind::Individual, stored.id, &stored.details.identifiers, stored.meta.version);
    }

    /// A membership without an identifier of its own is named by beneficiary and program; of several such, the newest counts.
    fn note_membership(&mut self, view: &MembershipView) {
        let membership = &view.membership;
        let reference = match records::called(&membership.details.identifiers) {
            Some(own) => records::reference(RecordKind::ProgramMembership, own),
            None => format!("ProgramMembership of {} in {}", view.beneficiary, view.program),
        };
        self.versions.insert(reference, membership.meta.version);
    }

    fn note_group(&mut self, stored: &Group) {
        self.note(RecordKind::Group, stored.id, &stored.details.identifiers, stored.meta.version);
    }

    /// Names a record by what it is called; by another of its identifiers where another record is called so.
    fn note(&mut self, kind: RecordKind, id: RecordId, identifiers: &[Identifier], version: VersionId) {
        if !self.named.insert((kind, id)) {
            return;
        }
        let called = records::called(identifiers).into_iter();
        let names = called.chain(identifiers.iter().map(|identifier| &identifier.key));
        let free = names.map(|key| records::reference(kind, key)).find(|name| !self.versions.contains_key(name));
        if let Some(name) = free {
            self.versions.insert(name, version);
        }
    }
}

impl Loader<'_> {
    /// Fetches what the register knows of the subjects.
    ///
    /// # Errors
    /// When they are too many or the store fails. A subject that does not exist is no error of the whole.
    pub(super) async fn load(&self, subjects: &[SubjectInput], needs: Needs) -> Result<Loaded, AppError> {
        let mut loaded = Loaded::default();
        for (at, subject) in subjects.iter().enumerate() {
            let facts = match subject {
                SubjectInput::Reference(kind, key) => match self.find(kind.record_kind(), key).await {
                    Ok(id) => self.stored(SubjectReference { kind: *kind, id }, needs, &mut loaded.reads).await,
                    Err(error) => Err(error),
                },
                SubjectInput::Stored(stored) => self.stored(*stored, needs, &mut loaded.reads).await,
                SubjectInput::Inline(_) => continue,
            };
            match facts {
                Err(_) if loaded.reads.rows > ROWS_MAX => return Err(too_many()),
                facts @ (Ok(_) | Err(AppError::NotFound(_) | AppError::Ambiguous)) => {
                    drop(loaded.stored.insert(at, facts));
                }
                Err(other) => return Err(other),
            }
        }
        Ok(loaded)
    }

    /// Puts the inline records beside what was loaded: one a subject, in the order asked.
    ///
    /// # Errors
    /// [`AppError::Invalid`] with every problem of inline records.
    pub(super) fn with_inline(
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

    async fn find(&self, kind: RecordKind, key: &IdentifierKey) -> Result<RecordId, AppError> {
        match self.authority {
            Authority::Caller => visibility::find(self.ctx, self.registry, kind, key).await.map(|(id, _)| id),
            Authority::Program => identifiers::find(&*self.registry.store, kind, key).await,
        }
    }

    /// What the rule may see of a record: what its author may.
    fn seen(&self, kind: RecordKind, id: RecordId) -> Option<FieldSet> {
        match self.authority {
            Authority::Caller => visibility::of(self.ctx, self.registry, kind, id),
            Authority::Program => Some(FieldSet::All),
        }
    }

    async fn stored(
        &self,
        subject: SubjectReference,
        needs: Needs,
        reads: &mut Reads,
    ) -> Result<SubjectFacts, AppError> {
        let id = subject.id;
        let programs = if needs.programs { self.programs(subject, reads).await? } else { Programs::Unknown };
        match subject.kind {
            Subject::Individual => {
                reads.count_row()?;
                let stored = self.person(id, reads).await?.ok_or(AppError::NotFound(RecordKind::Individual))?;
                let members = if needs.household { self.household(id, reads).await? } else { Members::Unknown };
                let role = match &members {
                    Members::Known(members) => members.iter().find(|member| is_stored_as(member, id)),
                    Members::Unknown => None,
                };
                let role = role.and_then(|member| member.role);
                let me = Me::Person(PersonInHousehold { person: Person::Stored(stored), role });
                Ok(SubjectFacts { me, members, programs })
            }
            Subject::Group => {
                let fields = self.seen(RecordKind::Group, id).ok_or(AppError::NotFound(RecordKind::Group))?;
                let stored = self.registry.store.group(id).await?.ok_or(AppError::NotFound(RecordKind::Group))?;
                reads.note_group(&stored);
                let members = if needs.household && fields.allows("member") {
                    Members::Known(self.members(&stored.details, reads).await?)
                } else {
                    Members::Unknown
                };
                Ok(SubjectFacts { me: Me::StoredGroup(Seen { record: stored, fields }), members, programs })
            }
        }
    }

    /// A person of the register, read once however often it is asked for; nobody, where it is hidden.
    async fn person(&self, id: RecordId, reads: &mut Reads) -> Result<Option<Seen<IndividualDetails>>, AppError> {
        if let Some(known) = reads.people.get(&id) {
            return Ok(Some(known.clone()));
        }
        let Some(fields) = self.seen(RecordKind::Individual, id) else { return Ok(None) };
        let Some(record) = self.registry.store.individual(id).await? else {
            return Err(AppError::internal("a person that others refer to is not there"));
        };
        reads.note_person(&record);
        let seen = Seen { record, fields };
        reads.people.insert(id, seen.clone());
        Ok(Some(seen))
    }

    /// The members of a person's one active household: none is known to be nobody, several cannot be told apart.
    async fn household(&self, id: RecordId, reads: &mut Reads) -> Result<Members, AppError> {
        let household = CodeUri::parse(HOUSEHOLD).ok().and_then(|uri| self.generation.number_of(&uri));
        let mut found = None;
        for (at, group_id) in self.registry.columns.snapshot().groups_of(id).into_iter().enumerate() {
            if at % GROUPS_PER_TURN == GROUPS_PER_TURN - 1 {
                tokio::task::yield_now().await;
            }
            // Of a group that does not show who belongs to it, or what it is, nobody is told by it.
            let seen = self.seen(RecordKind::Group, group_id);
            let Some(seen) = seen.filter(|seen| seen.allows("member") && seen.allows("group_type")) else { continue };
            let Some(stored) = self.registry.store.group(group_id).await? else { continue };
            let is_household =
                household.is_some_and(|number| stored.details.group_type.is_some_and(|code| code.number == number));
            let is_member = stored.details.active_members(self.as_of).any(|member| member.individual == id);
            let is_in_use = !seen.allows("active") || stored.details.active.unwrap_or(true);
            if is_household && is_member && is_in_use {
                if found.is_some() {
                    return Ok(Members::Unknown);
                }
                found = Some(stored);
            }
        }
        match found {
            Some(stored) => {
                reads.note_group(&stored);
                Ok(Members::Known(self.members(&stored.details, reads).await?))
            }
            None => Ok(Members::Known(Vec::new())),
        }
    }

    /// The memberships of a subject, whatever their status. They count as people do.
    async fn programs(&self, subject: SubjectReference, reads: &mut Reads) -> Result<Programs, AppError> {
        let of_subject = [vec![MembershipTerm::Beneficiary(subject)]];
        let page = Page { offset: 0, count: MEMBERSHIPS_MAX };
        let found = self.registry.columns.snapshot().memberships(&of_subject, page);
        let are_seen = || found.ids.iter().any(|id| self.seen(RecordKind::ProgramMembership, *id).is_some());
        if found.total > u64::from(MEMBERSHIPS_MAX) && are_seen() {
            let message =
                format!("a rule looks at up to {MEMBERSHIPS_MAX} memberships of one subject, and this one has more");
            return Err(AppError::invalid("subjects", "too_many", message));
        }
        let mut facts = Vec::with_capacity(found.ids.len());
        for id in found.ids {
            let seen = self.seen(RecordKind::ProgramMembership, id);
            let Some(fields) = seen.filter(|seen| seen.allows("beneficiary")) else { continue };
            reads.count_row()?;
            let membership = records::by_id(&*self.registry.store, id).await?;
            let view = program_membership::view(self.registry, membership, fields).await?;
            reads.note_membership(&view);
            facts.push(MembershipFact::from(&view));
        }
        Ok(Programs::Known(facts))
    }

    async fn members(&self, details: &GroupDetails, reads: &mut Reads) -> Result<Vec<PersonInHousehold>, AppError> {
        let mut members = Vec::new();
        for member in details.active_members(self.as_of) {
            let Some(stored) = self.person(member.individual, reads).await? else { continue };
            reads.count_row()?;
            members.push(PersonInHousehold { person: Person::Stored(stored), role: member.role });
        }
        Ok(members)
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
pub(super) fn inline_codes(subjects: &[SubjectInput]) -> Vec<CodeUri> {
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

fn too_many() -> AppError {
    let message =
        format!("subjects and members of their households are more than {ROWS_MAX} people; ask about fewer at once");
    AppError::invalid("subjects", "too_many", message)
}

fn is_stored_as(member: &PersonInHousehold, id: RecordId) -> bool {
    match &member.person {
        Person::Stored(seen) => seen.record.id == id,
        Person::Inline(_) => false,
    }
}
