//! Records as stored JSON in `jsonb`, the numbers of codes, and the constraints of the database itself.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::*;
use crate::rows::{Json, column};
use daftar_domain::client::ClientStatus;
use daftar_domain::code::{CodeUri, Namespace};
use daftar_domain::consent::ConsentRecord;
use daftar_domain::extension::{Extension, ExtensionContent, ExtensionValue};
use daftar_domain::group::GroupRecord;
use daftar_domain::idempotency::{IdempotentRequest, RequestName, StoredResponse};
use daftar_domain::individual::{GENDER, IndividualRecord};
use daftar_domain::manifest::ExtensionPath;
use daftar_domain::program::ProgramRecord;
use daftar_domain::program_membership::ProgramMembershipRecord;
use daftar_domain::record::{Fields, Record, RecordType};
use daftar_domain::verification::VerificationEvent;
use daftar_store::record::json::{CodeNames, decode_one, encode_one};
use daftar_store::record::samples;
use daftar_store::suite::{Listener, commit, create, individual_of, person, write};
use daftar_store::verify::{Pace, verify};
use daftar_store::{Operation, StoredCodeTable};

struct Register {
    store: PostgresStore,
    server: Arc<Server>,
    url: String,
}

impl Register {
    async fn new() -> Self {
        let server = Server::shared();
        let url = server.create_database();
        let store = PostgresStore::open(options(&url)).await.unwrap();
        store.attach_sink(Arc::new(Listener::default())).unwrap();
        Self { store, server, url }
    }

    fn sql(&self, statements: &str) -> String {
        self.server.run_sql(self.url.rsplit_once('/').unwrap().1, statements).trim().to_owned()
    }

    /// Returns the name of the constraint that rejects a statement.
    async fn refused(&self, statement: &str) -> String {
        let connection = self.store.database.connection().await.unwrap();
        let error = connection.object().unwrap().batch_execute(statement).await.unwrap_err();
        error.as_db_error().unwrap().constraint().unwrap_or_default().to_owned()
    }

    async fn findings(&self) -> Vec<String> {
        let (events, mut reported) = tokio::sync::mpsc::channel(4);
        let listen = async {
            let mut findings = Vec::new();
            while let Some(event) = reported.recv().await {
                if let VerificationEvent::Finding(finding) = event {
                    findings.push(finding.to_string());
                }
            }
            findings
        };
        let verified = verify(self.store.raw_values().await.unwrap(), Pace::Fast, events);
        let (ended, findings) = tokio::join!(verified, listen);
        ended.unwrap();
        findings
    }

    /// Writes the record into a `jsonb`, and reads it back.
    async fn through<T: RecordType>(&self, record: &Record<Fields<T>>) {
        let names = names();
        let json = encode_one(record, &names).unwrap();
        let rows = self.store.database.query("SELECT $1::jsonb", &[&Json(json)]).await.unwrap();
        let stored: Json<&[u8]> = column(&rows[0], 0).unwrap();
        assert!(decode_one::<T>(record.id, stored.0).unwrap() == *record, "{}", String::from_utf8_lossy(stored.0));
    }
}

fn numbered() -> (Vec<CodeUri>, Vec<(Namespace, String)>) {
    let codes = (0..8).map(|number| CodeUri::parse(&format!("urn:x:codes#{number}")).unwrap()).collect();
    (codes, vec![(Namespace::parse("urn:x:codes").unwrap(), "2026".to_owned())])
}

fn names() -> CodeNames {
    let (codes, editions) = numbered();
    let mut names = CodeNames::new();
    names.apply(&StoredCodeTable { codes, editions });
    names
}

async fn any_through<T: RecordType>(register: &Register, seed: u8) {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    for number in 0..60 {
        let record = if number % 3 == 0 {
            samples::any_newer_record::<T>(9).new_tree(&mut runner).unwrap().current()
        } else {
            samples::any_record::<T>().new_tree(&mut runner).unwrap().current()
        };
        register.through(&record).await;
    }
}

#[tokio::test]
async fn records_of_every_kind_read_back_from_jsonb() {
    let register = Register::new().await;
    any_through::<IndividualRecord>(&register, 1).await;
    any_through::<GroupRecord>(&register, 2).await;
    any_through::<ProgramRecord>(&register, 3).await;
    any_through::<ProgramMembershipRecord>(&register, 4).await;
    any_through::<ConsentRecord>(&register, 5).await;
}

#[tokio::test]
async fn values_at_the_limits_read_back_from_jsonb() {
    let register = Register::new().await;
    let numbers = [0.0, -0.0, 5e-324, f64::MIN_POSITIVE, f64::MAX, -f64::MAX, 0.1, 1e16, 9_007_199_254_740_993.0];
    let values = numbers.map(ExtensionValue::Number).into_iter();
    let values = values.chain([i64::MIN, i64::MAX, -1].map(ExtensionValue::Integer));
    let texts = ["", "\0", "a\0\\u0000", "\u{1}\u{7f}\u{fffd}\u{ffff}😀", &"ገ".repeat(100_000)];
    let values = values.chain(texts.map(|text| ExtensionValue::Text(text.to_owned())));
    let days = [jiff::civil::Date::MIN, jiff::civil::Date::MAX, jiff::civil::date(0, 1, 1)];
    let values: Vec<_> = values.chain(days.map(ExtensionValue::Date)).collect();
    let mut one = samples::full_individual();
    one.meta.version.0 = u64::MAX;
    let path = ExtensionPath::parse("farmer.values").unwrap();
    one.details.extension = Extension::new(vec![(path, ExtensionContent::Many(values))]);
    register.through(&one).await;
    // The negative zero equals the positive one.
    let rows = register.store.database.query("SELECT $1::jsonb", &[&Json(encode_one(&one, &names()).unwrap())]).await;
    let rows = rows.unwrap();
    let read = decode_one::<IndividualRecord>(one.id, column::<Json<&[u8]>>(&rows[0], 0).unwrap().0).unwrap();
    let (_, content) = read.details.extension.iter().next().unwrap();
    assert!(matches!(content.values()[1], ExtensionValue::Number(zero) if zero.is_sign_negative()));
}

#[tokio::test]
async fn a_record_is_read_by_the_names_of_the_api_and_its_codes_by_their_rows() {
    let register = Register::new().await;
    let (codes, editions) = numbered();
    register.store.number_codes(codes, editions).await.unwrap();
    let individual = create(&register.store, person(&["urn:x:a|1"]).with(GENDER, samples::coded(2, 0))).await;
    let again = person(&["urn:x:a|1"]).with(GENDER, samples::coded(3, 0));
    let written = commit(&register.store, vec![Operation::update(individual.id, VersionId(1), again)]).await.unwrap();
    assert_eq!(individual_of(&written.written[0]).meta.version, VersionId(2));
    assert_eq!(
        register.sql(
            "SELECT value #>> '{gender,uri}', value #>> '{gender,edition}', value #>> '{identifier,0,value}', \
             value #>> '{meta,version_id}', version FROM daftar.record"
        ),
        "urn:x:codes#3|2026|1|2|2"
    );
    assert_eq!(register.sql("SELECT value #>> '{gender,uri}', version FROM daftar.earlier_version"), "urn:x:codes#2|1");
    assert_eq!(register.sql("SELECT number, system, code FROM daftar.code WHERE number = 7"), "7|urn:x:codes|7");
    assert_eq!(register.sql("SELECT number, system, edition FROM daftar.edition"), "0|urn:x:codes|2026");
    assert_eq!(register.findings().await, Vec::<String>::new());

    register.sql("UPDATE daftar.record SET value = jsonb_set(value, '{gender,uri}', '\"urn:x:codes#4\"')");
    let found = register.findings().await;
    let expected = "records: Individual `urn:x:a|1`: the URI of its code number 3 differs from that of the number";
    assert!(matches!(found.as_slice(), [one] if one.starts_with(expected)), "{found:#?}");
}

#[tokio::test]
async fn a_code_numbered_by_a_rejected_write_is_forgotten_with_it() {
    let register = Register::new().await;
    create(&register.store, person(&["urn:x:a|1"])).await;
    let (codes, editions) = numbered();
    register.store.number_codes(Vec::new(), editions).await.unwrap();
    let new = |codes: Vec<CodeUri>| {
        let given = Arc::new(|| {});
        Operation::NumberCodes(daftar_store::NewCodes { first: CodeNumber(0), codes, counters: Vec::new(), given })
    };
    // The identifier is in use.
    let refused = vec![new(codes), Operation::create(person(&["urn:x:a|1"]))];
    commit(&register.store, refused).await.unwrap_err();
    let other = CodeUri::parse("urn:x:other#a").unwrap();
    let coded = person(&["urn:x:a|2"]).with(GENDER, samples::coded(0, 0));
    commit(&register.store, vec![new(vec![other]), Operation::create(coded)]).await.unwrap();
    assert_eq!(register.sql("SELECT value #>> '{gender,uri}' FROM daftar.record WHERE id = 2"), "urn:x:other#a");
    assert_eq!(register.sql("SELECT system, code FROM daftar.code"), "urn:x:other|a");
    assert_eq!(register.findings().await, Vec::<String>::new());
}

#[tokio::test]
async fn the_database_rejects_rows_that_belong_to_no_record() {
    let register = Register::new().await;
    create(&register.store, person(&["urn:x:a|1"])).await;
    let (codes, editions) = numbered();
    register.store.number_codes(codes, editions).await.unwrap();
    for (statement, constraint) in [
        ("INSERT INTO daftar.identifier VALUES (1, 'urn:x:a', '2', 7, false)", "identifier_record"),
        ("INSERT INTO daftar.earlier_version VALUES (2, 1, 1, '{}')", "earlier_version_record"),
        ("INSERT INTO daftar.open_membership VALUES (1, 1, 1, 1)", "open_membership_record"),
        ("INSERT INTO daftar.open_membership VALUES (1, 3, 1, 1)", "open_membership_beneficiary_kind_check"),
        ("DELETE FROM daftar.record", "identifier_record"),
        ("UPDATE daftar.record SET value = '[]'", "record_value_check"),
        ("UPDATE daftar.record SET kind = 6", "record_kind_check"),
        ("INSERT INTO daftar.code VALUES (8, 'urn:x:codes', '7', 9)", "code_system_code_key"),
        ("INSERT INTO daftar.edition VALUES (8, 'urn:x:codes', '2026', 9)", "edition_system_edition_key"),
        (row_of_member(9, "'2026-01-02', '2026-01-01'").as_str(), "search_member_period"),
        (row_of_consent(9, "'2026-01-01', 'infinity'").as_str(), "search_consent_record"),
        (row_of_consent(9, "'2026-01-02', '2026-01-01'").as_str(), "search_consent_period"),
        ([row_of_consent(8, SOME_DAYS), row_of_consent(9, SOME_DAYS)].join("; ").as_str(), "search_consent_consent_id"),
        (
            "INSERT INTO daftar.search_membership (id, beneficiary_kind, beneficiary, program, status, last_updated) \
             VALUES (9, 1, 1, 1, 'draft', now())",
            "search_membership_record",
        ),
        ("INSERT INTO daftar.client VALUES ('c', 'C', 'other', '')", "client_status_is_known"),
    ] {
        assert_eq!(register.refused(statement).await, constraint, "{statement}");
    }
    // These have no foreign key: verification finds them.
    register.sql(&row_of_member(9, "'-infinity', 'infinity'"));
    let found = register.findings().await;
    let expected = "indexes: Group number 9: searches find it, but the record is missing";
    assert!(matches!(found.as_slice(), [one] if one.starts_with(expected)), "{found:#?}");
}

const SOME_DAYS: &str = "'2026-01-01', '2026-01-02'";

fn row_of_member(group: u64, days: &str) -> String {
    format!(
        "INSERT INTO daftar.search_member (group_id, place, individual, first_day, last_day, is_set_aside) \
         VALUES ({group}, 0, 1, {days}, false)"
    )
}

fn row_of_consent(id: u64, days: &str) -> String {
    format!(
        "INSERT INTO daftar.search_consent (id, consent_id, subject_kind, subject, grantee, first_day, last_day, \
         is_withdrawn, opens_subject, opens_memberships) \
         VALUES ({id}, '123e4567-e89b-42d3-a456-426614174000', 1, 1, 'clinic', {days}, false, true, false)"
    )
}

/// Like the queries of a DBA: the client of an audit entry, and old requests.
#[tokio::test]
async fn names_and_statuses_of_clients_and_times_of_requests_are_columns() {
    let register = Register::new().await;
    let client = samples::bare_client();
    commit(&register.store, vec![Operation::CreateClient(client.clone())]).await.unwrap();
    let columns = "SELECT id, name, status FROM daftar.client";
    assert_eq!(register.sql(columns), "demo-client_1|Demo · دفتر|disabled");
    let later: Timestamp = "2026-02-01T00:00:00Z".parse().unwrap();
    let enabled = Client { status: ClientStatus::Active, updated_at: later, ..client.clone() };
    commit(&register.store, vec![Operation::UpdateClient(enabled, client.updated_at)]).await.unwrap();
    assert_eq!(register.sql(columns), "demo-client_1|Demo · دفتر|active");
    assert_eq!(register.findings().await, Vec::<String>::new());
    register.sql("UPDATE daftar.client SET name = 'Other'");
    let found = register.findings().await;
    let expected = "clients: client `demo-client_1`: its columns `name` and `status` differ from its value";
    assert!(matches!(found.as_slice(), [one] if one.starts_with(expected)), "{found:#?}");

    let (id, key) = (ClientId::parse("demo-client_1").unwrap(), IdempotencyKey::parse("k").unwrap());
    let request = IdempotentRequest {
        name: RequestName { client: id, key, part: 0 },
        digest: [1; 32],
        at: "2026-01-02T03:04:05.678Z".parse().unwrap(),
        responses: vec![StoredResponse { status: 201, record: None }],
    };
    register.store.commit_once(write(vec![Operation::create(person(&["urn:x:a|1"]))]), request).await.unwrap();
    assert_eq!(register.sql("SELECT at AT TIME ZONE 'UTC' FROM daftar.request"), "2026-01-02 03:04:05.678");
}

#[tokio::test]
async fn a_register_that_is_filled_has_its_foreign_keys_again() {
    const KEYS: &str = "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint \
                        WHERE contype = 'f' AND confrelid = 'daftar.record'::regclass ORDER BY 1";
    let from = Register::new().await;
    let (codes, editions) = numbered();
    from.store.number_codes(codes, editions).await.unwrap();
    create(&from.store, person(&["urn:x:a|1"]).with(GENDER, samples::coded(2, 0))).await;
    let server = Server::shared();
    let url = server.create_database();
    // The keys are dropped with the first batch.
    let bulk = BulkLimits { flush_bytes: 1, ..BulkLimits::default() };
    let batches = PostgresOptions { bulk, ..options(&url) };
    let mut filling: Box<dyn Refill> = Box::new(PostgresRefill::open(batches).await.unwrap());
    let mut snapshot = from.store.snapshot().await.unwrap();
    loop {
        let entries = snapshot.next().await.unwrap();
        if entries.is_empty() {
            break;
        }
        filling.put(entries).await.unwrap();
    }
    filling.finish().await.unwrap();
    let name = url.rsplit_once('/').unwrap().1;
    assert_eq!(server.run_sql(name, KEYS).trim(), from.sql(KEYS));
    assert_eq!(from.sql(KEYS).lines().count(), 5);
    let tables = "SELECT value FROM daftar.record; SELECT * FROM daftar.code ORDER BY 1; SELECT * FROM daftar.edition";
    assert_eq!(server.run_sql(name, tables).trim(), from.sql(tables));
}
