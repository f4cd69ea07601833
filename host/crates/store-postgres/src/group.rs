//! A group of writes, planned against the records that they touch, as the rows to be written.

use std::collections::BTreeMap;
use std::sync::Arc;

use daftar_domain::audit::AuditEntry;
use daftar_domain::change::{Change, ChangedRecord, Sequence};
use daftar_domain::client::{Client, ClientId};
use daftar_domain::code::{CodeNumber, CodeUri, EditionNumber, Namespace};
use daftar_domain::deployment::SettingKey;
use daftar_domain::error::Outage;
use daftar_domain::idempotency::{IdempotentRequest, RequestName};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::photo::{Photo, PhotoDigest};
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_store::audit_log::{AuditRemoval, AuditRemoved};
use daftar_store::plan::{Last, Place, Planned, Planner};
use daftar_store::record::instant::milliseconds;
use daftar_store::record::json::CodeNames;
use daftar_store::record::setting::{SettingKind, key_bytes};
use daftar_store::records::Records;
use daftar_store::{Committed, IdentifierOwner, StoreError, StoredCodeTable, Write, changes_records, record};

use super::codes::CodeRows;
use super::failure::{Failure, Meaning};
use super::index::Behind;
use super::rows::{kind_number, signed};
use super::state::{Basis, Locked, State};

/// Reason why a group could not be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The database failed.
    #[error(transparent)]
    Database(#[from] Failure),
    /// Something that is stored cannot be read.
    #[error(transparent)]
    Stored(#[from] StoreError),
}

impl Broken {
    /// The failure with which every job of the group ends.
    pub(super) fn failure(&self) -> Failure {
        match self {
            Self::Database(failure) => failure.clone(),
            Self::Stored(error) => Failure::new(Meaning::Refused, error.to_string()),
        }
    }

    /// True if the statement was rejected only because an earlier one of its transaction had failed.
    fn is_consequence(&self) -> bool {
        matches!(self, Self::Database(failure) if failure.is_of("25P02"))
    }
}

/// Stores the value of a statement, so that [`cause_of`] gets the outcomes of statements with different values.
pub(super) async fn fetch_into<T>(
    value: &mut T,
    fetched: impl Future<Output = Result<T, Broken>>,
) -> Result<(), Broken> {
    *value = fetched.await?;
    Ok(())
}

/// The outcome of pipelined statements of a transaction. Of several failures it is the first one in the database, which
/// rejects all later statements: their responses may be read before it. For that reason all of them are awaited.
pub(super) fn cause_of<const N: usize>(outcomes: [Result<(), Broken>; N]) -> Result<(), Broken> {
    let mut failed: Vec<Broken> = outcomes.into_iter().filter_map(Result::err).collect();
    let at = failed.iter().position(|broken| !broken.is_consequence()).unwrap_or_default();
    if at < failed.len() { Err(failed.swap_remove(at)) } else { Ok(()) }
}

impl From<tokio_postgres::Error> for Broken {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

impl From<Broken> for StoreError {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Database(failure) => failure.into(),
            Broken::Stored(error) => error,
        }
    }
}

/// Entry of a write in the change log.
#[derive(Debug)]
pub(super) struct ChangeRow {
    pub(super) sequence: Sequence,
    pub(super) value: Vec<u8>,
    /// Touched items besides the records of the value.
    pub(super) touched: Option<Vec<u8>>,
}

/// The rows to be written for a group, in their final state; records as stored JSON.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) records: BTreeMap<(RecordKind, RecordId), (ChangedRecord, Vec<u8>)>,
    /// Records that have fields unknown to this program.
    pub(super) behind: Behind,
    pub(super) earlier: Vec<(RecordKind, RecordId, VersionId, Vec<u8>)>,
    pub(super) owners: BTreeMap<(RecordKind, IdentifierKey), Vec<IdentifierOwner>>,
    pub(super) slots: BTreeMap<MembershipSlot, Option<RecordId>>,
    /// With the time of each.
    pub(super) requests: BTreeMap<RequestName, (i64, Vec<u8>)>,
    pub(super) clients: BTreeMap<ClientId, (Arc<Client>, Vec<u8>)>,
    pub(super) photos: BTreeMap<PhotoDigest, Photo>,
    /// Absent ones are deleted.
    pub(super) settings: BTreeMap<(i16, Vec<u8>), Option<Vec<u8>>>,
    pub(super) codes: CodeRows,
    pub(super) counters: BTreeMap<String, u64>,
    pub(super) changes: Vec<ChangeRow>,
    /// New audit entries, which the database numbers.
    pub(super) audit: Vec<AuditEntry>,
    /// Audit entries that report a removal, under the numbers of their values: each is written again with every step of
    /// it.
    pub(super) audit_removals: BTreeMap<u64, AuditEntry>,
    pub(super) audit_removed: Vec<u64>,
}

/// Result of a job once its group is written.
#[derive(Debug)]
pub(super) enum Outcome {
    Committed(Result<Committed, StoreError>),
    Numbered(Result<(Vec<CodeNumber>, Vec<EditionNumber>), StoreError>),
    Removed(Result<Option<AuditRemoved>, StoreError>),
}

/// A group, ready to be written.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) rows: Rows,
    /// The row of last numbers after the group.
    pub(super) locked: Locked,
    pub(super) changes: Vec<Change>,
    pub(super) outcomes: Vec<Outcome>,
}

impl Finished {
    /// True if there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        let Rows { codes, changes, audit, audit_removals, audit_removed, .. } = &self.rows;
        let is_without_audit = audit.is_empty() && audit_removals.is_empty() && audit_removed.is_empty();
        codes.is_empty() && changes.is_empty() && is_without_audit
    }
}

/// Plans the jobs of one group.
pub(super) struct Group<'g> {
    planner: Planner<'g, Records>,
    numbering: &'g mut daftar_store::numbering::Numbering,
    names: &'g mut CodeNames,
    basis: &'g Basis,
    rows: Rows,
    locked: Locked,
    changes: Vec<Change>,
    outcomes: Vec<Outcome>,
}

impl<'g> Group<'g> {
    /// Nothing planned yet, against the present records.
    pub(super) fn new(present: &'g Records, locked: Locked, state: &'g mut State) -> Self {
        let State { numbering, names, recent, basis, .. } = state;
        Self {
            planner: Planner::new(present, locked.last, recent),
            numbering,
            names,
            basis,
            rows: Rows::default(),
            locked,
            changes: Vec::new(),
            outcomes: Vec::new(),
        }
    }

    /// Plans an operation.
    pub(super) fn commit(
        &mut self,
        mut write: Write,
        request: Option<IdempotentRequest>,
    ) -> Result<Committed, StoreError> {
        // Checked against another database, it may have numbers that belong to other codes here.
        if changes_records(&write) && !self.basis.carries(self.locked.history, write.at) {
            let cause = "the database was replaced or restarted after this write was checked".into();
            return Err(StoreError::Failed(Outage(cause).into()));
        }
        let new_codes = write.take_new_codes();
        let codes = self.numbering.of_write(&new_codes)?;
        let mut planned = self.planner.plan(write, request)?;
        // Every possible rejection comes before anything of it is applied.
        let mut rows = Rows::default();
        let added = StoredCodeTable { codes, editions: Vec::new() };
        let named = self.names.counts();
        let parts = rows.codes.add_parts(self.locked.code_table_parts, self.names, &added);
        let parts = parts.and_then(|parts| rows.add(&planned, self.names).map(|()| parts));
        let parts = parts.inspect_err(|_| self.names.truncate(named))?;
        rows.counters.extend(new_codes.into_iter().flat_map(|new| new.counters));
        self.apply_numbers(parts, added);
        self.rows.audit.extend(planned.audit.iter().cloned());
        self.rows.merge(rows);
        self.locked.clients_generation += u64::from(!planned.outcome.clients.is_empty());
        self.locked.deployment_generation += u64::from(planned.outcome.settings.keys().any(is_of_deployment));
        self.planner.accept(&mut planned);
        self.changes.extend(planned.changes);
        Ok(planned.committed)
    }

    /// Assigns numbers to codes and editions.
    pub(super) fn number(
        &mut self,
        codes: Vec<CodeUri>,
        editions: Vec<(Namespace, String)>,
    ) -> Result<(Vec<CodeNumber>, Vec<EditionNumber>), StoreError> {
        let numbered = self.numbering.number(codes, editions)?;
        let first = self.locked.code_table_parts;
        let parts = self.rows.codes.add_parts(first, self.names, &numbered.added)?;
        self.apply_numbers(parts, numbered.added);
        Ok((numbered.codes, numbered.editions))
    }

    fn apply_numbers(&mut self, parts: u64, added: StoredCodeTable) {
        self.locked.deployment_generation += u64::from(parts > 0);
        self.locked.code_table_parts += parts;
        self.numbering.apply(added);
    }

    /// Removes old values of the audit log that still exist, and reports it under the number `at`.
    pub(super) fn remove_audit(
        &mut self,
        there: &BTreeMap<u64, u64>,
        numbers: &[u64],
        removal: AuditRemoval,
        at: u64,
    ) -> Option<AuditRemoved> {
        let AuditRemoval { line, reported, before: _ } = removal;
        let gone: Vec<u64> = numbers.iter().copied().filter(|number| there.contains_key(number)).collect();
        if gone.is_empty() {
            return None;
        }
        let removed = gone.iter().filter_map(|number| there.get(number)).sum::<u64>();
        let lines = reported.map_or(0, |reported| reported.lines).saturating_add(removed);
        let line = record::audit::entry_as_stored(AuditEntry { count: lines, ..line });
        self.rows.audit_removals.insert(at, line);
        self.rows.audit_removed.extend(gone);
        Some(AuditRemoved { at, lines })
    }

    /// Notes the outcome of the next job.
    pub(super) fn note(&mut self, outcome: Outcome) {
        self.outcomes.push(outcome);
    }

    /// Ends the group.
    pub(super) fn finish(self) -> Finished {
        let locked = Locked { last: self.planner.last(), ..self.locked };
        Finished { rows: self.rows, locked, changes: self.changes, outcomes: self.outcomes }
    }
}

impl Rows {
    /// Adds the rows of one write.
    fn add(&mut self, planned: &Planned, names: &CodeNames) -> Result<(), StoreError> {
        let outcome = &planned.outcome;
        for replaced in &planned.replaced {
            let (kind, id, version) = replaced.place();
            // Once it has no unknown fields, its rows in the index may still be old.
            self.behind.note(replaced);
            self.earlier.push((kind, id, version, record::json::encode(replaced, names)?));
        }
        for (place, changed) in &outcome.records {
            self.records.insert(*place, (changed.clone(), record::json::encode(changed, names)?));
        }
        for (name, request) in &outcome.remembered {
            let value = record::remembered::encode(request)?;
            self.requests.insert(name.clone(), (milliseconds(request.at), value));
        }
        for (id, client) in &outcome.clients {
            self.clients.insert(id.clone(), (Arc::clone(client), record::client::encode(client)?));
        }
        for (key, setting) in &outcome.settings {
            let value = setting.as_deref().map(record::setting::encode).transpose()?;
            self.settings.insert((SettingKind::of(key) as i16, key_bytes(key)), value);
        }
        self.owners.extend(outcome.owners.iter().map(|(key, owners)| (key.clone(), owners.clone())));
        self.slots.extend(&outcome.open_memberships);
        self.photos.extend(outcome.photos.iter().map(|(digest, photo)| (*digest, photo.clone())));
        let value = record::change::encode(planned.at, &planned.changes, outcome.clients.keys())?;
        let named = planned.changes.iter().map(|change| (change.record.place().0, change.record.place().1));
        let named: std::collections::BTreeSet<Place> = named.collect();
        let besides: std::collections::BTreeSet<Place> =
            planned.touched().filter(|place| !named.contains(place)).collect();
        let touched = (!besides.is_empty()).then(|| places_to_bytes(besides));
        self.changes.push(ChangeRow { sequence: planned.committed.sequence, value, touched });
        Ok(())
    }

    /// Applies the rows of a later write.
    fn merge(&mut self, later: Self) {
        self.records.extend(later.records);
        self.behind.extend(later.behind);
        self.codes.codes.extend(later.codes.codes);
        self.codes.editions.extend(later.codes.editions);
        self.earlier.extend(later.earlier);
        self.owners.extend(later.owners);
        self.slots.extend(later.slots);
        self.requests.extend(later.requests);
        self.clients.extend(later.clients);
        self.photos.extend(later.photos);
        self.settings.extend(later.settings);
        self.counters.extend(later.counters);
        self.changes.extend(later.changes);
    }

    /// True if the group creates the record.
    pub(super) fn is_new(before: &Last, kind: RecordKind, id: RecordId) -> bool {
        id.0 > before.key(kind)
    }
}

/// Nine bytes per record: the kind and the key.
fn places_to_bytes(places: impl IntoIterator<Item = Place>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, id) in places {
        bytes.extend(u8::try_from(kind_number(kind)));
        bytes.extend_from_slice(&signed(id.0).to_be_bytes());
    }
    bytes
}

/// Decodes the records of the bytes; `None` for bytes that this program cannot have written.
pub(super) fn places_of_bytes(bytes: &[u8]) -> Option<Vec<Place>> {
    let (places, rest) = bytes.as_chunks::<9>();
    if !rest.is_empty() {
        return None;
    }
    let place = |place: &[u8; 9]| {
        let (kind, id) = place.split_first()?;
        let id = u64::try_from(i64::from_be_bytes(id.try_into().ok()?)).ok()?;
        Some((super::rows::kind_of(i16::from(*kind)).ok()?, RecordId(id)))
    };
    places.iter().map(place).collect()
}

/// True if servers have the setting in memory, and must be notified of its change.
fn is_of_deployment(key: &SettingKey) -> bool {
    SettingKind::OF_DEPLOYMENT.contains(&SettingKind::of(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_round_trip_and_truncated_bytes_are_invalid() {
        let places = vec![(RecordKind::Individual, RecordId(1)), (RecordKind::Consent, RecordId(1 << 40))];
        let bytes = places_to_bytes(places.clone());
        assert_eq!(places_of_bytes(&bytes), Some(places));
        assert_eq!(places_of_bytes(&bytes[1..]), None);
        assert_eq!(places_of_bytes(&[9; 9]), None, "no such kind");
    }

    #[test]
    fn of_pipelined_statements_the_failure_that_caused_the_others_is_reported() {
        let failed = |code: &str| -> Result<(), Broken> {
            Err(Failure::new(Meaning::Refused, format!("the database refused it ({code})")).into())
        };
        let reported = |outcomes: [Result<(), Broken>; 3]| cause_of(outcomes).map_err(|broken| broken.to_string());
        for (outcomes, code) in [
            ([failed("25P02"), Ok(()), failed("53100")], "53100"),
            ([failed("23505"), failed("25P02"), failed("25P02")], "23505"),
            ([Ok(()), failed("25P02"), Ok(())], "25P02"),
        ] {
            assert_eq!(reported(outcomes), Err(format!("the database refused it ({code})")));
        }
        assert_eq!(reported([Ok(()), Ok(()), Ok(())]), Ok(()));
    }
}
