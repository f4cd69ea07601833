//! A database that a program of a later revision of the schema uses as well, as during a rolling upgrade of servers.

use super::*;
use daftar_domain::individual::{BIRTH_DATE, GENDER, IndividualDetails, NAME};
use daftar_domain::schema::{REVISION, Tag};
use daftar_domain::value::{Value, Values};
use daftar_service::migrate::copy;
use daftar_store::Operation;
use daftar_store::archive::Archive as _;
use daftar_store::index::Index as _;
use daftar_store::record::samples;
use daftar_store::suite::{Listener, commit, create, group, individual_of, person};
use daftar_store_sled::{SledOptions, SledStore};

/// A step of a newer program that is compatible with an older one.
const NEWER_LAYOUT: &str = "\
INSERT INTO daftar.layout_history SELECT 1000, name, applied_on, checksum FROM daftar.layout_history LIMIT 1;
ALTER TABLE daftar.search_individual ADD COLUMN registered_on integer, ADD COLUMN is_new boolean NOT NULL DEFAULT false;
ALTER TABLE daftar.search_group ADD COLUMN registered_on integer;
ALTER TABLE daftar.search_membership ADD COLUMN registered_on integer;
ALTER TABLE daftar.search_member ADD COLUMN registered_on integer;
ALTER TABLE daftar.search_consent ADD COLUMN registered_on integer;
ALTER TABLE daftar.record ADD COLUMN registered_on integer;
ALTER TABLE daftar.change ADD COLUMN registered_on integer;
ALTER TABLE daftar.last ADD COLUMN household bigint NOT NULL DEFAULT 0;
CREATE TABLE daftar.household (id bigint PRIMARY KEY);
CREATE INDEX search_individual_registered_on ON daftar.search_individual (registered_on)";

struct Database {
    server: Arc<Server>,
    url: String,
}

impl Database {
    fn new() -> Self {
        let server = Server::shared();
        let url = server.create_database();
        Self { server, url }
    }

    fn sql(&self, statements: &str) -> String {
        self.server.run_sql(self.url.rsplit_once('/').unwrap().1, statements).trim().to_owned()
    }

    async fn store(&self) -> PostgresStore {
        let store = PostgresStore::open(options(&self.url)).await.unwrap();
        store.attach_sink(Arc::new(Listener::default())).unwrap();
        store
    }

    /// The noted records, each with its revision.
    fn behind(&self) -> String {
        self.sql("SELECT kind, id, revision FROM daftar.search_behind ORDER BY 1, 2")
    }

    /// The counters.
    fn tallies(&self) -> String {
        self.sql("SELECT kind, term, records FROM daftar.search_tally WHERE records <> 0 ORDER BY 1, 2")
    }

    async fn until_rewritten(&self) {
        for _ in 0..1_200 {
            if self.behind().is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("the rows are not rewritten: {}", self.behind());
    }
}

/// A field that a newer program stored under a tag of its own.
fn later() -> Option<Value> {
    Some(Value::later(REVISION + 1, &[1, 2, 3]))
}

/// An individual as a newer program stores it.
fn newer(identifier: &str) -> IndividualDetails {
    let mut details = person(&[identifier]).with(GENDER, samples::coded(3, 1));
    details.put(Tag(900), later());
    details
}

#[tokio::test]
async fn an_older_program_continues_after_compatible_steps_of_a_newer_one_and_reopens() {
    let database = Database::new();
    let (one, other) = (database.store().await, database.store().await);
    // Each of their statements was prepared before.
    for (number, store) in [&one, &other].into_iter().enumerate() {
        let individual = create(store, person(&[&format!("urn:x:a|{number}")])).await;
        commit(store, vec![Operation::update(individual.id, VersionId(1), person(&[]))]).await.unwrap();
        let many = (0..8).map(|many| Operation::create(person(&[&format!("urn:x:b|{number}-{many}")])));
        commit(store, many.chain([Operation::create(group(&[]))]).collect()).await.unwrap();
    }
    database.sql(NEWER_LAYOUT);
    other.close().await;
    let back = database.store().await;
    for (number, store) in [&one, &back].into_iter().enumerate() {
        let individual = create(store, person(&[&format!("urn:x:c|{number}")])).await;
        commit(store, vec![Operation::update(individual.id, VersionId(1), person(&[]))]).await.unwrap();
        let many = (0..8).map(|many| Operation::create(person(&[&format!("urn:x:d|{number}-{many}")])));
        let group = Operation::create(group(&[&format!("urn:x:g|{number}")]));
        commit(store, many.chain([group]).collect()).await.unwrap();
        assert!(store.record(RecordKind::Individual, individual.id).await.unwrap().is_some());
        assert_eq!(store.index().record_counts().await.unwrap().individuals, 18 + 9 * (number as u64 + 1));
    }
    let program = Operation::create(samples::full_program().details);
    commit(&back, vec![program, Operation::create(samples::full_consent().details)]).await.unwrap();
    // A step that is incompatible with older programs locks them out.
    database.sql("UPDATE daftar.last SET oldest_layout = 1000");
    let error = PostgresStore::open(options(&database.url)).await.err().unwrap();
    assert!(matches!(error, OpenError::Newer { found: 1000, .. }), "{error}");
}

#[tokio::test]
async fn search_terms_of_a_newer_program_survive_a_rewrite_by_an_older_one() {
    let database = Database::new();
    let store = database.store().await;
    database.sql(NEWER_LAYOUT);
    let individual = create(&store, newer("urn:x:a|1")).await;
    assert_eq!(database.behind(), "", "the program that filled the database knows the fields");
    let of_newer =
        "UPDATE daftar.search_individual SET registered_on = 20000, is_new = true, terms = terms || $$'zlater'$$";
    database.sql(of_newer);

    // An older program writes it again.
    let mut details = individual.details.clone().with(BIRTH_DATE, jiff::civil::date(1970, 1, 3));
    let written = commit(&store, vec![Operation::update(individual.id, VersionId(1), details.clone())]).await.unwrap();
    assert_eq!(individual_of(&written.written[0]).details.value(Tag(900)).cloned(), later());
    let columns = "SELECT registered_on, is_new, birth_date, gender FROM daftar.search_individual";
    assert_eq!(database.sql(columns), "20000|t|1970-01-03|3");
    let noted = format!("1|1|{}", REVISION + 1);
    assert_eq!(database.behind(), noted, "its terms are for a newer program to write");
    drop(database.store().await);
    assert_eq!(database.behind(), noted, "not for this one");

    // It loses a field of a later revision, and the column of that may be left.
    details.put(Tag(900), None);
    let name: Values = [(Tag(90), Value::later(REVISION + 2, &[]))].into_iter().collect();
    details.set(NAME, Some(name));
    commit(&store, vec![Operation::update(individual.id, VersionId(2), details.clone())]).await.unwrap();
    details.set(NAME, None);
    commit(&store, vec![Operation::update(individual.id, VersionId(3), details)]).await.unwrap();
    assert_eq!(database.behind(), format!("1|1|{}", REVISION + 2), "what it had was of that revision");
}

#[tokio::test]
async fn a_program_that_knows_all_fields_of_a_record_rewrites_its_index_rows() {
    let database = Database::new();
    let store = database.store().await;
    for number in 1..=3 {
        create(&store, newer(&format!("urn:x:a|{number}")).with(BIRTH_DATE, jiff::civil::date(1970, 1, 3))).await;
    }
    commit(&store, vec![Operation::create(samples::full_group().details)]).await.unwrap();
    let members = database.sql("SELECT count(*) FROM daftar.search_member");
    let rows = "SELECT kept::text FROM daftar.search_individual AS kept ORDER BY id";
    let (before, tallies) = (database.sql(rows), database.tallies());
    // As left by a program that knows neither field: without their column and their term, and not counted.
    let leave_behind = format!(
        "UPDATE daftar.search_individual SET birth_date = NULL, terms = ts_delete(terms, 'c1#3') WHERE id < 3; \
         UPDATE daftar.search_tally SET records = records - 2 WHERE kind = 1 AND term IN ('c1#3', 'k3'); \
         INSERT INTO daftar.search_behind VALUES (1, 1, {REVISION}), (1, 2, 0), (2, 1, {REVISION}), (1, 3, {}), (5, 77, 0)",
        REVISION + 1
    );
    database.sql(&leave_behind);
    assert_ne!(database.sql(rows), before);
    let restarted = database.store().await;
    let waiting = format!("1|3|{}", REVISION + 1);
    for _ in 0..1_200 {
        if database.behind() == waiting {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert_eq!(database.behind(), waiting, "that one is left for a newer program");
    assert_eq!((database.sql(rows), database.tallies()), (before, tallies));
    assert_eq!(database.sql("SELECT count(*) FROM daftar.search_member"), members);

    // Records noted while it runs are found after the next write of any program.
    database.sql("DELETE FROM daftar.search_behind; INSERT INTO daftar.search_behind VALUES (1, 1, 0)");
    database.sql("UPDATE daftar.search_individual SET birth_date = NULL WHERE id = 1");
    create(&store, person(&["urn:x:b|1"])).await;
    database.until_rewritten().await;
    assert_eq!(database.sql("SELECT birth_date FROM daftar.search_individual WHERE id = 1"), "1970-01-03");
    drop(restarted);
}

#[tokio::test]
async fn rows_of_a_database_filled_by_an_older_program_are_rewritten_by_a_newer_one() {
    let folder = tempfile::TempDir::new().unwrap();
    let register = SledStore::open(folder.path(), SledOptions::default()).unwrap();
    register.attach_sink(Arc::new(Listener::default())).unwrap();
    create(&register, person(&["urn:x:a|1"])).await;
    let individual = create(&register, newer("urn:x:a|2")).await;
    let database = Database::new();
    let refill = PostgresRefill::open(options(&database.url)).await.unwrap();
    copy(register.snapshot().await.unwrap(), Box::new(refill), |_, _| ()).await.unwrap();
    assert_eq!(database.behind(), format!("1|2|{}", REVISION + 1));
    let moved = database.store().await.record(RecordKind::Individual, individual.id).await.unwrap().unwrap();
    assert_eq!(moved.values().value(Tag(900)).cloned(), later());
}
