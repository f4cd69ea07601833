//! The records that an upgrade touches: how many hold a code, and which they are.
//!
//! Codes in coded fields are counted in memory. An ID type stands in no coded field but is the system of identifiers: for those
//! the records are read through, which only a report about ID types does.

use std::collections::{BTreeMap, BTreeSet};

use crate::registry::Registry;
use crate::{audit, codes};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::code::CodeNumber;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::group::GroupDetails;
use daftar_domain::identifier::Identifier;
use daftar_domain::individual::IndividualDetails;
use daftar_domain::record::{Fields, RecordId, RecordKind, RecordType};
use daftar_vocabulary::Generation;

/// The most records that one report names.
pub const RECORDS_TOLD_MAX: usize = 10_000;
/// How many records are read at a time.
const PAGE_RECORDS: usize = 500;
/// How many targets one line of the audit log names.
const AUDITED_TARGETS: usize = 1_000;

/// A record that holds codes which would be gone or no longer in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TouchedRecord {
    /// `Individual/<system>|<value>` or `Group/<system>|<value>`. Personal data.
    pub reference: String,
    /// Where in the record such a code stands, and which.
    pub codes: Vec<(String, String)>,
}

/// The records that carry identifiers of some systems.
#[derive(Debug, Default)]
pub struct Carriers {
    /// How many records carry one of a system.
    counts: BTreeMap<String, u64>,
    individuals: BTreeSet<RecordId>,
    groups: BTreeSet<RecordId>,
    /// How many records carry one of any of the systems.
    total: u64,
}

impl Carriers {
    /// Reads all records through for identifiers of the systems; nothing where there are none.
    pub async fn find(registry: &Registry, systems: &BTreeSet<String>) -> Result<Self, AppError> {
        let mut carriers = Self::default();
        if systems.is_empty() {
            return Ok(carriers);
        }
        let store = &registry.store;
        for kind in [RecordKind::Individual, RecordKind::Group, RecordKind::Program, RecordKind::ProgramMembership] {
            let mut after = RecordId(0);
            loop {
                let page = store.scan_records(kind, after, PAGE_RECORDS).await?;
                let Some(last) = page.last() else { break };
                after = last.place().1;
                for record in &page {
                    carriers.note(kind, record.place().1, &record.identifiers(), systems);
                }
            }
        }
        Ok(carriers)
    }

    fn note(&mut self, kind: RecordKind, id: RecordId, identifiers: &[Identifier], systems: &BTreeSet<String>) {
        let held: BTreeSet<&str> = identifiers
            .iter()
            .map(|identifier| identifier.key.system.as_str())
            .filter(|system| systems.contains(*system))
            .collect();
        if held.is_empty() {
            return;
        }
        self.total += 1;
        for system in held {
            *self.counts.entry(system.to_owned()).or_default() += 1;
        }
        // Named ones only: the rest is counted.
        let named = match kind {
            RecordKind::Individual => &mut self.individuals,
            RecordKind::Group => &mut self.groups,
            RecordKind::Program | RecordKind::ProgramMembership | RecordKind::Consent => return,
        };
        if named.len() < RECORDS_TOLD_MAX {
            named.insert(id);
        }
    }

    /// How many records carry an identifier of that system.
    pub(super) fn count(&self, system: &str) -> u64 {
        self.counts.get(system).copied().unwrap_or_default()
    }

    /// How many records carry one of any of the systems.
    pub fn total(&self) -> u64 {
        self.total
    }
}

/// The records that hold one of the codes, at most `limit`, in the order in which they were registered, individuals first. That
/// they were named is written into the audit log.
pub(super) async fn records(
    ctx: &OpContext,
    registry: &Registry,
    generation: &Generation,
    (lost, carriers): (&BTreeSet<CodeNumber>, &Carriers),
    limit: usize,
) -> Result<Vec<TouchedRecord>, AppError> {
    let limit = limit.min(RECORDS_TOLD_MAX);
    let numbers: Vec<CodeNumber> = lost.iter().copied().collect();
    let (individuals, groups) = registry.index.holders_of(&numbers, limit).await?;
    let joined = |holders: Vec<RecordId>, carriers: &BTreeSet<RecordId>| -> Vec<RecordId> {
        let all: BTreeSet<RecordId> = holders.into_iter().chain(carriers.iter().copied()).collect();
        all.into_iter().collect()
    };
    let individuals = joined(individuals, &carriers.individuals);
    let groups = joined(groups, &carriers.groups);
    let of = Touching { generation, lost, carriers };
    let mut found = Vec::new();
    for page in individuals.chunks(PAGE_RECORDS) {
        let records = registry.store.find_all::<IndividualDetails>(page).await?;
        found.extend(records.iter().filter_map(|record| of.record(&record.details)));
        if found.len() >= limit {
            break;
        }
    }
    for id in groups {
        if found.len() >= limit {
            break;
        }
        let record = registry.store.find::<GroupDetails>(id).await?;
        found.extend(record.and_then(|record| of.record(&record.details)));
    }
    found.truncate(limit);
    for page in found.chunks(AUDITED_TARGETS) {
        let targets = page.iter().map(|record| record.reference.clone()).collect();
        let mut entry = audit::entry(ctx, AuditAction::Search, AuditOutcome::Allowed, targets);
        entry.note = Some("records that an upgrade of a plugin would touch".to_owned());
        registry.audit.record(ctx, entry).await?;
    }
    Ok(found)
}

/// What would be gone or no longer in use.
struct Touching<'a> {
    generation: &'a Generation,
    lost: &'a BTreeSet<CodeNumber>,
    carriers: &'a Carriers,
}

impl Touching<'_> {
    fn record<T: RecordType>(&self, details: &Fields<T>) -> Option<TouchedRecord> {
        let identifiers = &details.identifiers;
        let mut touched: Vec<(String, String)> = codes::with_fields(details)
            .filter(|(_, value)| self.lost.contains(&value.number))
            .filter_map(|(field, value)| Some((field, self.generation.table().uri(value.number)?.to_string())))
            .collect();
        let systems = identifiers.iter().map(|identifier| identifier.key.system.as_str());
        let systems = systems.filter(|system| self.carriers.counts.contains_key(*system));
        touched.extend(systems.map(|system| ("identifier".to_owned(), system.to_owned())));
        touched.sort_unstable();
        touched.dedup();
        let reference = crate::records::reference(T::KIND, &identifiers.first()?.key);
        (!touched.is_empty()).then_some(TouchedRecord { reference, codes: touched })
    }
}
