//! Compares records, their earlier versions, their identifiers and the slots of memberships.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use jiff::{SignedDuration, Timestamp};

use super::walk::Walk;
use super::{RawValues, finding, name, undecodable};
use crate::{IdentifierOwner, record};
use daftar_domain::change::ChangedRecord;
use daftar_domain::code::CodedValue;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::photo::PhotoReference;
use daftar_domain::program_membership::{MembershipSlot, ProgramMembershipRecord};
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::schema::{self, Kind};
use daftar_domain::value::{Reference, Value, in_order};
use daftar_domain::verification::{Finding, Part, Remedy, identifier_name, number_name, record_name};

/// Tolerance for a version dated before the previous version: requests overtake one another, and clocks are corrected.
const EARLIER_MAX: SignedDuration = SignedDuration::from_hours(24);

/// Number of earlier versions of a record that are read together.
const VERSIONS_AT_ONCE: usize = 256;

/// The finding for missing records.
pub(super) fn missing(kind: RecordKind, numbers: &Range<u64>) -> Finding {
    let last = numbers.end.saturating_sub(1);
    let place = if numbers.start == last {
        number_name(kind, RecordId(last))
    } else {
        format!("{kind} numbers {} to {last}", numbers.start)
    };
    finding(Part::Records, place, "it is missing between existing records", Remedy::Restore)
}

/// Checks a record and its related data.
pub(super) fn check_record(
    walk: &Walk,
    values: &dyn RawValues,
    kind: RecordKind,
    id: RecordId,
    value: &[u8],
) -> Vec<Finding> {
    let present = match record::decode_any(kind, id, value) {
        Ok(present) => present,
        Err(error) => return vec![undecodable(Part::Records, number_name(kind, id), &error)],
    };
    let mut inspection = Inspection { walk, values, name: record_name(&present), findings: Vec::new() };
    inspection.present(&present);
    inspection.findings
}

/// A record that is being checked.
struct Inspection<'i> {
    walk: &'i Walk,
    values: &'i dyn RawValues,
    name: String,
    findings: Vec<Finding>,
}

impl Inspection<'_> {
    fn report(&mut self, part: Part, problem: impl Into<String>, remedy: Remedy) {
        self.findings.push(finding(part, self.name.clone(), problem, remedy));
    }

    /// Reports data that the database cannot read, and returns nothing.
    fn read<T>(&mut self, read: Result<T, Finding>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(unreadable) => {
                self.findings.push(unreadable);
                None
            }
        }
    }

    fn present(&mut self, present: &ChangedRecord) {
        let (kind, id, version) = present.place();
        if let Some(differs) = self.walk.changes.differs(kind, id, version) {
            self.report(Part::Changes, differs, Remedy::Restore);
        }
        let mut carried = BTreeMap::new();
        for identifier in present.identifiers().iter() {
            *carried.entry(identifier.key.clone()).or_insert(false) |= identifier.is_open();
        }
        self.history(present, &mut carried);
        for (key, is_open) in &carried {
            self.owner(kind, id, key, *is_open);
        }
        self.content(present, None);
        self.references(present);
    }

    /// Checks every version before the current one.
    fn history(&mut self, present: &ChangedRecord, carried: &mut BTreeMap<IdentifierKey, bool>) {
        let (kind, id, version) = present.place();
        let (mut expected, mut before) = (VersionId::FIRST, None);
        for older in older_versions(self.values, kind, id) {
            let Some((at, value)) = self.read(older) else { return };
            if at >= version {
                let problem = format!("an older version {at} is stored of a record at version {version}");
                self.report(Part::History, problem, Remedy::Restore);
                return;
            }
            self.missing_versions(expected, at);
            expected = at.next();
            let old = match record::decode_any(kind, id, &value) {
                Ok(old) => old,
                Err(error) => {
                    self.findings.push(undecodable(Part::History, format!("{} version {at}", self.name), &error));
                    continue;
                }
            };
            if old.place().2 != at {
                let problem = format!("the value stored as version {at} contains version {}", old.place().2);
                self.report(Part::History, problem, Remedy::Restore);
            }
            self.order(&mut before, at, old.meta().last_updated);
            for identifier in old.identifiers().iter() {
                carried.entry(identifier.key.clone()).or_insert(false);
            }
            self.content(&old, Some(at));
        }
        self.missing_versions(expected, version);
        self.order(&mut before, version, present.meta().last_updated);
    }

    fn missing_versions(&mut self, from: VersionId, until: VersionId) {
        match until.0.saturating_sub(from.0) {
            0 => {}
            1 => self.report(Part::History, format!("version {from} is missing"), Remedy::Restore),
            more => {
                let problem = format!("{more} versions from {from} on are missing");
                self.report(Part::History, problem, Remedy::Restore);
            }
        }
    }

    fn order(&mut self, before: &mut Option<Timestamp>, version: VersionId, at: Timestamp) {
        if before.is_some_and(|before| before.duration_since(at) > EARLIER_MAX) {
            let problem = format!("version {version} is dated more than a day before the previous version");
            self.report(Part::History, problem, Remedy::Nothing);
        }
        *before = Some(at);
    }

    /// Checks that the table of identifiers names the record.
    fn owner(&mut self, kind: RecordKind, id: RecordId, key: &IdentifierKey, is_open: bool) {
        let Some(owners) = self.read(self.values.owners(kind, key)) else { return };
        // An unreadable list is reported with the identifiers.
        let Ok(owners) = owners.transpose() else { return };
        let owner = owners.unwrap_or_default().into_iter().find(|owner| owner.id == id);
        let of = format!("its identifier of system `{}`", key.system);
        match owner {
            None => self.report(Part::Identifiers, format!("it is not indexed by {of}"), Remedy::WriteAgain),
            Some(owner) if owner.is_open != is_open => {
                let (stored, message) = if is_open { ("ended", "current") } else { ("current", "ended") };
                let problem = format!("{of} is indexed as {stored}, but is {message} in the record");
                self.report(Part::Identifiers, problem, Remedy::WriteAgain);
            }
            Some(_) => {}
        }
    }

    /// Checks the content of a version: its codes and its photo.
    fn content(&mut self, record: &ChangedRecord, version: Option<VersionId>) {
        let of = version.map(|version| format!(" of version {version}")).unwrap_or_default();
        let unknown = codes_of(record).into_iter().find(|code| !self.walk.codes.knows(self.values, *code));
        if let Some(code) = unknown {
            let (number, edition) = (code.number.0, code.edition.0);
            let problem = format!(
                "the code number {number} (vocabulary version number {edition}){of} is not in the table of codes"
            );
            self.report(Part::Codes, problem, Remedy::Restore);
        }
        if let Some(photo) = record.photo() {
            self.photo(photo, &of);
        }
    }

    fn photo(&mut self, photo: PhotoReference, of: &str) {
        let Some(has_length) = self.read(self.values.has_length(photo)) else { return };
        let problem = match has_length {
            None => format!("the photo{of} is missing"),
            Some(false) => format!("the length of the photo{of} differs from the record"),
            Some(true) => return,
        };
        self.report(Part::Photos, problem, Remedy::Restore);
    }

    /// Checks the references of the record.
    fn references(&mut self, record: &ChangedRecord) {
        let mut references = Vec::new();
        for (field, value) in in_order(schema::fields(record.place().0), record.values().iter()) {
            if !value.references().is_empty() {
                gather_references(&field.kind, value, field.name.to_owned(), &mut references);
            }
        }
        for (path, reference) in references {
            // A member is named by its index in the list.
            let path = path.strip_suffix(".entity").unwrap_or(&path);
            self.reference(reference.kind, reference.id, path);
        }
        if let ChangedRecord::ProgramMembership(membership) = record {
            let details = &membership.details;
            let Some(holder) = self.read(self.values.holder(details.slot())) else { return };
            // An unreadable slot is reported with the slots.
            let Ok(holder) = holder.transpose() else { return };
            let is_holder = holder.flatten() == Some(membership.id);
            if is_holder != details.status().is_open() {
                let stored = if is_holder { "open" } else { "not open" };
                let problem = format!("it is {}, but indexed as {stored}", details.status().name());
                self.report(Part::OpenMemberships, problem, Remedy::WriteAgain);
            }
        }
    }

    fn reference(&mut self, kind: RecordKind, id: RecordId, field: &str) {
        if self.read(self.values.has_record(kind, id)) == Some(false) {
            let problem = format!("its `{field}` is {}, which is missing", number_name(kind, id));
            self.report(Part::References, problem, Remedy::Restore);
        }
    }
}

/// Collects every reference in a value, with its path in the record. `path` is the path of the value.
fn gather_references<'v>(
    kind: &'static Kind,
    value: &'v Value,
    path: String,
    references: &mut Vec<(String, &'v Reference)>,
) {
    match (kind, value) {
        (_, Value::Reference(reference)) => references.push((path, reference)),
        (Kind::List { of, .. }, Value::List(items)) => {
            for (at, item) in items.iter().enumerate() {
                gather_references(of, item, format!("{path}[{at}]"), references);
            }
        }
        (Kind::Struct(part), Value::Struct(values)) => {
            for (field, value) in in_order(part.fields, values.iter()) {
                gather_references(&field.kind, value, format!("{path}.{}", field.name), references);
            }
        }
        _ => {}
    }
}

fn codes_of(record: &ChangedRecord) -> Vec<CodedValue> {
    let codes = record.values().codes(schema::fields(record.place().0)).into_iter().map(|(_, code)| *code);
    codes.chain(record.extension().codes().copied()).collect()
}

/// The finding for an earlier version of a missing record, or an invalid version.
pub(super) fn orphan_version(
    values: &dyn RawValues,
    kind: RecordKind,
    id: RecordId,
    version: VersionId,
) -> Option<Finding> {
    match values.has_record(kind, id) {
        Ok(true) if version < VersionId::FIRST => {
            let problem = format!("version {version} of it is stored, but versions count from {}", VersionId::FIRST);
            Some(finding(Part::History, number_name(kind, id), problem, Remedy::Restore))
        }
        Ok(true) => None,
        Ok(false) => {
            let problem = format!("version {version} of it is stored, but the record is missing");
            Some(finding(Part::History, number_name(kind, id), problem, Remedy::Restore))
        }
        Err(unreadable) => Some(unreadable),
    }
}

/// The earlier versions of a record, read in groups.
fn older_versions(
    values: &dyn RawValues,
    kind: RecordKind,
    id: RecordId,
) -> impl Iterator<Item = Result<(VersionId, Vec<u8>), Finding>> {
    let (mut read, mut after) = (VecDeque::new(), Some(VersionId(0)));
    std::iter::from_fn(move || {
        if let Some(from) = after.filter(|_| read.is_empty()) {
            match values.versions(kind, id, from, VERSIONS_AT_ONCE) {
                Ok(versions) => {
                    after = versions.last().map(|(version, _)| *version);
                    read.extend(versions);
                }
                Err(unreadable) => {
                    after = None;
                    return Some(Err(unreadable));
                }
            }
        }
        read.pop_front().map(Ok)
    })
}

/// Checks the owners of an identifier.
pub(super) fn check_identifier(values: &dyn RawValues, kind: RecordKind, key: &IdentifierKey) -> Vec<Finding> {
    let name = identifier_name(kind, key);
    let owners = match values.owners(kind, key) {
        Ok(Some(Ok(owners))) => owners,
        Ok(Some(Err(error))) => return vec![undecodable(Part::Identifiers, name, &error)],
        Ok(None) => return Vec::new(),
        Err(unreadable) => return vec![unreadable],
    };
    let mut findings = Vec::new();
    let mut report = |problem: String, remedy| findings.push(finding(Part::Identifiers, name.clone(), problem, remedy));
    if owners.iter().filter(|owner| owner.is_open).count() > 1 {
        report("more than one record has it".to_owned(), Remedy::Restore);
    }
    if owners.is_empty() {
        report("it is indexed for no record".to_owned(), Remedy::Nothing);
    }
    for owner in owners {
        match carries(values, kind, key, owner) {
            Ok(None) => {}
            Ok(Some((problem, remedy))) => report(problem, remedy),
            Err(unreadable) => return vec![unreadable],
        }
    }
    findings
}

/// The problem of a record as an owner, if any.
fn carries(
    values: &dyn RawValues,
    kind: RecordKind,
    key: &IdentifierKey,
    owner: IdentifierOwner,
) -> Result<Option<(String, Remedy)>, Finding> {
    let name = number_name(kind, owner.id);
    let Some(bytes) = values.record(kind, owner.id)? else {
        return Ok(Some((format!("it refers to {name}, which is missing"), Remedy::Restore)));
    };
    // An unreadable record is reported with the records.
    let Ok(record) = record::decode_any(kind, owner.id, &bytes) else { return Ok(None) };
    let has = |record: &ChangedRecord| record.identifiers().iter().any(|identifier| identifier.key == *key);
    let is_open = record.identifiers().iter().any(|identifier| identifier.key == *key && identifier.is_open());
    if owner.is_open && !is_open {
        let problem = format!("it is indexed as current for {name}, but is ended in the record");
        return Ok(Some((problem, Remedy::WriteAgain)));
    }
    if has(&record) {
        return Ok(None);
    }
    for older in older_versions(values, kind, owner.id) {
        let (_, value) = older?;
        // As above: it is reported elsewhere.
        if record::decode_any(kind, owner.id, &value).is_ok_and(|old| has(&old)) {
            return Ok(None);
        }
    }
    Ok(Some((format!("it refers to {name}, which never had it"), Remedy::Restore)))
}

/// Checks the open membership of a slot.
pub(super) fn check_slot(values: &dyn RawValues, slot: MembershipSlot) -> Vec<Finding> {
    let wrong =
        |problem: String, remedy| vec![finding(Part::OpenMemberships, slot_name(values, slot), problem, remedy)];
    let holder = match values.holder(slot) {
        Ok(Some(Ok(Some(holder)))) => holder,
        Ok(Some(Ok(None)) | None) => return Vec::new(),
        Ok(Some(Err(error))) => return vec![undecodable(Part::OpenMemberships, slot_name(values, slot), &error)],
        Err(unreadable) => return vec![unreadable],
    };
    let membership = match values.record(RecordKind::ProgramMembership, holder) {
        Ok(membership) => membership,
        Err(unreadable) => return vec![unreadable],
    };
    let of = number_name(RecordKind::ProgramMembership, holder);
    let Some(bytes) = membership else {
        return wrong(format!("it is {of}, which is missing"), Remedy::Restore);
    };
    match record::fields::decode::<ProgramMembershipRecord>(holder, &bytes) {
        Ok(membership) if membership.details.slot() == slot && membership.details.status().is_open() => Vec::new(),
        Ok(_) => wrong(format!("it is {of}, which is not open in its record"), Remedy::WriteAgain),
        // It is reported with the records.
        Err(_) => Vec::new(),
    }
}

fn slot_name(values: &dyn RawValues, slot: MembershipSlot) -> String {
    let beneficiary = name(values, slot.beneficiary.kind.record_kind(), slot.beneficiary.id);
    format!("the open membership of {beneficiary} in {}", name(values, RecordKind::Program, slot.program))
}
