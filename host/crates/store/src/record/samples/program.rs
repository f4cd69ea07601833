//! Programs and places in them.

use jiff::civil::Date;

use daftar_domain::calendar::Period;
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::program::{Program, ProgramDetails};
use daftar_domain::program_membership::{MembershipStatus, ProgramMembership, ProgramMembershipDetails};
use daftar_domain::record::RecordId;
use daftar_domain::subject::{Subject, SubjectReference};

use super::parts::meta;

/// A program with every field set.
pub fn full_program() -> Program {
    let year = Period { start: Some(Date::constant(2026, 1, 1)), end: Some(Date::constant(2026, 12, 31)) };
    let details = ProgramDetails {
        identifiers: vec![Identifier { key: IdentifierKey::parse("urn:x:program|PSNP").unwrap(), period: None }],
        active: Some(true),
        name: "Productive Safety Net".into(),
        description: Some("Food and cash for work".into()),
        program_type: Some("cash".into()),
        target_type: Subject::Group,
        eligibility: Some("members.size() > 3".into()),
        enforce_eligibility: true,
        period: Some(year),
    };
    Program { id: RecordId(5), meta: meta(), details }
}

/// A membership with every field set.
pub fn full_membership() -> ProgramMembership {
    let details = ProgramMembershipDetails {
        identifiers: vec![Identifier { key: IdentifierKey::parse("urn:x:place|M-1").unwrap(), period: None }],
        has_no_identifier: false,
        program: RecordId(5),
        beneficiary: SubjectReference { kind: Subject::Group, id: RecordId(2) },
        status: MembershipStatus::Exited,
        enrollment_date: Some(Date::constant(2026, 1, 15)),
        exit_date: Some(Date::constant(2026, 6, 30)),
        exit_reason: Some("moved away".into()),
        override_reason: Some("flood".into()),
    };
    ProgramMembership { id: RecordId(300), meta: meta(), details }
}
