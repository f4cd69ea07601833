//! What a rule reads of many subjects at once: of the columns where a field is one, of the records where it is none.
//!
//! **Invariant:** everything is read as it stood when the snapshot was taken: a record that was written since is read at its version of then.
//!
//! **Invariant:** what a client may not see is missing to its rule, exactly as if it were not recorded. That its grants open what the rule
//! reads was checked before; what is left are its consents, row by row.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::civil::Date;

use super::super::facts::MembershipFact;
use super::super::layout::{self, Bitmap, Row, add_columns, bit, count};
use super::super::load::MEMBERSHIPS_MAX;
use super::super::schema::ROLE_PATH;
use super::households::Households;
use crate::columns::{MembershipTerm, RowLimits, Snapshot};
use crate::context::OpContext;
use crate::domain::calendar::{days_since_epoch, utc_day};
use crate::domain::change::Details;
use crate::domain::consent::ConsentId;
use crate::domain::eligibility::{Batch, Children, Column, ColumnValues, Reference, RowSpace, Schema, Subject};
use crate::domain::field::{FieldSet, field_of_path};
use crate::domain::group::{Group, GroupDetails};
use crate::domain::individual::{Individual, IndividualDetails};
use crate::domain::program_membership::ProgramMembership;
use crate::domain::record::{Record, RecordId, RecordKind, VersionId};
use crate::domain::search::Page;
use crate::domain::subject::SubjectReference;
use crate::error::AppError;
use crate::service::program_membership;
use crate::service::registry::Registry;
use crate::service::{records, visibility};

/// The most subjects of one batch.
pub const BATCH_ROWS_MAX: usize = 4_096;
/// The most people of one batch, members of households included, where no record is read: a household has 500 at most.
const BATCH_PEOPLE_MAX: usize = 65_536;
/// The same where records are read.
const BATCH_RECORDS_MAX: usize = 1_024;

/// Reads facts from one snapshot.
pub(super) struct Facts {
    pub ctx: OpContext,
    pub registry: Registry,
    pub snapshot: Arc<Snapshot>,
    /// Which people exist for the client, and what of them; all, where absent.
    pub people: Option<Arc<RowLimits>>,
    /// The same of groups.
    pub groups: Option<Arc<RowLimits>>,
    pub schema: Arc<Schema>,
    pub references: Vec<Reference>,
    pub kind: Subject,
    pub as_of: Date,
    /// The number of the code of groups that are households; absent where no such code was ever stored.
    pub household: Option<u32>,
}

/// A record with what the rule may see of it.
type SeenRecord<D> = (Arc<Record<D>>, FieldSet);

impl Facts {
    /// Whether a record has to be read for the rule.
    pub fn reads_records(&self) -> bool {
        self.references.iter().any(|reference| !reference.path.is_empty() && !self.is_column(reference))
            || self.references.iter().any(|reference| reference.space == RowSpace::Programs)
    }

    /// The batch of the first of some subjects, and how many these are.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn batch(&self, subjects: &[u32]) -> Result<(Batch, usize), AppError> {
        let people_max = if self.reads_records() { BATCH_RECORDS_MAX } else { BATCH_PEOPLE_MAX };
        let subjects = subjects.get(..subjects.len().min(BATCH_ROWS_MAX).min(people_max)).unwrap_or(subjects);
        let households = Households::of(self, subjects, people_max);
        let taken = households.as_ref().map_or(subjects.len(), Households::subjects);
        let subjects = subjects.get(..taken).unwrap_or(subjects);
        self.rely(subjects, households.as_ref());
        let mut columns = Vec::new();
        self.add_me(subjects, households.as_ref(), &mut columns).await?;
        if let Some(households) = &households {
            self.add_members(households, &mut columns).await?;
        }
        let programs = self.add_programs(subjects, &mut columns).await?;
        let reads_members = self.references.iter().any(|reference| reference.space == RowSpace::Members);
        let members = households.filter(|_| reads_members).map(Households::into_children).transpose()?;
        let as_of = days_since_epoch(self.as_of);
        Ok((Batch { as_of, rows: count(taken)?, members, programs, columns }, taken))
    }

    /// Whether a field is a column, or the place in a household, which is one too.
    fn is_column(&self, reference: &Reference) -> bool {
        let kind = match reference.space {
            RowSpace::Me => self.kind,
            RowSpace::Members => Subject::Individual,
            RowSpace::Programs => return false,
        };
        (kind == Subject::Individual && reference.path == ROLE_PATH)
            || self.column(kind, &reference.path, &[]).is_some()
    }

    /// One field of some rows, where it is a column: which are there for the client, and the values.
    pub fn column(&self, kind: Subject, path: &str, rows: &[u32]) -> Option<(Vec<u8>, ColumnValues)> {
        let (valid, values) = match (kind, path) {
            // What does not say that it is not in use is in use.
            (Subject::Individual, "active") => {
                let (valid, values) = self.snapshot.gather(path, rows)?;
                let ColumnValues::Booleans(values) = values else { return None };
                let values = values.into_iter().enumerate();
                let in_use = values.map(|(row, value)| if bit(&valid, row) { value } else { 1 });
                (Vec::new(), ColumnValues::Booleans(in_use.collect()))
            }
            (Subject::Group, "active") => {
                let in_use = rows.iter().map(|row| u8::from(!self.snapshot.is_group_inactive(*row)));
                (Vec::new(), ColumnValues::Booleans(in_use.collect()))
            }
            (Subject::Individual, path) => self.snapshot.gather(path, rows)?,
            (Subject::Group, path) => self.snapshot.gather_groups(path, rows)?,
        };
        let valid = match self.limits(kind) {
            None => valid,
            Some(limits) => {
                let field = field_of_path(path);
                let mut seen = Bitmap::default();
                for (at, row) in rows.iter().enumerate() {
                    seen.push(bit(&valid, at) && limits.shows_field(field, *row));
                }
                seen.finish()
            }
        };
        Some((valid, values))
    }

    /// Which records of a kind exist for the client; all, where absent.
    pub fn limits(&self, kind: Subject) -> Option<&RowLimits> {
        match kind {
            Subject::Individual => self.people.as_deref(),
            Subject::Group => self.groups.as_deref(),
        }
    }

    async fn add_me(
        &self,
        subjects: &[u32],
        households: Option<&Households>,
        columns: &mut Vec<Column>,
    ) -> Result<(), AppError> {
        let of_me = || self.references.iter().filter(|reference| reference.space == RowSpace::Me);
        for reference in of_me().filter(|reference| self.is_column(reference)) {
            let column = match households {
                Some(households) if self.kind == Subject::Individual && reference.path == ROLE_PATH => {
                    Some(households.roles_of_subjects())
                }
                Some(_) | None => self.column(self.kind, &reference.path, subjects),
            };
            push(columns, reference, column);
        }
        if of_me().all(|reference| self.is_column(reference)) {
            return Ok(());
        }
        let others = of_me().filter(|reference| !self.is_column(reference));
        match self.kind {
            Subject::Individual => {
                let people = self.individuals(subjects).await?;
                let rows = rows_of(subjects, &people, |(record, fields)| Row::Person(&record.details, None, fields))?;
                for reference in others {
                    add_columns(&self.schema, reference, &rows, columns)?;
                }
            }
            Subject::Group => {
                let groups = self.group_records(subjects).await?;
                let rows = rows_of(subjects, &groups, |(record, fields)| Row::Group(&record.details, fields))?;
                for reference in others {
                    add_columns(&self.schema, reference, &rows, columns)?;
                }
            }
        }
        Ok(())
    }

    async fn add_members(&self, households: &Households, columns: &mut Vec<Column>) -> Result<(), AppError> {
        let of_members = || {
            self.references
                .iter()
                .filter(|reference| reference.space == RowSpace::Members && !reference.path.is_empty())
        };
        let people_rows = households.people();
        for reference in of_members().filter(|reference| self.is_column(reference)) {
            let column = match reference.path.as_str() {
                ROLE_PATH => Some(households.roles_of_members()),
                path => self.column(Subject::Individual, path, &people_rows),
            };
            push(columns, reference, column);
        }
        if of_members().all(|reference| self.is_column(reference)) {
            return Ok(());
        }
        let people = self.individuals(&people_rows).await?;
        let rows = rows_of(&people_rows, &people, |(record, fields)| Row::Person(&record.details, None, fields))?;
        for reference in of_members().filter(|reference| !self.is_column(reference)) {
            add_columns(&self.schema, reference, &rows, columns)?;
        }
        Ok(())
    }

    async fn add_programs(&self, subjects: &[u32], columns: &mut Vec<Column>) -> Result<Option<Children>, AppError> {
        let of_programs = || self.references.iter().filter(|reference| reference.space == RowSpace::Programs);
        if of_programs().next().is_none() {
            return Ok(None);
        }
        let (mut facts, mut offsets, mut known) = (Vec::new(), vec![0], Bitmap::default());
        for row in subjects {
            let found = self.memberships(*row).await?;
            known.push(found.is_some());
            facts.extend(found.into_iter().flatten());
            offsets.push(count(facts.len())?);
        }
        let rows: Vec<Row<'_>> = facts.iter().map(Row::Membership).collect();
        for reference in of_programs().filter(|reference| !reference.path.is_empty()) {
            add_columns(&self.schema, reference, &rows, columns)?;
        }
        Ok(Some(Children { offsets, known: known.finish() }))
    }

    /// The memberships of a subject in programs; not known where they are more than a rule looks at.
    async fn memberships(&self, row: u32) -> Result<Option<Vec<MembershipFact>>, AppError> {
        let Some(id) = self.snapshot.id_at(self.kind, row) else { return Ok(Some(Vec::new())) };
        let of_subject = [vec![MembershipTerm::Beneficiary(SubjectReference { kind: self.kind, id })]];
        let found = self.snapshot.memberships(&of_subject, Page { offset: 0, count: MEMBERSHIPS_MAX });
        let mut facts = Vec::new();
        for id in &found.ids {
            let seen = visibility::of(&self.ctx, &self.registry, RecordKind::ProgramMembership, *id);
            let Some(fields) = seen.filter(|seen| seen.allows("beneficiary")) else { continue };
            let present: Arc<ProgramMembership> = records::by_id(&*self.registry.store, *id).await?;
            let then = self.snapshot.membership_last_updated(*id);
            let record = self.as_it_stood(RecordKind::ProgramMembership, present, then).await?;
            let view = program_membership::view(&self.registry, record, fields).await?;
            facts.push(MembershipFact::from(&view));
        }
        let are_too_many = found.total > u64::from(MEMBERSHIPS_MAX) && !facts.is_empty();
        Ok((!are_too_many).then_some(facts))
    }

    /// The people of some rows, by row.
    async fn individuals(&self, rows: &[u32]) -> Result<BTreeMap<u32, SeenRecord<IndividualDetails>>, AppError> {
        let rows = self.ids(Subject::Individual, rows);
        let ids: Vec<RecordId> = rows.keys().copied().collect();
        let mut seen = BTreeMap::new();
        for present in self.registry.store.individuals(&ids).await? {
            let Some(row) = rows.get(&present.id).copied() else { continue };
            let Some(fields) = self.seen(Subject::Individual, present.id) else { continue };
            let then = self.snapshot.last_updated_at(Subject::Individual, row);
            let record: Arc<Individual> = self.as_it_stood(RecordKind::Individual, present, then).await?;
            seen.insert(row, (record, fields));
        }
        Ok(seen)
    }

    /// The groups of some rows, by row.
    async fn group_records(&self, rows: &[u32]) -> Result<BTreeMap<u32, SeenRecord<GroupDetails>>, AppError> {
        let mut seen = BTreeMap::new();
        for (id, row) in self.ids(Subject::Group, rows) {
            let Some(fields) = self.seen(Subject::Group, id) else { continue };
            let Some(present) = self.registry.store.group(id).await? else { continue };
            let then = self.snapshot.last_updated_at(Subject::Group, row);
            let record: Arc<Group> = self.as_it_stood(RecordKind::Group, present, then).await?;
            seen.insert(row, (record, fields));
        }
        Ok(seen)
    }

    fn ids(&self, kind: Subject, rows: &[u32]) -> BTreeMap<RecordId, u32> {
        rows.iter().filter_map(|row| Some((self.snapshot.id_at(kind, *row)?, *row))).collect()
    }

    /// A record as it stood when the snapshot was taken, which holds what was written up to `then`, in milliseconds.
    async fn as_it_stood<D: Details>(
        &self,
        kind: RecordKind,
        present: Arc<Record<D>>,
        then: Option<i64>,
    ) -> Result<Arc<Record<D>>, AppError> {
        let Some(then) = then else { return Ok(present) };
        let mut record = present;
        while record.meta.last_updated.as_millisecond() > then && record.meta.version > VersionId::FIRST {
            let before = VersionId(record.meta.version.0.saturating_sub(1));
            let older = self.registry.store.record_version(kind, record.id, before).await?.and_then(D::of);
            record = older.ok_or_else(|| AppError::internal(format!("an older version of a {kind} is not there")))?;
        }
        Ok(record)
    }

    /// What consents open of a record; nothing, where it is not there for the client.
    fn seen(&self, kind: Subject, id: RecordId) -> Option<FieldSet> {
        let Some(filter) = &self.ctx.consent else { return Some(FieldSet::All) };
        let subject = SubjectReference { kind, id };
        let day = utc_day(self.ctx.now);
        Some(self.snapshot.opened(kind.record_kind().resource(), subject, filter, day)?.fields)
    }

    /// The consents that open the record of a row.
    pub fn consents(&self, kind: Subject, row: u32) -> Vec<ConsentId> {
        let (Some(filter), Some(id)) = (&self.ctx.consent, self.snapshot.id_at(kind, row)) else { return Vec::new() };
        let (resource, day) = (kind.record_kind().resource(), utc_day(self.ctx.now));
        let opened = self.snapshot.opened(resource, SubjectReference { kind, id }, filter, day);
        opened.map(|opened| opened.consents).unwrap_or_default()
    }

    /// Notes the consents that open what is read.
    fn rely(&self, subjects: &[u32], households: Option<&Households>) {
        if self.ctx.consent.is_none() {
            return;
        }
        for row in subjects {
            self.ctx.trail.relies_on(&self.consents(self.kind, *row));
        }
        for row in households.into_iter().flat_map(Households::people) {
            self.ctx.trail.relies_on(&self.consents(Subject::Individual, row));
        }
        for row in households.into_iter().flat_map(Households::groups) {
            self.ctx.trail.relies_on(&self.consents(Subject::Group, row));
        }
    }
}

/// Whether the rule needs the texts of codes.
pub(super) fn needs_texts(references: &[Reference]) -> bool {
    references.iter().any(|reference| reference.needs_texts)
}

pub(super) use layout::codes_with_texts;

fn push(columns: &mut Vec<Column>, reference: &Reference, column: Option<(Vec<u8>, ColumnValues)>) {
    let is_there = columns.iter().any(|known| known.space == reference.space && known.path == reference.path);
    if let Some((valid, values)) = column.filter(|_| !is_there) {
        columns.push(Column { space: reference.space, path: reference.path.clone(), valid, values });
    }
}

/// One row of a space for each of some rows, from what was read of them.
fn rows_of<'r, D>(
    rows: &[u32],
    read: &'r BTreeMap<u32, SeenRecord<D>>,
    row: impl Fn(&'r SeenRecord<D>) -> Row<'r>,
) -> Result<Vec<Row<'r>>, AppError> {
    let found = rows.iter().map(|at| read.get(at).map(&row));
    let found: Option<Vec<Row<'r>>> = found.collect();
    found.ok_or_else(|| AppError::internal("a record that the columns have is not there"))
}
