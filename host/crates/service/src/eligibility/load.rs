//! Fetches what is known of the subjects of a rule.

mod inline;
mod reads;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::civil::Date;

pub(super) use self::inline::inline_codes;
use self::reads::Reads;
use super::decision::Decision;
use super::evaluate::{Authority, SubjectInput};
use super::facts::{Me, Members, MembershipFact, Person, PersonInHousehold, Programs, SubjectFacts};
use crate::registry::Registry;
use crate::visibility::{self, Seen};
use crate::{identifiers, program_membership, records, subjects};
use daftar_domain::change::Details;
use daftar_domain::code::CodeUri;
use daftar_domain::context::{Cancellation, OpContext};
use daftar_domain::error::AppError;
use daftar_domain::field::FieldSet;
use daftar_domain::group::{ACTIVE, GROUP_TYPE, Group, GroupDetails};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::individual::IndividualDetails;
use daftar_domain::program_membership::{ProgramMembership, ProgramMembershipDetails};
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_vocabulary::Generation;

/// How many groups of one person are read before others have their turn.
const GROUPS_PER_TURN: usize = 32;
/// The code of a group that is a household.
pub(super) const HOUSEHOLD: &str = "urn:svc:vocab:group-type#household";
/// The most memberships of one subject that a rule looks at.
pub(super) const MEMBERSHIPS_MAX: u32 = 1_000;

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
    /// The decision that is repeated: records are looked at as it names them.
    pub repeated: Option<&'a Decision>,
    /// Nothing more is fetched for a request that was given up.
    pub cancellation: Cancellation,
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
            if self.cancellation.is_cancelled() {
                return Err(AppError::Busy);
            }
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
                facts @ (Ok(_) | Err(AppError::NotFound(_) | AppError::NotThere(_) | AppError::Ambiguous)) => {
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
    async fn seen(&self, kind: RecordKind, id: RecordId) -> Result<Option<FieldSet>, AppError> {
        match self.authority {
            Authority::Caller => {
                let fields = visibility::of(self.ctx, self.registry, kind, id).await?;
                Ok(fields.map(|fields| visibility::of_rules(self.ctx, kind, fields)))
            }
            Authority::Program => Ok(Some(FieldSet::All)),
        }
    }

    /// Whether the rule may see one at least of some records.
    async fn any_is_seen(&self, kind: RecordKind, ids: &[RecordId]) -> Result<bool, AppError> {
        match self.authority {
            Authority::Caller => visibility::any_is_there(self.ctx, self.registry, kind, ids).await,
            Authority::Program => Ok(!ids.is_empty()),
        }
    }

    async fn stored(
        &self,
        subject: SubjectReference,
        needs: Needs,
        reads: &mut Reads,
    ) -> Result<SubjectFacts, AppError> {
        let id = subject.id;
        match subject.kind {
            Subject::Individual => {
                reads.count_row()?;
                let stored = self.person(id, reads).await?.ok_or(AppError::NotFound(RecordKind::Individual))?;
                let programs = self.programs(subject, needs, &stored.record.details.identifiers, reads).await?;
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
                let stored = self.group(id).await?.ok_or(AppError::NotFound(RecordKind::Group))?;
                reads.note_group(&stored.record);
                let programs = self.programs(subject, needs, &stored.record.details.identifiers, reads).await?;
                let members = if needs.household && stored.fields.allows("member") {
                    Members::Known(self.members(&stored.record.details, reads).await?)
                } else {
                    Members::Unknown
                };
                Ok(SubjectFacts { me: Me::StoredGroup(stored), members, programs })
            }
        }
    }

    /// At which version a record is looked at: the present one, or the one that the decision names that is repeated. None where
    /// that decision did not see the record.
    fn version_then(&self, kind: RecordKind, identifiers: &[Identifier], present: VersionId) -> Option<VersionId> {
        let Some(decision) = self.repeated else { return Some(present) };
        let names = reads::names(kind, identifiers);
        names.into_iter().find_map(|name| decision.versions.get(&name).copied())
    }

    /// A group as it is looked at; nothing, where it is hidden.
    async fn group(&self, id: RecordId) -> Result<Option<Seen<GroupDetails>>, AppError> {
        let Some(fields) = self.seen(RecordKind::Group, id).await? else { return Ok(None) };
        let Some(present) = self.registry.store.find::<GroupDetails>(id).await? else { return Ok(None) };
        let version = present.meta.version;
        let record = match self.version_then(RecordKind::Group, &present.details.identifiers, version) {
            Some(then) if then == version => Some(present),
            Some(then) => self.registry.store.find_version::<GroupDetails>(id, then).await?,
            None => None,
        };
        Ok(record.map(|record| Seen { record, fields }))
    }

    /// A person of the register, read once however often it is asked for; nobody, where it is hidden.
    async fn person(&self, id: RecordId, reads: &mut Reads) -> Result<Option<Seen<IndividualDetails>>, AppError> {
        if let Some(known) = reads.people.get(&id) {
            return Ok(Some(known.clone()));
        }
        let Some(fields) = self.seen(RecordKind::Individual, id).await? else { return Ok(None) };
        let Some(present) = self.registry.store.find::<IndividualDetails>(id).await? else {
            return Err(AppError::internal("a person that others refer to is not there"));
        };
        let version = present.meta.version;
        let record = match self.version_then(RecordKind::Individual, &present.details.identifiers, version) {
            Some(then) if then == version => Some(present),
            Some(then) => self.registry.store.find_version::<IndividualDetails>(id, then).await?,
            None => None,
        };
        let Some(record) = record else { return Ok(None) };
        reads.note_person(&record);
        let seen = Seen { record, fields };
        reads.people.insert(id, seen.clone());
        Ok(Some(seen))
    }

    /// The members of a person's one active household: none is known to be nobody, several cannot be told apart.
    async fn household(&self, id: RecordId, reads: &mut Reads) -> Result<Members, AppError> {
        let found = match reads.households.get(&id) {
            Some(known) => known.clone(),
            None => {
                let found = self.households_of(id, reads).await?;
                reads.households.insert(id, found.clone());
                found
            }
        };
        match found.as_slice() {
            [] => Ok(Members::Known(Vec::new())),
            [only] => Ok(Members::Known(self.members(&only.details, reads).await?)),
            [..] => Ok(Members::Unknown),
        }
    }

    /// The active households of a person that show that they are, up to two.
    async fn households_of(&self, id: RecordId, reads: &mut Reads) -> Result<Vec<Arc<Group>>, AppError> {
        let household = CodeUri::parse(HOUSEHOLD).ok().and_then(|uri| self.generation.number_of(&uri));
        let mut found = Vec::new();
        for (at, group_id) in self.groups_of(id, reads).await?.into_iter().enumerate() {
            if at % GROUPS_PER_TURN == GROUPS_PER_TURN - 1 {
                tokio::task::yield_now().await;
            }
            reads.count_group()?;
            let Some(Seen { record, fields }) = self.group(group_id).await? else { continue };
            // Of a group that does not show who belongs to it, or what it is, nobody is told by it.
            if !fields.allows("member") || !fields.allows("group_type") {
                continue;
            }
            let group_type = record.details.get(GROUP_TYPE).map(|code| code.number);
            let is_household = household.is_some() && group_type == household;
            let is_member = record.details.active_members(self.as_of).any(|member| member.individual == id);
            let is_in_use = !fields.allows("active") || record.details.get(ACTIVE).unwrap_or(true);
            if is_household && is_member && is_in_use {
                reads.note_group(&record);
                found.push(record);
                if found.len() > 1 {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// The groups in which a person may be found: those that name it now, or those of the decision that is repeated.
    async fn groups_of(&self, id: RecordId, reads: &mut Reads) -> Result<Vec<RecordId>, AppError> {
        let Some(decision) = self.repeated else { return subjects::groups_of(self.registry, id).await };
        if reads.groups_then.is_none() {
            let mut by_member: HashMap<RecordId, Vec<RecordId>> = HashMap::new();
            let of_groups = format!("{}/", RecordKind::Group);
            for key in decision.versions.keys().filter_map(|name| name.strip_prefix(&of_groups)) {
                let Ok(key) = IdentifierKey::parse(key) else { continue };
                let group_id = match self.find(RecordKind::Group, &key).await {
                    Ok(group_id) => group_id,
                    Err(AppError::NotFound(_) | AppError::NotThere(_) | AppError::Ambiguous) => continue,
                    Err(other) => return Err(other),
                };
                let Some(seen) = self.group(group_id).await? else { continue };
                for member in seen.record.details.active_members(self.as_of) {
                    by_member.entry(member.individual).or_default().push(group_id);
                }
            }
            reads.groups_then = Some(by_member);
        }
        Ok(reads.groups_then.as_ref().and_then(|groups| groups.get(&id)).cloned().unwrap_or_default())
    }

    /// The memberships of a subject of those identifiers, whatever their status. They count as people do.
    async fn programs(
        &self,
        subject: SubjectReference,
        needs: Needs,
        identifiers: &[Identifier],
        reads: &mut Reads,
    ) -> Result<Programs, AppError> {
        if !needs.programs {
            return Ok(Programs::Unknown);
        }
        let (total, ids) = subjects::memberships_of(self.registry, subject, MEMBERSHIPS_MAX).await?;
        if total > u64::from(MEMBERSHIPS_MAX) && self.any_is_seen(RecordKind::ProgramMembership, &ids).await? {
            let message =
                format!("a rule looks at up to {MEMBERSHIPS_MAX} memberships of one subject, and this one has more");
            return Err(AppError::invalid("subjects", "too_many", message));
        }
        let mut facts = Vec::with_capacity(ids.len());
        let mut number = 0;
        for id in ids {
            let seen = self.seen(RecordKind::ProgramMembership, id).await?;
            let Some(fields) = seen.filter(|seen| seen.allows("beneficiary")) else { continue };
            number += 1;
            reads.count_row()?;
            let numbered = reads::numbered(number, subject.kind.record_kind(), identifiers);
            let Some((name, membership)) = self.membership(id, numbered).await? else { continue };
            reads.versions.insert(name, membership.meta.version);
            let view = program_membership::view(self.registry, membership, fields).await?;
            facts.push(MembershipFact::from(&view));
        }
        Ok(Programs::Known(facts))
    }

    /// A membership as it is looked at, with its name in the decision: its own, or else `numbered`.
    async fn membership(
        &self,
        id: RecordId,
        numbered: String,
    ) -> Result<Option<(String, Arc<ProgramMembership>)>, AppError> {
        let kind = RecordKind::ProgramMembership;
        let present: Arc<ProgramMembership> = records::by_id(&*self.registry.store, id).await?;
        let mut names = reads::names(kind, &present.details.identifiers);
        names.push(numbered);
        let Some(decision) = self.repeated else {
            return Ok(names.into_iter().next().map(|name| (name, present)));
        };
        let then =
            names.into_iter().find_map(|name| decision.versions.get(&name).copied().map(|version| (name, version)));
        let Some((name, version)) = then else { return Ok(None) };
        if version == present.meta.version {
            return Ok(Some((name, present)));
        }
        let record = self.registry.store.record_version(kind, id, version).await?;
        Ok(record.and_then(ProgramMembershipDetails::of).map(|record| (name, record)))
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
