//! Reads facts about many subjects together: from columns if the field is a column, otherwise from records. The members
//! of the household of each subject are read from the columns.
//!
//! **Invariant:** everything is read at the snapshot. A record that was written later is read at its version in the
//! snapshot.
//!
//! **Invariant:** a value that the client may not read is missing to its rule, exactly as if it were not recorded. The
//! grants of the client were checked before against the fields that the rule reads; this module checks its consents,
//! row by row.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Inquiry;
use super::records::PART_ROWS;
use crate::eligibility::evaluate::reads_household;
use crate::eligibility::layout::{Bitmap, bit, count};
use crate::eligibility::schema::ROLE_PATH;
use crate::visibility;
use daftar_domain::calendar::utc_day;
use daftar_domain::consent::ConsentId;
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::{Batch, Children, Column, ColumnValues, Reference, RowSpace, Subject};
use daftar_domain::error::AppError;
use daftar_domain::field::field_of_path;
use daftar_domain::record::RecordKind;
use daftar_domain::subject::SubjectReference;
use daftar_index::{ActiveMember, RowLimits, Snapshot};

/// Maximum number of subjects of one batch.
pub const BATCH_ROWS_MAX: usize = 4_096;
/// Maximum number of individuals of one batch, members of households included, if no record is read. A household has at
/// most 500 members.
const BATCH_PEOPLE_MAX: usize = 65_536;
/// Maximum number of individuals of one batch if records are read.
const BATCH_RECORDS_MAX: usize = 1_024;

/// A partition of the register in memory at one snapshot, with the limits of the client's access.
#[derive(Clone)]
pub(super) struct View {
    pub snapshot: Arc<Snapshot>,
    /// Layout number: in snapshots with the same layout number the same row is the same record. `None` if no later
    /// snapshot has this layout.
    pub layout: Option<u64>,
    /// The individuals and their fields that the client may read; `None` if it may read all.
    people: Option<Arc<RowLimits>>,
    /// The groups and their fields that the client may read; `None` if it may read all.
    groups: Option<Arc<RowLimits>>,
}

impl View {
    pub fn new(ctx: &OpContext, snapshot: Arc<Snapshot>, layout: Option<u64>) -> Self {
        let [people, groups] =
            [RecordKind::Individual, RecordKind::Group].map(|kind| visibility::limits(ctx, &snapshot, kind));
        Self { snapshot, layout, people, groups }
    }

    /// Returns the records of a kind that exist for the client, or `None` if it may read all.
    pub fn limits(&self, kind: Subject) -> Option<&RowLimits> {
        match kind {
            Subject::Individual => self.people.as_deref(),
            Subject::Group => self.groups.as_deref(),
        }
    }
}

/// Reads a rule's facts about the subjects of one partition.
pub(super) struct Facts {
    pub inquiry: Arc<Inquiry>,
    pub view: View,
    /// The layout number under which fields from records are cached. `None` if caching does not pay off, or the fields
    /// are not the same for every client.
    pub keeps: Option<u64>,
}

impl Facts {
    /// Creates a reader for `subjects` of the `all` subjects of the partition. Fields from records are not cached if
    /// fewer than half of the subjects are selected, since a cached segment is read completely, or if the client reads
    /// by consent, since its fields differ from those of other clients.
    pub fn new(inquiry: Arc<Inquiry>, view: View, subjects: u64, all: u64) -> Self {
        let sees_all = Subject::ALL.iter().all(|kind| view.limits(*kind).is_none());
        let is_worth_it = sees_all && subjects.saturating_mul(2) >= all;
        let keeps = view.layout.filter(|_| is_worth_it);
        let mut facts = Self { inquiry, view, keeps };
        facts.keeps = keeps.filter(|_| facts.reads_records());
        facts
    }

    /// Returns the kind of the subjects.
    pub fn kind(&self) -> Subject {
        self.inquiry.question.kind
    }

    fn references(&self) -> impl Iterator<Item = &Reference> + Clone {
        self.inquiry.references.iter()
    }

    /// Returns the fields of a space that the rule reads.
    pub(super) fn of_space(&self, space: RowSpace) -> impl Iterator<Item = &Reference> + Clone {
        self.references().filter(move |reference| reference.space == space)
    }

    /// Returns true if the rule requires the texts of codes.
    pub fn needs_texts(&self) -> bool {
        self.references().any(|reference| reference.needs_texts)
    }

    /// Returns true if the rule requires a record to be read.
    pub fn reads_records(&self) -> bool {
        self.references().any(|reference| !reference.path.is_empty() && !self.is_column(reference))
            || self.of_space(RowSpace::Programs).next().is_some()
    }

    /// Returns a batch of the first of these subjects, and the number of its subjects.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn batch(&self, subjects: &[u32]) -> Result<(Batch, usize), AppError> {
        let people_max = if self.reads_records() { BATCH_RECORDS_MAX } else { BATCH_PEOPLE_MAX };
        let subjects = subjects.get(..subjects.len().min(BATCH_ROWS_MAX).min(people_max)).unwrap_or(subjects);
        let subjects = if self.keeps.is_some() { within_a_part(subjects) } else { subjects };
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
        let reads_members = self.of_space(RowSpace::Members).next().is_some();
        let members = households.filter(|_| reads_members).map(Households::into_children).transpose()?;
        Ok((Batch { as_of: self.inquiry.question.as_of, rows: count(taken)?, members, programs, columns }, taken))
    }

    /// Returns true if a field is a column, or the role in a household, which is a column too.
    fn is_column(&self, reference: &Reference) -> bool {
        let kind = match reference.space {
            RowSpace::Me => self.kind(),
            RowSpace::Members => Subject::Individual,
            RowSpace::Programs => return false,
        };
        (kind == Subject::Individual && reference.path == ROLE_PATH)
            || self.column(kind, &reference.path, &[]).is_some()
    }

    /// Returns one field of some rows, if it is a column: the rows with a value that the client may read, and the
    /// values.
    pub fn column(&self, kind: Subject, path: &str, rows: &[u32]) -> Option<(Vec<u8>, ColumnValues)> {
        let (valid, values) = match (kind, path) {
            // A record without `active` is active.
            (Subject::Individual, "active") => {
                let (valid, values) = self.view.snapshot.gather(path, rows)?;
                let ColumnValues::Booleans(values) = values else { return None };
                let values = values.into_iter().enumerate();
                let in_use = values.map(|(row, value)| if bit(&valid, row) { value } else { 1 });
                (Vec::new(), ColumnValues::Booleans(in_use.collect()))
            }
            (Subject::Group, "active") => {
                let in_use = rows.iter().map(|row| u8::from(!self.view.snapshot.is_group_inactive(*row)));
                (Vec::new(), ColumnValues::Booleans(in_use.collect()))
            }
            (Subject::Individual, path) => self.view.snapshot.gather(path, rows)?,
            (Subject::Group, path) => self.view.snapshot.gather_groups(path, rows)?,
        };
        let valid = match self.view.limits(kind) {
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

    async fn add_me(
        &self,
        subjects: &[u32],
        households: Option<&Households>,
        columns: &mut Vec<Column>,
    ) -> Result<(), AppError> {
        let kind = self.kind();
        for reference in self.of_space(RowSpace::Me).filter(|reference| self.is_column(reference)) {
            let column = match households {
                Some(households) if kind == Subject::Individual && reference.path == ROLE_PATH => {
                    Some(roles(households.roles.iter().copied()))
                }
                Some(_) | None => self.column(kind, &reference.path, subjects),
            };
            push(columns, reference, column);
        }
        self.add_of_records(RowSpace::Me, kind, subjects, columns).await
    }

    async fn add_members(&self, households: &Households, columns: &mut Vec<Column>) -> Result<(), AppError> {
        let people = households.people();
        for reference in self.of_space(RowSpace::Members).filter(|reference| self.is_column(reference)) {
            let column = match reference.path.as_str() {
                ROLE_PATH => Some(roles(households.seats.iter().map(|seat| seat.role))),
                path => self.column(Subject::Individual, path, &people),
            };
            push(columns, reference, column);
        }
        self.add_of_records(RowSpace::Members, Subject::Individual, &people, columns).await
    }

    /// Returns the fields of a space that are not columns, in the order of the rule.
    pub(super) fn of_records(&self, space: RowSpace) -> Vec<&Reference> {
        let fields = self.of_space(space).filter(|reference| !reference.path.is_empty());
        fields.filter(|reference| !self.is_column(reference)).collect()
    }

    /// Returns the consents that permit reading the record of a row.
    pub fn consents(&self, kind: Subject, row: u32) -> Vec<ConsentId> {
        let (Some(filter), Some(id)) = (&self.inquiry.ctx.consent, self.view.snapshot.id_at(kind, row)) else {
            return Vec::new();
        };
        let (resource, day) = (kind.record_kind().resource(), utc_day(self.inquiry.ctx.now));
        let opened = self.view.snapshot.opened(resource, SubjectReference { kind, id }, filter, day);
        opened.map(|opened| opened.consents).unwrap_or_default()
    }

    /// Adds the consents that permit this read to the audit context of the request.
    fn rely(&self, subjects: &[u32], households: Option<&Households>) {
        if self.inquiry.ctx.consent.is_none() {
            return;
        }
        for row in subjects {
            self.inquiry.ctx.trail.relies_on(&self.consents(self.kind(), *row));
        }
        for row in households.into_iter().flat_map(Households::people) {
            self.inquiry.ctx.trail.relies_on(&self.consents(Subject::Individual, row));
        }
        for row in households.into_iter().flat_map(|households| &households.groups) {
            self.inquiry.ctx.trail.relies_on(&self.consents(Subject::Group, *row));
        }
    }
}

/// Returns the leading rows of the first segment, so that one batch reads each segment. The rows are ascending.
fn within_a_part(rows: &[u32]) -> &[u32] {
    let part_of = |row: &u32| row / PART_ROWS;
    let end = rows.partition_point(|row| rows.first().is_some_and(|first| part_of(row) == part_of(first)));
    rows.get(..end).unwrap_or(rows)
}

fn push(columns: &mut Vec<Column>, reference: &Reference, column: Option<(Vec<u8>, ColumnValues)>) {
    let is_there = columns.iter().any(|known| known.space == reference.space && known.path == reference.path);
    if let Some((valid, values)) = column.filter(|_| !is_there) {
        columns.push(Column { space: reference.space, path: reference.path.clone(), valid, values });
    }
}

/// The households of the first subjects of a list.
#[derive(Debug, Default)]
struct Households {
    /// Start of the members of each subject in `seats`, followed by the end of the last.
    offsets: Vec<usize>,
    /// For each subject, true if its household is known.
    known: Vec<bool>,
    seats: Vec<ActiveMember>,
    /// The role of each subject in its household.
    roles: Vec<Option<u32>>,
    /// The groups that were checked as households.
    groups: BTreeSet<u32>,
}

impl Households {
    /// Returns the households of the first subjects, up to about `people_max` individuals but of at least one subject,
    /// or `None` if the rule reads no household.
    fn of(facts: &Facts, subjects: &[u32], people_max: usize) -> Option<Self> {
        if !reads_household(&facts.inquiry.references) {
            return None;
        }
        let mut households = Self { offsets: vec![0], ..Self::default() };
        for row in subjects {
            if !households.known.is_empty() && households.seats.len() + households.known.len() >= people_max {
                break;
            }
            let before = households.seats.len();
            let is_known = match facts.kind() {
                Subject::Individual => households.add_of_person(facts, *row),
                Subject::Group => households.add_of_group(facts, *row),
            };
            let mine = households.seats.iter().skip(before).find(|seat| seat.person == *row);
            let role = mine.filter(|_| facts.kind() == Subject::Individual).and_then(|seat| seat.role);
            households.roles.push(role);
            households.known.push(is_known);
            households.offsets.push(households.seats.len());
        }
        Some(households)
    }

    /// Returns the number of subjects.
    fn subjects(&self) -> usize {
        self.known.len()
    }

    /// Returns the rows of all members.
    fn people(&self) -> Vec<u32> {
        self.seats.iter().map(|seat| seat.person).collect()
    }

    /// Returns the members by subject.
    ///
    /// # Errors
    /// [`AppError::Internal`] if there are more members than a batch can count.
    fn into_children(self) -> Result<Children, AppError> {
        let mut known = Bitmap::default();
        self.known.iter().for_each(|is_known| known.push(*is_known));
        let offsets: Result<Vec<u32>, AppError> = self.offsets.into_iter().map(count).collect();
        Ok(Children { offsets: offsets?, known: known.finish() })
    }

    /// Adds the members of the individual's only active household. Without a household the list is empty. Returns false
    /// if there are several, since the rule cannot distinguish them.
    fn add_of_person(&mut self, facts: &Facts, person: u32) -> bool {
        let Some(household) = facts.inquiry.household else { return true };
        let day = facts.inquiry.question.as_of;
        let groups = facts.view.snapshot.groups_at(person, day).filter(|group| is_household(facts, *group, household));
        let groups: BTreeSet<u32> = groups.collect();
        self.groups.extend(&groups);
        let mut groups = groups.into_iter();
        match (groups.next(), groups.next()) {
            (None, _) => true,
            (Some(only), None) => {
                self.add_active_members(facts, only, day);
                true
            }
            (Some(_), Some(_)) => false,
        }
    }

    fn add_of_group(&mut self, facts: &Facts, group: u32) -> bool {
        let may_look = facts.view.limits(Subject::Group).is_none_or(|limits| limits.shows_field("member", group));
        if may_look {
            self.add_active_members(facts, group, facts.inquiry.question.as_of);
        }
        may_look
    }

    fn add_active_members(&mut self, facts: &Facts, group: u32, day: i32) {
        let limits = facts.view.limits(Subject::Individual);
        let seats = facts.view.snapshot.active_members_of(group, day);
        self.seats.extend(seats.filter(|seat| limits.is_none_or(|limits| limits.shows(seat.person))));
    }
}

/// Returns true if a group is an active household and the client may read the fields that state this.
fn is_household(facts: &Facts, group: u32, household: u32) -> bool {
    let may_look =
        |field: &str| facts.view.limits(Subject::Group).is_none_or(|limits| limits.shows_field(field, group));
    facts.view.limits(Subject::Group).is_none_or(|limits| limits.shows(group))
        && may_look("member")
        && may_look("group_type")
        && facts.view.snapshot.group_type_at(group) == Some(household)
        && !(may_look("active") && facts.view.snapshot.is_group_inactive(group))
}

fn roles(roles: impl Iterator<Item = Option<u32>>) -> (Vec<u8>, ColumnValues) {
    let (mut valid, mut codes) = (Bitmap::default(), Vec::new());
    for role in roles {
        valid.push(role.is_some());
        codes.push(role.unwrap_or_default());
    }
    (valid.finish(), ColumnValues::Codes(codes))
}
