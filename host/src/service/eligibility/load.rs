//! Fetches what is known of the subjects of a rule.

mod inline;
mod reads;

use std::collections::BTreeMap;

use jiff::civil::Date;

pub(super) use self::inline::inline_codes;
use self::reads::{Reads, too_many};
use super::evaluate::{Authority, SubjectInput};
use super::facts::{Me, Members, MembershipFact, Person, PersonInHousehold, Programs, SubjectFacts};
use crate::context::OpContext;
use crate::domain::code::CodeUri;
use crate::domain::field::FieldSet;
use crate::domain::group::GroupDetails;
use crate::domain::identifier::IdentifierKey;
use crate::domain::individual::IndividualDetails;
use crate::domain::record::{RecordId, RecordKind};
use crate::domain::subject::{Subject, SubjectReference};
use crate::error::AppError;
use crate::service::program_membership;
use crate::service::registry::Registry;
use crate::service::visibility::{self, Seen};
use crate::service::{identifiers, records, standing};
use crate::vocab::Generation;

/// How many groups of one person are read before others have their turn.
const GROUPS_PER_TURN: usize = 32;
/// The code of a group that is a household.
const HOUSEHOLD: &str = "urn:svc:vocab:group-type#household";
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
                SubjectInput::Inline(inline) => {
                    loaded.reads.count_rows(inline.people())?;
                    continue;
                }
            };
            match facts {
                Err(_) if loaded.reads.are_too_many() => return Err(too_many()),
                facts @ (Ok(_) | Err(AppError::NotFound(_) | AppError::Ambiguous)) => {
                    drop(loaded.stored.insert(at, facts));
                }
                Err(other) => return Err(other),
            }
        }
        Ok(loaded)
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
        for (at, group_id) in standing::groups_of(self.registry, id).into_iter().enumerate() {
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
        let (total, ids) = standing::memberships_of(self.registry, subject, MEMBERSHIPS_MAX);
        let are_seen = || ids.iter().any(|id| self.seen(RecordKind::ProgramMembership, *id).is_some());
        if total > u64::from(MEMBERSHIPS_MAX) && are_seen() {
            let message =
                format!("a rule looks at up to {MEMBERSHIPS_MAX} memberships of one subject, and this one has more");
            return Err(AppError::invalid("subjects", "too_many", message));
        }
        let mut facts = Vec::with_capacity(ids.len());
        for id in ids {
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
}

fn is_stored_as(member: &PersonInHousehold, id: RecordId) -> bool {
    match &member.person {
        Person::Stored(seen) => seen.record.id == id,
        Person::Inline(_) => false,
    }
}
