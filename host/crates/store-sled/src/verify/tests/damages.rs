//! Every kind of damage to a register, one at a time.

use super::*;
use daftar_store::archive::Origin;
use daftar_store::record::audit::AuditSegment;

/// A change of the database: its description, the change, and the expected findings.
pub(super) type Damage = (&'static str, fn(&::sled::Db), &'static [&'static str]);

fn put(database: &::sled::Db, key: Vec<u8>, value: Vec<u8>) {
    database.insert(key, value).unwrap();
}

pub(super) fn take(database: &::sled::Db, key: Vec<u8>) -> Vec<u8> {
    database.remove(&key).unwrap().expect("there is such a value").to_vec()
}

fn slot(beneficiary: RecordId) -> Vec<u8> {
    let beneficiary = SubjectReference { kind: Subject::Individual, id: beneficiary };
    keys::open_membership(MembershipSlot { program: ONE, beneficiary })
}

fn of(kind: RecordKind, id: RecordId) -> Vec<u8> {
    keys::record(kind, id)
}

/// Damages and the beginnings of the expected findings, in the order of the parts.
pub(super) const DAMAGES: &[Damage] = &[
    (
        "a record with invalid bytes",
        |database| put(database, of(RecordKind::Individual, TWO), vec![3, 255, 255]),
        &["records: Individual number 2: the stored individual cannot be read: "],
    ),
    (
        "a record of a newer daftar",
        |database| put(database, of(RecordKind::Program, ONE), vec![99, 1]),
        &[
            "records: Program number 1: the stored program cannot be read: its version is 99, and this daftar reads 1; use the later version of daftar that wrote it",
        ],
    ),
    (
        "a missing record",
        |database| drop(take(database, of(RecordKind::Group, ONE))),
        &[
            "records: Group number 1: write 1 created its version 1, but it is missing",
            "identifiers: Group `urn:x:h|1`: it refers to Group number 1, which is missing",
        ],
    ),
    (
        "a missing record before others",
        |database| drop(take(database, of(RecordKind::ProgramMembership, ONE))),
        &["records: ProgramMembership number 1: it is missing between existing records"],
    ),
    (
        "a missing older version",
        |database| drop(take(database, keys::history(RecordKind::Individual, ONE, VersionId(1)))),
        &["history: Individual `urn:x:a|1`: version 1 is missing"],
    ),
    (
        "an older version that is another one",
        |database| {
            let present = database.get(of(RecordKind::Individual, ONE)).unwrap().unwrap();
            put(database, keys::history(RecordKind::Individual, ONE, VersionId(1)), present.to_vec());
        },
        &["history: Individual `urn:x:a|1`: the value stored as version 1 contains version 2"],
    ),
    (
        "an older version without a record",
        |database| {
            let old = database.get(keys::history(RecordKind::Individual, ONE, VersionId(1))).unwrap().unwrap();
            put(database, keys::history(RecordKind::Individual, RecordId(9), VersionId(1)), old.to_vec());
        },
        &["history: Individual number 9: version 1 of it is stored, but the record is missing"],
    ),
    (
        "an older version as new as the record",
        |database| {
            let old = database.get(keys::history(RecordKind::Individual, ONE, VersionId(1))).unwrap().unwrap();
            put(database, keys::history(RecordKind::Individual, ONE, VersionId(2)), old.to_vec());
        },
        &["history: Individual `urn:x:a|1`: an older version 2 is stored of a record at version 2"],
    ),
    (
        "an identifier without a record",
        |database| drop(take(database, keys::identifier(RecordKind::Individual, &key("urn:x:a|1")))),
        &[
            "identifiers: Individual `urn:x:a|1`: it is not indexed by its identifier of system `urn:x:a`; write the record again",
        ],
    ),
    (
        "an identifier of another record",
        |database| {
            let owners = record::identifier::encode(&[IdentifierOwner { id: TWO, is_open: true }]).unwrap();
            put(database, keys::identifier(RecordKind::Individual, &key("urn:x:a|1")), owners);
        },
        &[
            "identifiers: Individual `urn:x:a|1`: it is not indexed by its identifier of system `urn:x:a`",
            "identifiers: Individual `urn:x:a|1`: it is indexed as current for Individual number 2, but is ended in the record",
        ],
    ),
    (
        "an identifier that the record never had",
        |database| {
            let owners = record::identifier::encode(&[IdentifierOwner { id: TWO, is_open: false }]).unwrap();
            put(database, keys::identifier(RecordKind::Individual, &key("urn:x:a|9")), owners);
        },
        &["identifiers: Individual `urn:x:a|9`: it refers to Individual number 2, which never had it"],
    ),
    (
        "an identifier that is stored as ended",
        |database| {
            let owners = record::identifier::encode(&[IdentifierOwner { id: TWO, is_open: false }]).unwrap();
            put(database, keys::identifier(RecordKind::Individual, &key("urn:x:a|2")), owners);
        },
        &[
            "identifiers: Individual `urn:x:a|2`: its identifier of system `urn:x:a` is indexed as ended, but is current in the record",
        ],
    ),
    (
        "an identifier with invalid bytes",
        |database| put(database, keys::identifier(RecordKind::Individual, &key("urn:x:a|2")), vec![1, 7]),
        &["identifiers: Individual `urn:x:a|2`: the stored identifier cannot be read: "],
    ),
    (
        "a write missing in the change log",
        |database| drop(take(database, keys::by_number(keys::CHANGE, 2))),
        &["changes: the writes 2 to 2: 1 are missing in the change log"],
    ),
    (
        "the last write missing in the change log",
        |database| drop(take(database, keys::by_number(keys::CHANGE, 3))),
        &["changes: Individual `urn:x:a|2`: it is at version 2, but the change log has 1 versions of it"],
    ),
    (
        "a write with invalid bytes",
        |database| put(database, keys::by_number(keys::CHANGE, 2), vec![7]),
        &["changes: write 2: the stored change cannot be read: "],
    ),
    (
        "a write that created another version",
        |database| {
            let second = take(database, keys::by_number(keys::CHANGE, 2));
            put(database, keys::by_number(keys::CHANGE, 2), take(database, keys::by_number(keys::CHANGE, 3)));
            put(database, keys::by_number(keys::CHANGE, 3), second.clone());
            put(database, keys::by_number(keys::CHANGE, 4), second);
        },
        &["changes: Individual `urn:x:a|1`: write 4 created its version 2 instead of version 3"],
    ),
    (
        "an open membership with an empty slot",
        |database| drop(take(database, slot(TWO))),
        &["open_memberships: ProgramMembership number 2: it is enrolled, but indexed as not open"],
    ),
    (
        "a slot with an ended membership",
        |database| put(database, slot(TWO), record::open_membership::encode(Some(ONE)).unwrap()),
        &[
            "open_memberships: ProgramMembership number 1: it is exited, but indexed as open",
            "open_memberships: ProgramMembership number 2: it is enrolled, but indexed as not open",
            "open_memberships: the open membership of Individual `urn:x:a|2` in Program `urn:x:p|1`: it is ProgramMembership number 1, which is not open in its record",
        ],
    ),
    (
        "a slot with a missing membership",
        |database| put(database, slot(ONE), record::open_membership::encode(Some(RecordId(9))).unwrap()),
        &[
            "open_memberships: the open membership of Individual `urn:x:a|1` in Program `urn:x:p|1`: it is ProgramMembership number 9, which is missing",
        ],
    ),
    (
        "a photo with a missing part",
        |database| drop(take(database, keys::photo_part(photo().reference().digest, 1))),
        &["photos: the photo with the digest "],
    ),
    (
        "a missing photo",
        |database| {
            for part in 0..record::photo::encode(&photo()).unwrap().len() as u64 {
                drop(take(database, keys::photo_part(photo().reference().digest, part)));
            }
        },
        &[
            "photos: Individual `urn:x:a|1`: the photo of version 1 is missing",
            "photos: Individual `urn:x:a|1`: the photo is missing",
        ],
    ),
    (
        "a photo with a changed byte",
        |database| {
            let key = keys::photo_part(photo().reference().digest, 1);
            let mut part = take(database, key.clone());
            *part.last_mut().unwrap() ^= 1;
            put(database, key, part);
        },
        &["photos: the photo with the digest "],
    ),
    (
        "the codes of the table of codes",
        |database| drop(take(database, keys::by_number(keys::CODE_TABLE, 0))),
        &[
            "codes: part 0 of the table of codes: 1 parts are missing: later numbers in records cannot be decoded",
            "codes: Individual `urn:x:a|1`: the code number 1 (vocabulary version number 0) of version 1 is not in the table of codes",
            "codes: Individual `urn:x:a|1`: the code number 1 (vocabulary version number 0) is not in the table of codes",
        ],
    ),
    (
        "the versions of vocabularies at the end of the table of codes",
        |database| drop(take(database, keys::by_number(keys::CODE_TABLE, 1))),
        &[
            "codes: Individual `urn:x:a|1`: the code number 1 (vocabulary version number 0) of version 1 is not in the table of codes",
            "codes: Individual `urn:x:a|1`: the code number 1 (vocabulary version number 0) is not in the table of codes",
        ],
    ),
    (
        "a member that is missing",
        |database| {
            let bytes = take(database, of(RecordKind::Group, ONE));
            let mut household = record::fields::decode::<GroupRecord>(ONE, &bytes).unwrap();
            let mut members: Vec<Member> = household.details.members().collect();
            members[1].individual = RecordId(8);
            household.details.set(MEMBER, Some(members));
            put(database, of(RecordKind::Group, ONE), record::fields::encode(&household).unwrap());
        },
        &["references: Group `urn:x:h|1`: its `member[1]` is Individual number 8, which is missing"],
    ),
    (
        "a consent without a subject",
        |database| {
            let bytes = take(database, of(RecordKind::Consent, ONE));
            let mut consent = record::fields::decode::<ConsentRecord>(ONE, &bytes).unwrap();
            consent.details.set(SUBJECT, Some(Reference { kind: RecordKind::Individual, id: RecordId(8) }));
            put(database, of(RecordKind::Consent, ONE), record::fields::encode(&consent).unwrap());
        },
        &[
            "references: Consent `urn:uuid|123e4567-e89b-42d3-a456-426614174000`: its `subject` is Individual number 8, which is missing",
        ],
    ),
    (
        "a request whose record is missing",
        |database| {
            let answered = StoredResponse { status: 201, record: Some((RecordKind::Group, RecordId(9), VersionId(1))) };
            let request = IdempotentRequest { responses: vec![answered], ..samples::idempotent_request() };
            put(database, keys::request(&request.name), record::remembered::encode(&request).unwrap());
        },
        &["requests: a request of client `"],
    ),
    (
        "missing audit entries",
        |database| drop(take(database, keys::by_number(keys::AUDIT, 5))),
        &["audit: value 5 of the audit log: entries are missing that no removal of old entries deleted"],
    ),
    (
        "missing audit entries of a copy",
        |database| {
            drop(take(database, keys::by_number(keys::AUDIT, 5)));
            let (register, sequence) = (RegisterId([0; 16]), Sequence::default());
            let held = Held { register, sequence, code_table_parts: 0, audit: 5, audit_values: 5, removal: None };
            put(database, keys::ORIGIN.to_vec(), record::origin::encode(&Origin::Filled(held)).unwrap());
        },
        &[
            "audit: the audit log as it was copied into this folder: it lacks 1 values that no removal of old entries deleted",
        ],
    ),
    (
        "audit entries with invalid bytes",
        |database| put(database, keys::by_number(keys::AUDIT, 5), vec![2]),
        &["audit: value 5 of the audit log: the stored "],
    ),
    (
        "a summary that would hide entries",
        |database| {
            let number = summary(database);
            let stored = take(database, keys::by_number(keys::AUDIT_SEGMENT, number));
            let mut segment: AuditSegment = record::decode(&stored).unwrap();
            segment.filter.fill(0);
            put(database, keys::by_number(keys::AUDIT_SEGMENT, number), record::encode(&segment).unwrap());
        },
        &["audit_summaries: the summary of the audit log up to value "],
    ),
    (
        "a summary of more entries than exist",
        |database| {
            let number = summary(database);
            let stored = take(database, keys::by_number(keys::AUDIT_SEGMENT, number));
            let mut segment: AuditSegment = record::decode(&stored).unwrap();
            segment.lines += 1;
            put(database, keys::by_number(keys::AUDIT_SEGMENT, number), record::encode(&segment).unwrap());
        },
        &["audit_summaries: the summary of the audit log up to value "],
    ),
    (
        "a summary from before the first value on",
        |database| {
            let key = keys::by_number(keys::AUDIT_SEGMENT, summary(database));
            let mut segment: AuditSegment = record::decode(&take(database, key.clone())).unwrap();
            segment.first = 0;
            put(database, key, record::encode(&segment).unwrap());
        },
        &["audit_summaries: the summary of the audit log up to value "],
    ),
    (
        "a version before the first one",
        |database| {
            let first = keys::history(RecordKind::Individual, ONE, VersionId(1));
            let value = database.get(first).unwrap().unwrap().to_vec();
            put(database, keys::history(RecordKind::Individual, ONE, VersionId(0)), value);
        },
        &["history: Individual number 1: version 0 of it is stored, but versions count from 1"],
    ),
    (
        "a setting under another name",
        |database| {
            let from = keys::setting(&Setting::LocalCode(samples::local_code()).key());
            let setting = take(database, from);
            put(database, keys::setting(&Setting::LocalCode(samples::starter_code()).key()), setting);
        },
        &["settings: local code `"],
    ),
    (
        "a client with invalid bytes",
        |database| put(database, keys::client(&samples::full_client().id), vec![1, 200]),
        &["clients: client `demo-client_1`: the stored client cannot be read: "],
    ),
    (
        "a missing client",
        |database| drop(take(database, keys::client(&samples::full_client().id))),
        &["clients: client `demo-client_1`: write 1 names it, but it is missing"],
    ),
    (
        "a counter with invalid bytes",
        |database| put(database, keys::counter("day"), vec![]),
        &["counters: counter `day`: the stored counter cannot be read: it is empty"],
    ),
    (
        "a register with an invalid id",
        |database| put(database, keys::REGISTER.to_vec(), vec![77]),
        &["files: the id of the register: the stored "],
    ),
    (
        "an unknown key",
        |database| put(database, b"zz".to_vec(), vec![1]),
        &["files: a key of 2 bytes that begins with 0x7a: daftar does not write such keys"],
    ),
];

fn summary(database: &::sled::Db) -> u64 {
    let (key, _) = database.scan_prefix([keys::AUDIT_SEGMENT]).next().unwrap().unwrap();
    keys::number_of(&key).unwrap()
}
