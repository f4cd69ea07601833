//! The way through what was written later than what another store holds.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use daftar_domain::change::Sequence;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_store::archive::{Entry, Held, Mark, OLDEST_AUDIT, WRITTEN_SINCE_MAX, too_many_written};
use daftar_store::{StoreError, record};

use super::super::super::database::Link;
use super::super::super::rows::{column, kind_number, number, signed};
use super::{ROWS_MAX, Stage, Walk};

/// What was written later.
pub(super) struct Later {
    pub(super) held: Held,
    /// The records that were, by kind and key.
    written: VecDeque<(RecordKind, RecordId)>,
}

impl Walk {
    /// Before the first thing that was written since.
    pub(in crate::archive) async fn since(
        link: Link,
        answer_timeout: Duration,
        mark: Mark,
        code_table_parts: u64,
        held: Held,
    ) -> Result<Self, StoreError> {
        let mut walk = Self::new(link, answer_timeout, mark, code_table_parts);
        let written = walk.written_after(held.sequence).await?;
        walk.later = Some(Later { held, written });
        Ok(walk)
    }

    /// The records that the writes after one touched.
    async fn written_after(&mut self, held: Sequence) -> Result<VecDeque<(RecordKind, RecordId)>, StoreError> {
        let (mut written, mut after) = (BTreeSet::new(), held);
        while after < self.mark.sequence {
            let statement = "SELECT sequence, value FROM daftar.change WHERE sequence > $1 ORDER BY sequence LIMIT $2";
            let rows = self.query(statement, &[&signed(after.0), &ROWS_MAX]).await?;
            let Some(last) = rows.last() else { return Err(super::missing("change")) };
            for row in &rows {
                written.extend(record::change::touched(column(row, 1)?)?);
            }
            if written.len() > WRITTEN_SINCE_MAX {
                return Err(too_many_written());
            }
            after = Sequence(number(last, 0)?);
        }
        Ok(written.into_iter().collect())
    }

    /// The next records that were written.
    pub(super) async fn records_written(
        &mut self,
        kind: RecordKind,
        entries: &mut Vec<Entry>,
    ) -> Result<Stage, StoreError> {
        let most = usize::try_from(self.rows).unwrap_or(1);
        let mut expected = Vec::new();
        if let Some(later) = &mut self.later {
            while expected.len() < most
                && let Some((_, id)) = later.written.pop_front_if(|(of, _)| *of == kind)
            {
                expected.push(id);
            }
        }
        let Some(last) = expected.last().copied() else { return Ok(self.after_records(kind)) };
        let ids: Vec<i64> = expected.iter().map(|id| signed(id.0)).collect();
        let statement = "SELECT id, version, value FROM daftar.record WHERE kind = $1 AND id = ANY($2) ORDER BY id";
        let rows = self.query(statement, &[&kind_number(kind), &ids]).await?;
        let statement = "SELECT id, version, value FROM daftar.earlier_version WHERE kind = $1 AND id = ANY($2) \
                         ORDER BY id, version";
        let older = self.query(statement, &[&kind_number(kind), &ids]).await?;
        self.take_all(kind, &expected, &rows, &older, entries).await?;
        Ok(Stage::Records { kind, after: last })
    }

    /// The oldest values of the audit log, and the one that tells of the last removal.
    pub(super) async fn oldest_audit(&mut self, entries: &mut Vec<Entry>) -> Result<Stage, StoreError> {
        let Some(Later { held, .. }) = &self.later else { return Ok(Stage::Audit { after: 0 }) };
        let (audit, removal) = (held.audit, held.removal);
        let statement = "SELECT number, value FROM daftar.audit WHERE number <= $1 ORDER BY number LIMIT $2";
        let rows = self.query(statement, &[&signed(audit), &signed(OLDEST_AUDIT as u64)]).await?;
        let last = rows.last().map(|row| number(row, 0)).transpose()?.unwrap_or(0);
        let told = match removal.filter(|number| *number > last && *number <= audit) {
            None => Vec::new(),
            Some(told) => {
                self.query("SELECT number, value FROM daftar.audit WHERE number = $1", &[&signed(told)]).await?
            }
        };
        for row in rows.iter().chain(&told) {
            entries.push(Entry::Audit { number: number(row, 0)?, value: column(row, 1)? });
        }
        Ok(Stage::Audit { after: audit })
    }
}
