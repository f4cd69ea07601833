//! Records, their older versions, their identifiers and the slots of memberships, held against one another.

use std::collections::BTreeMap;
use std::ops::Range;

use jiff::{SignedDuration, Timestamp};

use super::finding;
use super::look::{Look, strange_key, undecodable};
use super::walk::Walk;
use crate::keys;
use daftar_domain::change::ChangedRecord;
use daftar_domain::code::CodedValue;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::photo::PhotoReference;
use daftar_domain::program_membership::ProgramMembershipRecord;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::schema::{self, Kind};
use daftar_domain::value::{Reference, Value, in_order};
use daftar_domain::verification::{Finding, Part, Remedy, identifier_name, number_name, record_name};
use daftar_store::{IdentifierOwner, record};

/// How much earlier than the version before a version may say that it was written: requests overtake one another, and clocks are
/// put right.
const EARLIER_MAX: SignedDuration = SignedDuration::from_hours(24);

/// That records of those numbers are missing.
pub(super) fn missing(kind: RecordKind, numbers: &Range<u64>) -> Finding {
    let last = numbers.end.saturating_sub(1);
    let place = if numbers.start == last {
        number_name(kind, RecordId(last))
    } else {
        format!("{kind} numbers {} to {last}", numbers.start)
    };
    finding(Part::Records, place, "there are records before and after, and this is missing", Remedy::Restore)
}

/// Looks at a record with everything that hangs on it.
pub(super) fn inspect_record(walk: &Walk, look: &Look, kind: RecordKind, id: RecordId, value: &[u8]) -> Vec<Finding> {
    let present = match record::decode_any(kind, id, value) {
        Ok(present) => present,
        Err(error) => return vec![undecodable(Part::Records, number_name(kind, id), &error)],
    };
    let mut inspection = Inspection { walk, look, name: record_name(&present), findings: Vec::new() };
    inspection.present(&present);
    inspection.findings
}

/// One record that is looked at.
struct Inspection<'i> {
    walk: &'i Walk,
    look: &'i Look,
    name: String,
    findings: Vec<Finding>,
}

impl Inspection<'_> {
    fn tell(&mut self, part: Part, problem: impl Into<String>, remedy: Remedy) {
        self.findings.push(finding(part, self.name.clone(), problem, remedy));
    }

    /// Notes what the database cannot read; then nothing is known.
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
            self.tell(Part::Changes, differs, Remedy::Restore);
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

    /// Every version before the present one.
    fn history(&mut self, present: &ChangedRecord, carried: &mut BTreeMap<IdentifierKey, bool>) {
        let (kind, id, version) = present.place();
        let (mut expected, mut before) = (VersionId::FIRST, None);
        let look = self.look.clone();
        for entry in look.after(&keys::history_prefix(kind, id), None) {
            let Some((key, value)) = self.read(entry) else { return };
            let Some((_, _, at)) = keys::read::version_of(&key) else {
                self.findings.push(strange_key(Part::History, &key));
                continue;
            };
            if at >= version {
                let problem = format!("an older version {at} is kept of a record at version {version}");
                self.tell(Part::History, problem, Remedy::Restore);
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
                let problem = format!("what is kept as version {at} says that it is version {}", old.place().2);
                self.tell(Part::History, problem, Remedy::Restore);
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
            1 => self.tell(Part::History, format!("version {from} is missing"), Remedy::Restore),
            more => {
                let problem = format!("{more} versions from {from} on are missing");
                self.tell(Part::History, problem, Remedy::Restore);
            }
        }
    }

    fn order(&mut self, before: &mut Option<Timestamp>, version: VersionId, at: Timestamp) {
        if before.is_some_and(|before| before.duration_since(at) > EARLIER_MAX) {
            let problem =
                format!("version {version} says that it was written more than a day before the version before it");
            self.tell(Part::History, problem, Remedy::Nothing);
        }
        *before = Some(at);
    }

    /// Whether the table of identifiers names the record.
    fn owner(&mut self, kind: RecordKind, id: RecordId, key: &IdentifierKey, is_open: bool) {
        let Some(bytes) = self.read(self.look.get(&keys::identifier(kind, key))) else { return };
        let owners = bytes.map(|bytes| record::identifier::decode(&bytes)).transpose();
        // A list that cannot be read is told of where the identifiers are looked through.
        let Ok(owners) = owners else { return };
        let owner = owners.unwrap_or_default().into_iter().find(|owner| owner.id == id);
        let of = format!("its identifier of system `{}`", key.system);
        match owner {
            None => self.tell(Part::Identifiers, format!("it is not found by {of}"), Remedy::WriteAgain),
            Some(owner) if owner.is_open != is_open => {
                let (kept, said) = if is_open { ("ended", "holds") } else { ("holding", "has ended") };
                let problem = format!("{of} is kept as {kept}, and the record says that it {said}");
                self.tell(Part::Identifiers, problem, Remedy::WriteAgain);
            }
            Some(_) => {}
        }
    }

    /// What a version says: its codes and its photo.
    fn content(&mut self, record: &ChangedRecord, version: Option<VersionId>) {
        let of = version.map(|version| format!(" of version {version}")).unwrap_or_default();
        let unknown = codes_of(record).into_iter().find(|code| !self.walk.table.knows(self.look, *code));
        if let Some(code) = unknown {
            let (number, edition) = (code.number.0, code.edition.0);
            let problem = format!(
                "the code number {number} (vocabulary version number {edition}){of} is not in the table of codes"
            );
            self.tell(Part::Codes, problem, Remedy::Restore);
        }
        if let Some(photo) = record.photo() {
            self.photo(photo, &of);
        }
    }

    fn photo(&mut self, photo: PhotoReference, of: &str) {
        let Some(first) = self.read(self.look.get(&keys::photo_part(photo.digest, 0))) else { return };
        let parts = first.and_then(|first| record::photo::decode_part(&first).ok()).map(|(parts, _)| parts);
        match parts {
            None => self.tell(Part::Photos, format!("the photo{of} is not there"), Remedy::Restore),
            Some(parts) if !record::photo::can_be_kept_in(parts, photo.length) => {
                self.tell(
                    Part::Photos,
                    format!("the photo{of} has another length than the record says"),
                    Remedy::Restore,
                );
            }
            Some(_) => {}
        }
    }

    /// The records that it names.
    fn references(&mut self, record: &ChangedRecord) {
        let mut references = Vec::new();
        for (field, value) in in_order(schema::fields(record.place().0), record.values().iter()) {
            if !value.references().is_empty() {
                gather_references(&field.kind, value, field.name.to_owned(), &mut references);
            }
        }
        for (path, reference) in references {
            // A member is called by its place in the list.
            let path = path.strip_suffix(".entity").unwrap_or(&path);
            self.reference(reference.kind, reference.id, path);
        }
        if let ChangedRecord::ProgramMembership(membership) = record {
            let details = &membership.details;
            let slot = self.look.get(&keys::open_membership(details.slot()));
            let Some(slot) = self.read(slot) else { return };
            // A slot that cannot be read is told of where the slots are looked through.
            let Ok(holder) = slot.map(|slot| record::open_membership::decode(&slot)).transpose() else { return };
            let is_holder = holder.flatten() == Some(membership.id);
            if is_holder != details.status().is_open() {
                let kept = if is_holder { "open" } else { "not open" };
                let problem = format!("it is {}, and kept as {kept}", details.status().name());
                self.tell(Part::OpenMemberships, problem, Remedy::WriteAgain);
            }
        }
    }

    fn reference(&mut self, kind: RecordKind, id: RecordId, field: &str) {
        if self.read(self.look.has(&keys::record(kind, id))) == Some(false) {
            let problem = format!("its `{field}` is {}, which is not there", number_name(kind, id));
            self.tell(Part::References, problem, Remedy::Restore);
        }
    }
}

/// Every reference in a value, with its path in the record. `path` is where the value is.
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

/// An older version of a record that is not there.
pub(super) fn orphan_version(look: &Look, key: &[u8]) -> Option<Finding> {
    let Some((kind, id, version)) = keys::read::version_of(key) else {
        return Some(strange_key(Part::History, key));
    };
    match look.has(&keys::record(kind, id)) {
        Ok(true) => None,
        Ok(false) => {
            let problem = format!("version {version} of it is kept, and it is not there itself");
            Some(finding(Part::History, number_name(kind, id), problem, Remedy::Restore))
        }
        Err(unreadable) => Some(unreadable),
    }
}

/// Looks at the owners of an identifier.
pub(super) fn inspect_identifier(look: &Look, key: &[u8]) -> Vec<Finding> {
    let Some((kind, identifier)) = keys::read::identifier_of(key) else {
        return vec![strange_key(Part::Identifiers, key)];
    };
    let name = identifier_name(kind, &identifier);
    let bytes = match look.get(key) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Vec::new(),
        Err(unreadable) => return vec![unreadable],
    };
    let owners = match record::identifier::decode(&bytes) {
        Ok(owners) => owners,
        Err(error) => return vec![undecodable(Part::Identifiers, name, &error)],
    };
    let mut findings = Vec::new();
    let mut tell = |problem: String, remedy| findings.push(finding(Part::Identifiers, name.clone(), problem, remedy));
    if owners.iter().filter(|owner| owner.is_open).count() > 1 {
        tell("more than one record holds it".to_owned(), Remedy::Restore);
    }
    if owners.is_empty() {
        tell("it is kept for no record".to_owned(), Remedy::Nothing);
    }
    for owner in owners {
        match carries(look, kind, &identifier, owner) {
            Ok(None) => {}
            Ok(Some((problem, remedy))) => tell(problem, remedy),
            Err(unreadable) => return vec![unreadable],
        }
    }
    findings
}

/// What is wrong where a record is kept as an owner.
fn carries(
    look: &Look,
    kind: RecordKind,
    key: &IdentifierKey,
    owner: IdentifierOwner,
) -> Result<Option<(String, Remedy)>, Finding> {
    let name = number_name(kind, owner.id);
    let Some(bytes) = look.get(&keys::record(kind, owner.id))? else {
        return Ok(Some((format!("it leads to {name}, which is not there"), Remedy::Restore)));
    };
    // A record that cannot be read is told of where records are looked through.
    let Ok(record) = record::decode_any(kind, owner.id, &bytes) else { return Ok(None) };
    let has = |record: &ChangedRecord| record.identifiers().iter().any(|identifier| identifier.key == *key);
    let is_open = record.identifiers().iter().any(|identifier| identifier.key == *key && identifier.is_open());
    if owner.is_open && !is_open {
        let problem = format!("it is kept as holding for {name}, whose record says otherwise");
        return Ok(Some((problem, Remedy::WriteAgain)));
    }
    if has(&record) {
        return Ok(None);
    }
    for entry in look.after(&keys::history_prefix(kind, owner.id), None) {
        let (_, value) = entry?;
        // As above: it is told of elsewhere.
        if record::decode_any(kind, owner.id, &value).is_ok_and(|old| has(&old)) {
            return Ok(None);
        }
    }
    Ok(Some((format!("it leads to {name}, which never carried it"), Remedy::Restore)))
}

/// Looks at what holds a slot.
pub(super) fn inspect_slot(look: &Look, key: &[u8]) -> Vec<Finding> {
    let Some(slot) = keys::read::slot_of(key) else { return vec![strange_key(Part::OpenMemberships, key)] };
    let beneficiary = look.name(slot.beneficiary.kind.record_kind(), slot.beneficiary.id);
    let name = format!("the open membership of {beneficiary} in {}", look.name(RecordKind::Program, slot.program));
    let bytes = match look.get(key) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Vec::new(),
        Err(unreadable) => return vec![unreadable],
    };
    let holder = match record::open_membership::decode(&bytes) {
        Ok(Some(holder)) => holder,
        Ok(None) => return Vec::new(),
        Err(error) => return vec![undecodable(Part::OpenMemberships, name, &error)],
    };
    let membership = match look.get(&keys::record(RecordKind::ProgramMembership, holder)) {
        Ok(membership) => membership,
        Err(unreadable) => return vec![unreadable],
    };
    let of = number_name(RecordKind::ProgramMembership, holder);
    let Some(bytes) = membership else {
        let problem = format!("it is {of}, which is not there");
        return vec![finding(Part::OpenMemberships, name, problem, Remedy::Restore)];
    };
    match record::fields::decode::<ProgramMembershipRecord>(holder, &bytes) {
        Ok(membership) if membership.details.slot() == slot && membership.details.status().is_open() => Vec::new(),
        Ok(_) => {
            let problem = format!("it is {of}, which is not open there");
            vec![finding(Part::OpenMemberships, name, problem, Remedy::WriteAgain)]
        }
        // It is told of where records are looked through.
        Err(_) => Vec::new(),
    }
}
