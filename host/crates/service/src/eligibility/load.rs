//! Fetches the facts that the register has about the subjects of a rule.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::evaluate::{Authority, Evaluation, PEOPLE_MAX, SubjectInput};
use super::facts::{Known, Me, MembershipFact, PersonInHousehold, SubjectFacts};
use crate::visibility::{self, Seen};
use crate::{identifiers, program_membership, records, subjects};
use daftar_domain::change::Details;
use daftar_domain::code::{CodeNumber, CodeUri};
use daftar_domain::context::Cancellation;
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;
use daftar_domain::field::FieldSet;
use daftar_domain::group::{ACTIVE, GROUP_TYPE, Group, GroupDetails, GroupRecord};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::individual::{IndividualDetails, IndividualRecord};
use daftar_domain::program_membership::{ProgramMembership, ProgramMembershipDetails};
use daftar_domain::record::{Fields, Record, RecordId, RecordKind, VersionId};
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_vocabulary::Generation;

/// Number of groups of one individual that are read before the task yields to the scheduler.
const GROUPS_PER_TURN: usize = 32;
/// Maximum number of groups that one request checks to find households.
const GROUPS_MAX: usize = 20_000;
/// The code of a group that is a household.
const HOUSEHOLD: &str = "urn:svc:vocab:group-type#household";
/// Maximum number of memberships of one subject that a rule reads.
pub(super) const MEMBERSHIPS_MAX: u32 = 1_000;

/// Returns the number of the code of groups that are households, or `None` if no such code was ever stored or
/// published.
pub(super) fn household_code(generation: &Generation) -> Option<CodeNumber> {
    generation.number_of(&CodeUri::parse(HOUSEHOLD).ok()?)
}

/// Records that a rule reads in addition to the subject.
#[derive(Debug, Clone, Copy)]
pub(super) struct Needs {
    /// The members of its household.
    pub household: bool,
    /// Its memberships in programs.
    pub programs: bool,
}

/// The fetched records.
#[derive(Default)]
pub(super) struct Loaded {
    /// Facts about the subjects that are stored in the register, by their position in the request.
    pub stored: BTreeMap<usize, Result<SubjectFacts, AppError>>,
    /// Records that were read from the register for these facts.
    pub reads: Reads,
}

impl Evaluation {
    /// Fetches the facts that the register has about the subjects.
    ///
    /// # Errors
    /// If the request reads too many records or the store fails. A subject that does not exist is not an error of the
    /// request; its entry contains the error.
    pub(super) async fn load(&self, needs: Needs, cancellation: &Cancellation) -> Result<Loaded, AppError> {
        let mut loaded = Loaded::default();
        for (at, subject) in self.request.subjects.iter().enumerate() {
            // Stop fetching if the request was cancelled.
            if cancellation.is_cancelled() {
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

    /// Returns the record that an identifier addresses. A decision names records by their identifiers: it is not
    /// repeated with an identifier of several records, because it may be about another one than the current owner.
    async fn find(&self, kind: RecordKind, key: &IdentifierKey) -> Result<RecordId, AppError> {
        let id = match self.authority {
            Authority::Caller => visibility::find(&self.ctx, &self.registry, kind, key).await?.0,
            Authority::Program => identifiers::find(&*self.registry.store, kind, key).await?,
        };
        if self.request.repeated.is_some() {
            let mut others = identifiers::carriers(&self.registry, kind, key).await?;
            others.retain(|other| *other != id);
            if self.any_is_seen(kind, &others).await? {
                let reference = records::reference(kind, key);
                return Err(AppError::conflict(
                    ErrorCode::DecisionNotRepeatable,
                    format!(
                        "`{reference}` is or was the identifier of several records, so that the decision may be about another one: ask again without `decision`"
                    ),
                ));
            }
        }
        Ok(id)
    }

    /// Returns the fields of a record that the rule may read, with the permissions of its author.
    async fn seen(&self, kind: RecordKind, id: RecordId) -> Result<Option<FieldSet>, AppError> {
        match self.authority {
            Authority::Caller => {
                let fields = visibility::of(&self.ctx, &self.registry, kind, id).await?;
                Ok(fields.map(|fields| visibility::of_rules(&self.ctx, kind, fields)))
            }
            Authority::Program => Ok(Some(FieldSet::All)),
        }
    }

    /// Returns true if the rule may read at least one of these records.
    async fn any_is_seen(&self, kind: RecordKind, ids: &[RecordId]) -> Result<bool, AppError> {
        match self.authority {
            Authority::Caller => visibility::any_is_there(&self.ctx, &self.registry, kind, ids).await,
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
                reads.count_rows(1)?;
                let stored = self.person(id, reads).await?.ok_or(AppError::NotFound(RecordKind::Individual))?;
                let programs = self.programs(subject, needs, &stored.record.details.identifiers, reads).await?;
                let members = if needs.household { self.household(id, reads).await? } else { None };
                let mine = members.iter().flatten().find(|member| is_stored_as(member, id));
                let role = mine.and_then(|member| member.role);
                let me = Me::Person(PersonInHousehold { person: Known::Stored(stored), role });
                Ok(SubjectFacts { me, members, programs })
            }
            Subject::Group => {
                let stored = self.group(id).await?.ok_or(AppError::NotFound(RecordKind::Group))?;
                reads.note(&stored.record);
                let programs = self.programs(subject, needs, &stored.record.details.identifiers, reads).await?;
                let members = if needs.household && stored.fields.allows("member") {
                    Some(self.members(&stored.record.details, reads).await?)
                } else {
                    None
                };
                Ok(SubjectFacts { me: Me::Group(Known::Stored(stored)), members, programs })
            }
        }
    }

    /// Returns a record at its current version, or at the version that a repeated decision names. Returns `None` if the
    /// record is hidden or the repeated decision does not name it.
    async fn record<T>(&self, id: RecordId) -> Result<Option<Seen<Fields<T>>>, AppError>
    where
        Fields<T>: Details,
    {
        let kind = <Fields<T> as Details>::KIND;
        let Some(fields) = self.seen(kind, id).await? else { return Ok(None) };
        let Some(present) = self.registry.store.find::<Fields<T>>(id).await? else {
            // A decision without this record could be incorrect.
            return Err(AppError::internal(format!("a {kind} that others refer to is not there")));
        };
        let version = present.meta.version;
        let then = match &self.request.repeated {
            Some(decision) => {
                let mut names = names(kind, &present.details.identifiers).into_iter();
                names.find_map(|name| decision.versions.get(&name).copied())
            }
            None => Some(version),
        };
        let record = match then {
            Some(then) if then == version => Some(present),
            Some(then) => self.registry.store.find_version::<Fields<T>>(id, then).await?,
            None => None,
        };
        Ok(record.map(|record| Seen { record, fields }))
    }

    async fn group(&self, id: RecordId) -> Result<Option<Seen<GroupDetails>>, AppError> {
        self.record::<GroupRecord>(id).await
    }

    /// Returns an individual of the register, or `None` if it is hidden. Each individual is read once per request.
    async fn person(&self, id: RecordId, reads: &mut Reads) -> Result<Option<Seen<IndividualDetails>>, AppError> {
        if let Some(known) = reads.people.get(&id) {
            return Ok(Some(known.clone()));
        }
        let Some(seen) = self.record::<IndividualRecord>(id).await? else { return Ok(None) };
        reads.note(&seen.record);
        reads.people.insert(id, seen.clone());
        Ok(Some(seen))
    }

    /// Returns the members of the individual's only active household. Without a household the list is empty. Returns
    /// `None` if there are several, since the rule cannot distinguish them.
    async fn household(&self, id: RecordId, reads: &mut Reads) -> Result<Option<Vec<PersonInHousehold>>, AppError> {
        let found = match reads.households.get(&id) {
            Some(known) => known.clone(),
            None => {
                let found = self.households_of(id, reads).await?;
                reads.households.insert(id, found.clone());
                found
            }
        };
        match found.as_slice() {
            [] => Ok(Some(Vec::new())),
            [only] => self.members(&only.details, reads).await.map(Some),
            [..] => Ok(None),
        }
    }

    /// Returns up to two active households of an individual whose type and members the rule may read.
    async fn households_of(&self, id: RecordId, reads: &mut Reads) -> Result<Vec<Arc<Group>>, AppError> {
        let household = household_code(&self.generation);
        let mut found = Vec::new();
        for (at, group_id) in self.groups_of(id, reads).await?.into_iter().enumerate() {
            if at % GROUPS_PER_TURN == GROUPS_PER_TURN - 1 {
                tokio::task::yield_now().await;
            }
            reads.count_group()?;
            let Some(Seen { record, fields }) = self.group(group_id).await? else { continue };
            // If the members or the type of a group are hidden, the rule may not read any member through it.
            if !fields.allows("member") || !fields.allows("group_type") {
                continue;
            }
            let group_type = record.details.get(GROUP_TYPE).map(|code| code.number);
            let is_household = household.is_some() && group_type == household;
            let is_member = record.details.active_members(self.as_of).any(|member| member.individual == id);
            let is_in_use = !fields.allows("active") || record.details.get(ACTIVE).unwrap_or(true);
            if is_household && is_member && is_in_use {
                reads.note(&record);
                found.push(record);
                if found.len() > 1 {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Returns the groups that may have an individual as a member: the groups that currently name it, or the groups of
    /// the repeated decision.
    async fn groups_of(&self, id: RecordId, reads: &mut Reads) -> Result<Vec<RecordId>, AppError> {
        let Some(decision) = &self.request.repeated else { return subjects::groups_of(&self.registry, id).await };
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

    /// Returns the memberships of a subject with these identifiers, with any status. They count towards the same limit
    /// as individuals.
    async fn programs(
        &self,
        subject: SubjectReference,
        needs: Needs,
        identifiers: &[Identifier],
        reads: &mut Reads,
    ) -> Result<Option<Vec<MembershipFact>>, AppError> {
        if !needs.programs {
            return Ok(None);
        }
        let (total, ids) = subjects::memberships_of(&self.registry, subject, MEMBERSHIPS_MAX).await?;
        if total > u64::from(MEMBERSHIPS_MAX) && self.any_is_seen(RecordKind::ProgramMembership, &ids).await? {
            let message =
                format!("a rule reads at most {MEMBERSHIPS_MAX} memberships of one subject, and this subject has more");
            return Err(AppError::invalid("subjects", "too_many", message));
        }
        let mut facts = Vec::with_capacity(ids.len());
        let mut number = 0;
        for id in ids {
            let seen = self.seen(RecordKind::ProgramMembership, id).await?;
            let Some(fields) = seen.filter(|seen| seen.allows("beneficiary")) else { continue };
            number += 1;
            reads.count_rows(1)?;
            let numbered = numbered(number, subject.kind.record_kind(), identifiers);
            let Some((name, membership)) = self.membership(id, numbered).await? else { continue };
            reads.versions.insert(name, membership.meta.version);
            let view = program_membership::view(&self.registry, membership, fields).await?;
            facts.push(MembershipFact::from(&view));
        }
        Ok(Some(facts))
    }

    /// Returns a membership at its current version or at the version of the repeated decision, with its name in the
    /// decision: its own, or else `numbered`.
    async fn membership(
        &self,
        id: RecordId,
        numbered: String,
    ) -> Result<Option<(String, Arc<ProgramMembership>)>, AppError> {
        let kind = RecordKind::ProgramMembership;
        let present: Arc<ProgramMembership> = records::by_id(&*self.registry.store, id).await?;
        let mut names = names(kind, &present.details.identifiers);
        names.push(numbered);
        let Some(decision) = &self.request.repeated else {
            return Ok(names.into_iter().next().map(|name| (name, present)));
        };
        let then =
            names.into_iter().find_map(|name| decision.versions.get(&name).copied().map(|version| (name, version)));
        let Some((name, version)) = then else { return Ok(None) };
        if version == present.meta.version {
            return Ok(Some((name, present)));
        }
        let record = self.registry.store.find_version::<ProgramMembershipDetails>(id, version).await?;
        Ok(record.map(|record| (name, record)))
    }

    async fn members(&self, details: &GroupDetails, reads: &mut Reads) -> Result<Vec<PersonInHousehold>, AppError> {
        let mut members = Vec::new();
        for member in details.active_members(self.as_of) {
            let Some(stored) = self.person(member.individual, reads).await? else { continue };
            reads.count_rows(1)?;
            members.push(PersonInHousehold { person: Known::Stored(stored), role: member.role });
        }
        Ok(members)
    }
}

fn is_stored_as(member: &PersonInHousehold, id: RecordId) -> bool {
    match &member.person {
        Known::Stored(seen) => seen.record.id == id,
        Known::Inline(_) => false,
    }
}

/// Records that were read from the register for one rule. Each individual is read once.
#[derive(Default)]
pub(super) struct Reads {
    /// Every record read, by reference, with its version.
    pub versions: BTreeMap<String, VersionId>,
    people: HashMap<RecordId, Seen<IndividualDetails>>,
    named: HashSet<(RecordKind, RecordId)>,
    /// The active households of individuals, up to two for each.
    households: HashMap<RecordId, Vec<Arc<Group>>>,
    /// The groups of a repeated decision, by member.
    groups_then: Option<HashMap<RecordId, Vec<RecordId>>>,
    rows: usize,
    groups: usize,
}

impl Reads {
    /// Counts individuals that the rule reads, as subjects or as members. Repeated occurrences of one individual count
    /// separately.
    fn count_rows(&mut self, more: usize) -> Result<(), AppError> {
        self.rows += more;
        if self.rows <= PEOPLE_MAX {
            return Ok(());
        }
        Err(too_many(format!("subjects and members of their households are more than {PEOPLE_MAX} people")))
    }

    /// Counts a group that was checked to find a household.
    fn count_group(&mut self) -> Result<(), AppError> {
        self.groups += 1;
        if self.groups <= GROUPS_MAX {
            return Ok(());
        }
        Err(too_many(format!("the people asked about belong to more than {GROUPS_MAX} groups")))
    }

    /// Adds a record to the versions under its main name, or under another of its identifiers if another record already
    /// uses that name.
    fn note<T>(&mut self, record: &Record<Fields<T>>)
    where
        Fields<T>: Details,
    {
        let kind = <Fields<T> as Details>::KIND;
        if !self.named.insert((kind, record.id)) {
            return;
        }
        let free = names(kind, &record.details.identifiers).into_iter().find(|name| !self.versions.contains_key(name));
        if let Some(name) = free {
            self.versions.insert(name, record.meta.version);
        }
    }
}

fn too_many(of: String) -> AppError {
    AppError::invalid("subjects", "too_many", format!("{of}; ask about fewer at once"))
}

/// Returns the names of a record in a decision: its main name first, then its other identifiers.
fn names(kind: RecordKind, identifiers: &[Identifier]) -> Vec<String> {
    let called = records::called(identifiers).into_iter();
    let all = called.chain(identifiers.iter().map(|identifier| &identifier.key));
    all.map(|key| records::reference(kind, key)).collect()
}

/// Returns the name of a membership without an identifier of its own: its number among the memberships of its
/// beneficiary, in the order of registration. The program is omitted, since the client may not have permission to read
/// it.
fn numbered(number: usize, kind: RecordKind, beneficiary: &[Identifier]) -> String {
    let called = records::called(beneficiary).map(|key| records::reference(kind, key));
    format!("{} {number} of {}", RecordKind::ProgramMembership, called.unwrap_or_default())
}
