//! Writes one line: creates its record, skips it, or changes the existing record.

use std::collections::BTreeSet;
use std::time::Duration;

use super::run::LineResult;
use super::{BulkLine, BulkRecord, Done, Importer, OnExisting, STATUS_CREATED, STATUS_OK, Work};
use crate::client::spawn_uncancellable;
use crate::codes::Held;
use crate::consent::{self, ConsentDraft};
use crate::edit::{Editable, Shown};
use crate::group::members::{MemberChange, change_member};
use crate::group::{GroupDraft, GroupView};
use crate::individual::IndividualView;
use crate::program_membership::{self, MembershipAddress, MembershipDraft, MembershipView};
use crate::written::UpdateMode;
use crate::{edit, identifiers, program, records};
use daftar_domain::calendar::utc_day;
use daftar_domain::change::Details;
use daftar_domain::code::CodeUri;
use daftar_domain::consent::ConsentDetails;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::field::FieldSet;
use daftar_domain::group::{GroupDetails, GroupRecord, MEMBER};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::individual::IndividualRecord;
use daftar_domain::program::ProgramDetails;
use daftar_domain::program_membership::{MembershipSlot, OVERRIDE, OVERRIDE_REASON};
use daftar_domain::record::{Fields, RecordId, RecordKind, VersionCondition};
use daftar_domain::subject::SubjectReference;
use daftar_domain::value::{Reference, Value, Values};
use daftar_store::RecordDetails;
use daftar_store::overlay::is_of_dry_run;
use daftar_vocabulary::LanguagePreference;

/// Problem of a membership in a dry run that conflicts with its program, which is not evaluated.
const DRY_RUN: &str = "a dry run";

/// Attempts for a line whose program rule is rejected as busy, and the delay between them.
const TRIES: u32 = 300;
const TRIED_AGAIN: Duration = Duration::from_millis(100);

/// Runs work that evaluates a program's rule: an import has more lines in progress than the maximum number of waiting
/// rules per client.
async fn once_there_is_room<T, F: Future<Output = Result<T, AppError>>>(
    ctx: &OpContext,
    mut ask: impl FnMut() -> F,
) -> Result<T, AppError> {
    for _ in 1..TRIES {
        match ask().await {
            Err(AppError::Busy) => ctx.trail.begin_again(),
            other => return other,
        }
        tokio::time::sleep(TRIED_AGAIN).await;
    }
    ask().await
}

impl Importer {
    /// Writes a line. `later` is the later line that created a record to which this line refers.
    pub(super) async fn write(&self, line: u64, work: Work, later: Option<u64>) -> LineResult {
        if let Some(later) = later {
            let message = format!("it refers to a record of line {later}: put that line before this one");
            return Err(AppError::invalid("", "later_line", message));
        }
        match work {
            Work::Write(write) => {
                let written = self.registry.store.commit(*write).await.map(|_| Done::Created);
                dry_run(written.map_err(AppError::from), Done::Created)
            }
            Work::Line(read) if self.needs_lookup(&read.record) => {
                // The write holds the lock of the code numbers until its codes are stored, so it must not wait for its
                // reader.
                let this = self.clone();
                spawn_uncancellable(async move {
                    let _lookup = this.lookups.acquire().await;
                    this.write_line(line, *read).await
                })
                .await
            }
            Work::Line(read) => self.write_line(line, *read).await,
        }
    }

    /// True if packs must be queried for codes of a record.
    fn needs_lookup(&self, record: &BulkRecord) -> bool {
        match record {
            BulkRecord::Individual(draft) => edit::needs_lookup(&self.registry, draft),
            BulkRecord::Group(draft) => edit::needs_lookup(&self.registry, draft),
            BulkRecord::Program(_) | BulkRecord::ProgramMembership(_) | BulkRecord::Consent(_) => false,
        }
    }

    async fn write_line(&self, line: u64, read: BulkLine) -> LineResult {
        let BulkLine { mut record, condition, on_existing, later_relationships } = read;
        let existing = match on_existing {
            OnExisting::Reject => None,
            OnExisting::Skip | OnExisting::Update | OnExisting::AddMembers => self.existing(&record).await?,
            OnExisting::AddRelationships => self.record_of_addition(&record).await?,
        };
        let Some(existing) = existing else {
            let ctx = self.context(line, STATUS_CREATED);
            if on_existing == OnExisting::AddRelationships {
                return self.ended(&ctx, Err(AppError::NotFound(record.kind()))).await;
            }
            if later_relationships > 0 {
                let first_later = record.relationships().len().saturating_sub(later_relationships);
                record.truncate_relationships(first_later);
            }
            let made = self.create(&ctx, record).await.map(|()| Done::Created);
            return self.ended(&ctx, dry_run(made, Done::Created)).await;
        };
        if on_existing == OnExisting::Skip {
            return Ok(Done::Skipped);
        }
        let ctx = self.context(line, STATUS_OK);
        if is_of_dry_run(existing) {
            // The record of an earlier line does not exist in a dry run, so it cannot be compared.
            let resolved = match (record, on_existing) {
                (BulkRecord::Individual(draft), OnExisting::AddRelationships) => {
                    self.resolve_addition::<IndividualRecord>(&ctx, &draft.details).await
                }
                (BulkRecord::Group(draft), OnExisting::AddRelationships) => {
                    self.resolve_addition::<GroupRecord>(&ctx, &draft.details).await
                }
                _ => Ok(()),
            };
            return self.ended(&ctx, resolved.map(|()| Done::Updated)).await;
        }
        if later_relationships > 0 {
            let first_later = record.relationships().len().saturating_sub(later_relationships);
            let resolved = self.resolved_relationships(record.relationships(), first_later).await?;
            record.truncate_relationships(resolved);
        }
        let done = match (record, on_existing) {
            (BulkRecord::Group(draft), OnExisting::AddMembers) => self.add_members(&ctx, *draft).await,
            (BulkRecord::Individual(draft), OnExisting::AddRelationships) => {
                self.add_relationships::<IndividualRecord>(&ctx, existing, &draft.details, &condition).await
            }
            (BulkRecord::Group(draft), OnExisting::AddRelationships) => {
                self.add_relationships::<GroupRecord>(&ctx, existing, &draft.details, &condition).await
            }
            (record, _) => self.update(&ctx, existing, record, &condition).await,
        };
        self.ended(&ctx, dry_run(done, Done::Updated)).await
    }

    /// Writes the audit entries of the operation that are not part of its change.
    async fn ended(&self, ctx: &OpContext, result: LineResult) -> LineResult {
        const REFUSED: u16 = 422;
        let status = if result.is_ok() { STATUS_OK } else { REFUSED };
        let reason = result.as_ref().err().map(|_| "the line of the import was refused");
        self.registry.audit.record_now(ctx.trail.end(ctx.now, status, reason)).await?;
        result
    }

    /// The existing record of a line: the record with its identifiers.
    async fn existing(&self, record: &BulkRecord) -> Result<Option<RecordId>, AppError> {
        let kind = record.kind();
        if let BulkRecord::Consent(draft) = record {
            return self.found(kind, &draft.id().key()).await;
        }
        match (self.carrier(kind, record.identifiers()).await?, record) {
            (None, BulkRecord::ProgramMembership(draft)) => self.holder(draft).await,
            (carrier, _) => Ok(carrier),
        }
    }

    /// The record with some of these identifiers.
    async fn carrier(&self, kind: RecordKind, all: &[Identifier]) -> Result<Option<RecordId>, AppError> {
        let mut carriers = BTreeSet::new();
        for identifier in all {
            carriers.extend(self.found(kind, &identifier.key).await?);
        }
        let mut carriers = carriers.into_iter();
        match (carriers.next(), carriers.next()) {
            (only, None) => Ok(only),
            (_, Some(_)) => {
                let message = "its identifiers belong to different records: an import changes one record with a line";
                Err(AppError::invalid("identifier", "several_records", message))
            }
        }
    }

    async fn found(&self, kind: RecordKind, key: &IdentifierKey) -> Result<Option<RecordId>, AppError> {
        match identifiers::find(&*self.registry.store, kind, key).await {
            Ok(found) => Ok(Some(found)),
            Err(AppError::NotFound(_)) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// The open membership of the beneficiary in the program, if any.
    async fn holder(&self, draft: &MembershipDraft) -> Result<Option<RecordId>, AppError> {
        let (program, SubjectReference { kind, id }) = program_membership::named_in(draft)?;
        let program = self.found(RecordKind::Program, &program).await?;
        let beneficiary = self.found(kind.record_kind(), &id).await?;
        let (Some(program), Some(id)) = (program, beneficiary) else { return Ok(None) };
        let beneficiary = SubjectReference { kind, id };
        Ok(self.registry.store.open_membership(MembershipSlot { program, beneficiary }).await?)
    }

    async fn create(&self, ctx: &OpContext, record: BulkRecord) -> Result<(), AppError> {
        let registry = &*self.registry;
        match record {
            BulkRecord::Individual(draft) => edit::register(ctx, registry, *draft).await.map(drop)?,
            BulkRecord::Group(draft) => edit::register(ctx, registry, *draft).await.map(drop)?,
            BulkRecord::Program(details) => {
                program::create(ctx, registry, &self.engine, *details).await?;
            }
            BulkRecord::ProgramMembership(draft) => {
                let draft = self.unrequested(*draft);
                let create = || program_membership::create(ctx, registry, &self.engine, draft.clone());
                once_there_is_room(ctx, create).await?;
            }
            BulkRecord::Consent(draft) => {
                consent::create(ctx, registry, *draft).await?;
            }
        }
        Ok(())
    }

    /// A dry run evaluates no program: the subject may exist only in the dry run.
    fn unrequested(&self, mut draft: MembershipDraft) -> MembershipDraft {
        if self.is_dry_run && !draft.has(OVERRIDE) {
            draft.set(OVERRIDE, Some(Values::default().with(OVERRIDE_REASON, DRY_RUN.to_owned())));
        }
        draft
    }

    async fn update(
        &self,
        ctx: &OpContext,
        existing: RecordId,
        record: BulkRecord,
        condition: &VersionCondition,
    ) -> LineResult {
        let (registry, languages) = (&*self.registry, LanguagePreference::none());
        // The administrator may write every field; absent fields are removed, as by PUT.
        let spoken = UpdateMode::Replace(FieldSet::none());
        match record {
            BulkRecord::Individual(draft) => {
                let key = self.address(RecordKind::Individual, existing, &draft.details.identifiers).await?;
                let make = |_: &IndividualView| Ok((*draft).clone());
                edit::update::<IndividualRecord>(ctx, registry, languages, (&key, condition), &spoken, &make).await?;
            }
            BulkRecord::Group(draft) => {
                let key = self.address(RecordKind::Group, existing, &draft.details.identifiers).await?;
                let make = |_: &GroupView| Ok((*draft).clone());
                edit::update::<GroupRecord>(ctx, registry, languages, (&key, condition), &spoken, &make).await?;
            }
            BulkRecord::Program(details) => {
                let before = records::by_id::<ProgramDetails>(&*registry.store, existing).await?;
                records::check_version(condition, before.meta.version)?;
                program::replace(ctx, registry, &self.engine, &before, *details).await?;
            }
            BulkRecord::ProgramMembership(draft) => {
                let draft = self.unrequested(*draft);
                let address = match draft.identifiers.first() {
                    Some(_) => {
                        let kind = RecordKind::ProgramMembership;
                        let found = self.address(kind, existing, &draft.identifiers).await?;
                        MembershipAddress { key: found, program: None }
                    }
                    None => {
                        let (program, beneficiary) = program_membership::named_in(&draft)?;
                        MembershipAddress { key: beneficiary.id, program: Some(program) }
                    }
                };
                let make = |_: &MembershipView, _: &FieldSet| Ok(draft.clone());
                let terms = (condition, &spoken);
                let replace = || program_membership::replace(ctx, registry, &self.engine, &address, terms, &make);
                once_there_is_room(ctx, replace).await?;
            }
            BulkRecord::Consent(draft) => return self.consent(ctx, existing, &draft, condition).await,
        }
        Ok(Done::Updated)
    }

    /// The identifier of a line that resolves to its record.
    async fn address(
        &self,
        kind: RecordKind,
        existing: RecordId,
        all: &[Identifier],
    ) -> Result<IdentifierKey, AppError> {
        for identifier in all {
            if self.found(kind, &identifier.key).await? == Some(existing) {
                return Ok(identifier.key.clone());
            }
        }
        Err(AppError::NotFound(kind))
    }

    /// The only change of a consent is its withdrawal.
    async fn consent(
        &self,
        ctx: &OpContext,
        existing: RecordId,
        draft: &ConsentDraft,
        condition: &VersionCondition,
    ) -> LineResult {
        let before = records::by_id::<ConsentDetails>(&*self.registry.store, existing).await?;
        if draft.is_withdrawn() {
            if before.details.is_withdrawn() {
                return Ok(Done::Skipped);
            }
            consent::withdraw(ctx, &self.registry, draft.id(), condition).await?;
            return Ok(Done::Updated);
        }
        let message = "a consent changes by being withdrawn alone: give another consent, or leave the line out";
        Err(AppError::invalid("consent_id", "immutable", message))
    }

    /// Adds the relationships that the record does not have already.
    async fn add_relationships<T: Editable>(
        &self,
        ctx: &OpContext,
        existing: RecordId,
        draft: &Fields<T, CodeUri, IdentifierKey>,
        condition: &VersionCondition,
    ) -> LineResult
    where
        Fields<T>: Details + Into<RecordDetails>,
    {
        let has_changed =
            edit::add_relationships(ctx, &self.registry, (existing, condition), draft, self.is_dry_run).await?;
        Ok(if has_changed { Done::Updated } else { Done::Skipped })
    }

    /// Checks the relationships that a line adds to a record that does not exist outside of the dry run.
    async fn resolve_addition<T: Editable>(
        &self,
        ctx: &OpContext,
        draft: &Fields<T, CodeUri, IdentifierKey>,
    ) -> Result<(), AppError> {
        let known = (&Shown::default(), &Held::default());
        edit::resolve_relationships(ctx, &self.registry, draft, known, None).await.map(drop)
    }

    /// The number of relationships whose records exist: those before `from`, which are not checked, and the ones after
    /// it up to the first one whose record does not exist yet.
    async fn resolved_relationships(
        &self,
        relationships: &[Value<CodeUri, IdentifierKey>],
        from: usize,
    ) -> Result<usize, AppError> {
        for (at, relationship) in relationships.iter().enumerate().skip(from) {
            for Reference { kind, id } in relationship.references() {
                match self.found(*kind, id).await {
                    Ok(None) => return Ok(at),
                    // The update reports it, or the record displays that identifier already.
                    Ok(Some(_)) | Err(AppError::Ambiguous) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(relationships.len())
    }

    /// The record to which a line adds relationships: the one with all its open identifiers. If all identifiers have
    /// ended, the one that had them: another record may have them now.
    async fn record_of_addition(&self, record: &BulkRecord) -> Result<Option<RecordId>, AppError> {
        let (kind, all) = (record.kind(), record.identifiers());
        let open: Vec<&Identifier> = all.iter().filter(|identifier| identifier.is_open()).collect();
        if let Some((first, others)) = open.split_first() {
            let found = self.found(kind, &first.key).await?;
            for other in others {
                if self.found(kind, &other.key).await? != found {
                    return Ok(None);
                }
            }
            return Ok(found);
        }
        let mut former: Option<BTreeSet<RecordId>> = None;
        for identifier in all {
            let owners = self.registry.store.identifier_owners(kind, &identifier.key, identifiers::OWNERS_MAX).await?;
            if let Some(owner) = owners.iter().find(|owner| is_of_dry_run(owner.id)) {
                // A dry run knows one owner of an identifier.
                return Ok(Some(owner.id));
            }
            let ended: BTreeSet<RecordId> =
                owners.into_iter().filter(|owner| !owner.is_open).map(|owner| owner.id).collect();
            former = Some(former.map_or_else(|| ended.clone(), |before| &before & &ended));
        }
        let mut former = former.unwrap_or_default().into_iter();
        match (former.next(), former.next()) {
            (only, None) => Ok(only),
            (_, Some(_)) => Err(AppError::Ambiguous),
        }
    }

    /// Adds the individuals that are not members already.
    async fn add_members(&self, ctx: &OpContext, draft: GroupDraft) -> LineResult {
        let registry = &*self.registry;
        let Some(key) = draft.details.identifiers.first().map(|identifier| identifier.key.clone()) else {
            return Err(AppError::invalid("identifier", "required", "the group is named by an identifier"));
        };
        let id = identifiers::find(&*registry.store, RecordKind::Group, &key).await;
        let id = id.map_err(|error| identifiers::explained(registry, &key, error))?;
        let today = utc_day(ctx.now);
        let mut done = Done::Skipped;
        for (at, member) in draft.details.items(MEMBER).enumerate() {
            let group = registry.store.find::<GroupDetails>(id).await?.ok_or(AppError::NotFound(RecordKind::Group))?;
            let person = self.found(RecordKind::Individual, &member.individual).await?;
            if group.details.active_members(today).any(|present| Some(present.individual) == person) {
                continue;
            }
            let change = MemberChange::Add(member);
            let added =
                change_member(ctx, registry, LanguagePreference::none(), (&key, &VersionCondition::Any), &change).await;
            added.map_err(|error| at_member(at, error))?;
            done = Done::Updated;
        }
        Ok(done)
    }
}

/// Success of a dry run.
fn dry_run(result: LineResult, done: Done) -> LineResult {
    match result {
        Err(AppError::DryRun) => Ok(done),
        other => other,
    }
}

/// Problems of one member, with its position in the line.
fn at_member(at: usize, error: AppError) -> AppError {
    match error {
        AppError::Invalid(mut problems) => {
            for problem in &mut problems {
                problem.field = format!("member[{at}].{}", problem.field);
            }
            AppError::Invalid(problems)
        }
        other => other,
    }
}
