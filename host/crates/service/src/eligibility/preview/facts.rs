//! What a rule reads of many subjects at once: of the columns where a field is one, of the records where it is none.
//!
//! **Invariant:** everything is read as it stood when the snapshot was taken: a record that was written since is read at its version of then.
//!
//! **Invariant:** what a client may not see is missing to its rule, exactly as if it were not recorded. That its grants open what the rule
//! reads was checked before; what is left are its consents, row by row.

mod programs;
mod records;

use std::sync::Arc;

use jiff::civil::Date;

pub(super) use self::records::Keeping;

use super::super::layout::{self, Bitmap, bit, count};
use super::super::schema::ROLE_PATH;
use super::households::Households;
use super::kept::PART_ROWS;
use crate::registry::Registry;
use daftar_domain::calendar::{days_since_epoch, utc_day};
use daftar_domain::consent::ConsentId;
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::{Batch, Column, ColumnValues, Reference, RowSpace, Schema, Subject};
use daftar_domain::error::AppError;
use daftar_domain::field::field_of_path;
use daftar_domain::subject::SubjectReference;
use daftar_index::{RowLimits, Snapshot};

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
    /// Where fields that are read of records are kept; absent where what is read is not worth it, or not the same for everybody.
    pub keeping: Option<Keeping>,
}

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
        let subjects = if self.keeping.is_some() { within_a_part(subjects) } else { subjects };
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
        let others: Vec<&Reference> = of_me().filter(|reference| !self.is_column(reference)).collect();
        self.add_of_records(self.kind, subjects, &others, columns).await
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
        let others: Vec<&Reference> = of_members().filter(|reference| !self.is_column(reference)).collect();
        self.add_of_records(Subject::Individual, &people_rows, &others, columns).await
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

/// The first of some ascending rows, up to the end of their part: so that parts are read by one batch each.
fn within_a_part(rows: &[u32]) -> &[u32] {
    let part_of = |row: &u32| row / PART_ROWS;
    let end = rows.partition_point(|row| rows.first().is_some_and(|first| part_of(row) == part_of(first)));
    rows.get(..end).unwrap_or(rows)
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
