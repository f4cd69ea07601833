//! Records with every field set, and minimal ones. Fields that are not named here are filled in from the schema.

use jiff::Timestamp;
use jiff::civil::Date;

use daftar_domain::calendar::Period;
use daftar_domain::code::CodedValue;
use daftar_domain::consent::{self, Consent, ConsentDetails, ConsentId};
use daftar_domain::extension::Extension;
use daftar_domain::group::{self, Group, GroupDetails, Member};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::individual::{self, IncomePeriod, Individual, IndividualDetails, TelecomSystem};
use daftar_domain::organization::LegalBasis;
use daftar_domain::person_name;
use daftar_domain::photo::{PhotoDigest, PhotoReference};
use daftar_domain::program::{self, Program, ProgramDetails};
use daftar_domain::program_membership::{self, MembershipStatus, ProgramMembership, ProgramMembershipDetails};
use daftar_domain::record::{Record, RecordId, RecordKind, RecordMeta, VersionId};
use daftar_domain::scope::Resource;
use daftar_domain::subject::Subject;
use daftar_domain::value::{Reference, Values};

use super::made_up::filled;
use super::parts::{coded, full_address, full_extension, meta, open_identifier};

fn days(start: Option<Date>, end: Option<Date>) -> Period {
    Period { start, end }
}

fn reference(kind: RecordKind, id: u64) -> Reference {
    Reference { kind, id: RecordId(id) }
}

/// An individual with every field set.
pub fn full_individual() -> Individual {
    let ended = days(Some(Date::constant(2001, 2, 3)), Some(Date::constant(2020, 12, 31)));
    let farmer = IdentifierKey::parse("https://example.org/farmers|F|7").unwrap();
    let identifiers = vec![
        open_identifier("urn:svc:vocab:id-type#national_id|ET-0001"),
        Identifier { key: farmer, period: Some(ended) },
    ];
    let name: Values = Values::default()
        .with(person_name::FAMILY, "Ḥaile".to_owned())
        .with(person_name::GIVEN, "Abebe".to_owned())
        .with(person_name::MIDDLE, "ገብረ".to_owned())
        .with(person_name::PREFIX, "Ato".to_owned())
        .with(person_name::SUFFIX, "Jr.".to_owned())
        .with(person_name::TEXT, "Ato Abebe Ḥaile".to_owned());
    let telecom: Values = Values::default()
        .with(individual::TELECOM_SYSTEM, TelecomSystem::Sms)
        .with(individual::TELECOM_VALUE, "+251 911 000000".to_owned())
        .with(individual::TELECOM_USE, "home".to_owned())
        .with(individual::TELECOM_RANK, 1_i64);
    let income: Values = Values::default()
        .with(individual::INCOME_AMOUNT, 1234.5_f64)
        .with(individual::INCOME_CURRENCY, coded(10, 4))
        .with(individual::INCOME_PERIOD, IncomePeriod::Month);
    let photo = PhotoReference { digest: PhotoDigest(std::array::from_fn(|index| index as u8)), length: 300_000 };
    let values: Values = Values::default()
        .with(individual::ACTIVE, true)
        .with(individual::NAME, name)
        .with(individual::BIRTH_DATE, Date::constant(1968, 2, 29))
        .with(individual::DECEASED_DATE, Date::constant(2024, 11, 30))
        .with(individual::GENDER, coded(2, 0))
        .with(individual::PREGNANCY_STATUS, coded(70_000, 300))
        .with(individual::LANGUAGES, Vec::<CodedValue>::new())
        .with(individual::DISABILITY_CODES, vec![coded(127, 1), coded(128, 1)])
        .with(individual::TELECOM, vec![telecom])
        .with(individual::ADDRESS, vec![full_address()])
        .with(individual::INCOME, income)
        .with(individual::PHOTO, photo);
    let values = filled(values, individual::FIELDS);
    Record { id: RecordId(7), meta: meta(), details: IndividualDetails::new(identifiers, values, full_extension()) }
}

/// An individual with an identifier alone, written by a command.
pub fn bare_individual() -> Individual {
    let details = IndividualDetails::new(vec![open_identifier("urn:x:y|1")], Values::default(), Extension::default());
    let meta = RecordMeta { version: VersionId::FIRST, last_updated: Timestamp::UNIX_EPOCH, source: None };
    Record { id: RecordId(1), meta, details }
}

/// A group with every field set.
pub fn full_group() -> Group {
    let since = days(Some(Date::constant(1969, 12, 31)), None);
    let members = vec![
        Member { individual: RecordId(7), role: Some(coded(30, 7)), period: Some(since), is_inactive: false },
        Member { individual: RecordId(300), role: None, period: None, is_inactive: true },
    ];
    let related = |target: u64, kind: CodedValue, period: Option<Period>| -> Values {
        Values::default()
            .with(group::RELATIONSHIP_TARGET, reference(RecordKind::Group, target))
            .with(group::RELATIONSHIP_TYPE, kind)
            .with(group::RELATIONSHIP_PERIOD, period)
    };
    let values: Values = Values::default()
        .with(group::ACTIVE, false)
        .with(group::NAME, "Haile household".to_owned())
        .with(group::GROUP_TYPE, coded(20, 5))
        .with(group::MEMBER, members)
        .with(group::RELATIONSHIP, vec![related(5, coded(31, 7), Some(since)), related(300, coded(32, 7), None)])
        .with(group::ADDRESS, vec![full_address(), Values::default()]);
    let values = filled(values, group::FIELDS);
    let identifiers = vec![open_identifier("urn:x:household|H-1")];
    Record { id: RecordId(2), meta: meta(), details: GroupDetails::new(identifiers, values, full_extension()) }
}

/// A program with every field set.
pub fn full_program() -> Program {
    let year = days(Some(Date::constant(2026, 1, 1)), Some(Date::constant(2026, 12, 31)));
    let values: Values = Values::default()
        .with(program::ACTIVE, true)
        .with(program::NAME, "Productive Safety Net".to_owned())
        .with(program::DESCRIPTION, "Food and cash for work".to_owned())
        .with(program::PROGRAM_TYPE, "cash".to_owned())
        .with(program::TARGET_TYPE, Subject::Group)
        .with(program::ELIGIBILITY, "members.size() > 3".to_owned())
        .with(program::ENFORCE_ELIGIBILITY, true)
        .with(program::PERIOD, year)
        .with(program::ENGINE, "eligibility-cel".to_owned());
    let values = filled(values, program::FIELDS);
    let identifiers = vec![open_identifier("urn:x:program|PSNP")];
    Record { id: RecordId(5), meta: meta(), details: ProgramDetails::new(identifiers, values, Extension::default()) }
}

/// A membership with every field set.
pub fn full_membership() -> ProgramMembership {
    let exception: Values = Values::default().with(program_membership::OVERRIDE_REASON, "flood".to_owned());
    let values: Values = Values::default()
        .with(program_membership::PROGRAM, reference(RecordKind::Program, 5))
        .with(program_membership::BENEFICIARY, reference(RecordKind::Group, 2))
        .with(program_membership::STATUS, MembershipStatus::Exited)
        .with(program_membership::ENROLLMENT_DATE, Date::constant(2026, 1, 15))
        .with(program_membership::EXIT_DATE, Date::constant(2026, 6, 30))
        .with(program_membership::OVERRIDE, exception);
    let values = filled(values, program_membership::FIELDS);
    let identifiers = vec![open_identifier("urn:x:place|M-1")];
    let details = ProgramMembershipDetails::new(identifiers, values, Extension::default());
    Record { id: RecordId(300), meta: meta(), details }
}

/// A consent with every field set.
pub fn full_consent() -> Consent {
    let values: Values = Values::default()
        .with(consent::CONSENT_ID, ConsentId::parse("123e4567-e89b-42d3-a456-426614174000").unwrap())
        .with(consent::SUBJECT, reference(RecordKind::Individual, 7))
        .with(consent::GRANTEE, "Ministry of Health".to_owned())
        .with(consent::PURPOSE, "vaccination".to_owned())
        .with(consent::EFFECTIVE_DATE, Date::constant(2026, 1, 1))
        .with(consent::EXPIRY_DATE, Date::constant(2026, 12, 31))
        .with(consent::SCOPES, vec![Resource::Individual, Resource::ProgramMembership])
        .with(consent::FIELD_NAMES, vec!["birth_date".to_owned(), "extension.farmer".to_owned()])
        .with(consent::LEGAL_BASIS, LegalBasis::Consent);
    let values = filled(values, consent::FIELDS);
    Record { id: RecordId(9), meta: meta(), details: ConsentDetails::new(Vec::new(), values, Extension::default()) }
}
