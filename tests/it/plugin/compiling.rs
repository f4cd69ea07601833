//! An engine that is compiled while the server serves records.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use daftar_tests::records::{MALE, person, with};
use daftar_tests::{ApiClient, Response, TestApp, artifacts, template};
use serde_json::{Value, json};

const COMPILING: &str = "degraded: the eligibility engine `eligibility-cel` is being compiled, so calls that evaluate \
                         an expression are 503\n";

/// A folder with a compiler that the test controls.
struct Compiler {
    folder: tempfile::TempDir,
}

impl Compiler {
    /// A compiler that waits until the test opens it.
    fn closed() -> Self {
        let compiler = Self { folder: tempfile::tempdir().unwrap() };
        let (started, gate, program) = (compiler.started(), compiler.gate(), artifacts::program());
        compiler.replace(&format!(
            ": > '{}'; while [ ! -e '{}' ]; do /bin/sleep 0.02; done; exec '{}' \"$@\"",
            started.display(),
            gate.display(),
            program.display()
        ));
        compiler
    }

    /// Replaces it by another script. A file that is being started cannot be written, so the script is a new file.
    fn replace(&self, script: &str) {
        let new = self.folder.path().join("new");
        fs::write(&new, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(new, self.program()).unwrap();
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("compiler")
    }

    fn gate(&self) -> PathBuf {
        self.folder.path().join("gate")
    }

    fn open(&self) {
        fs::write(self.gate(), "").unwrap();
    }

    fn close(&self) {
        fs::remove_file(self.gate()).unwrap();
    }

    /// A file that exists once it was started.
    fn started(&self) -> PathBuf {
        self.folder.path().join("started")
    }

    /// Waits until it is started, for longer than that may take.
    fn until_started(&self) {
        let since = Instant::now();
        while !self.started().exists() {
            assert!(since.elapsed() < Duration::from_secs(240), "nothing is compiled");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A register whose engine is not compiled yet, as after an upgrade of the program.
    fn serve(&self) -> TestApp {
        let builder = TestApp::builder().prepared(|data_dir| {
            template::copy_to(data_dir);
            fs::remove_file(largest_code(data_dir)).unwrap();
        });
        builder.compiling_engines_later(&self.program()).start()
    }
}

/// The machine code of the engine.
fn largest_code(data_dir: &Path) -> PathBuf {
    let files = fs::read_dir(data_dir.join("compiled")).unwrap().map(|entry| entry.unwrap().path());
    files.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap()
}

fn readiness(app: &TestApp) -> String {
    app.anonymous().request("GET", "/health/ready").send().expect(200).text()
}

/// Requests the readiness until it is that one, for longer than a compilation may take.
fn until_ready(app: &TestApp, expected: &str) {
    let started = Instant::now();
    loop {
        let found = readiness(app);
        if found == expected {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(240), "{found}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn rule() -> Value {
    json!({"expression": "true", "subject": "individual", "subjects": [{"type": "individual"}]})
}

fn man(name: &str) -> Value {
    person(name, json!({"gender": MALE}))
}

#[test]
fn records_are_served_while_an_engine_is_compiled_and_readiness_names_it() {
    let compiler = Compiler::closed();
    let mut app = compiler.serve();
    assert_eq!(readiness(&app), COMPILING);
    let client = app.client(&["individual:all", "eligibility:read"]);
    drop(client.create_individual(&man("1")));
    for rule in [rule(), with(rule(), json!({"engine": "eligibility-cel"}))] {
        let refused = client.post("/Eligibility/$evaluate", &rule).expect(503);
        assert_eq!((refused.code().as_str(), refused.header("retry-after")), ("engine_compiling", Some("1")));
        assert!(refused.detail().contains("`eligibility-cel` is being compiled"), "{}", refused.detail());
    }

    // A server that stops while it compiles rejects nothing: the next start begins again.
    app.restart();
    assert_eq!(readiness(&app), COMPILING);
    compiler.open();
    until_ready(&app, "ok\n");
    let client = app.client(&["individual:read", "eligibility:read"]);
    assert_eq!(client.post("/Eligibility/$evaluate", &rule()).status, 200);

    // With its code in the cache, an engine is active when the server listens.
    compiler.close();
    app.restart();
    assert_eq!(readiness(&app), "ok\n");
    assert!(app.admin().metrics().contains("\ndaftar_eligibility_engine_active 1\n"));
}

#[test]
fn an_engine_whose_compiler_crashes_is_not_active_and_retried_at_the_next_start() {
    let compiler = Compiler::closed();
    compiler.replace("exit 101");
    let mut app = compiler.serve();
    until_ready(
        &app,
        "degraded: no eligibility engine is active, so calls that evaluate an expression are 503\n\
         degraded: installed plugins that are not active: 1\n",
    );
    let client = app.client(&["individual:all", "eligibility:read"]);
    drop(client.create_individual(&man("1")));
    assert_eq!(client.post("/Eligibility/$evaluate", &rule()).expect(503).code(), "no_eligibility_engine");

    compiler.replace(&format!("exec '{}' \"$@\"", artifacts::program().display()));
    app.restart();
    until_ready(&app, "ok\n");
}

/// Creates a person with a code of an open vocabulary that no record has yet.
fn with_new_code(client: &ApiClient, id: &str, code: &str) -> Response {
    client.post("/Individual", &person(id, json!({"occupation": format!("urn:ilo:isco-08#{code}")})))
}

#[test]
fn codes_of_open_vocabularies_are_numbered_while_a_plugin_is_compiled() {
    let compiler = Compiler::closed();
    compiler.open();
    let app =
        TestApp::builder().call_ms("open-occupation", 20_000).compiling_engines_later(&compiler.program()).start();
    let [open, other] = [artifacts::fixture("open-occupation"), artifacts::module("language-tag")];
    let [open, other] = [open, other].map(|file| fs::read(file).unwrap());
    // The pack with the same vocabulary.
    drop(app.admin().request("DELETE", "/plugins/isco-08").send().expect(204));
    drop(app.admin().install(&open).expect(201));
    let client = app.client(&["individual:all"]);
    drop(with_new_code(&client, "1", "FARM+FISH").expect(201));
    compiler.close();
    fs::remove_file(compiler.started()).unwrap();
    std::thread::scope(|scope| {
        let admin = app.admin();
        let installing = scope.spawn(move || admin.install(&other));
        compiler.until_started();
        let created = with_new_code(&client, "2", "FISH+FARM");
        let is_compiling = !installing.is_finished();
        compiler.open();
        drop(created.expect(201));
        assert!(is_compiling);
        drop(installing.join().unwrap().expect(201));
    });
    drop(with_new_code(&client, "3", "FISH+FISH").expect(201));
}

#[test]
fn the_packs_of_the_program_share_their_code() {
    let plugins = tempfile::tempdir().unwrap();
    for name in ["gender", "group-type", "religion"] {
        let file = artifacts::plugin(name);
        fs::copy(&file, plugins.path().join(file.file_name().unwrap())).unwrap();
    }
    let app = TestApp::builder().prepared(|folder| fs::create_dir(folder).unwrap()).plugins(plugins.path()).start();
    let client = app.client(&["vocabulary:read"]);
    for (namespace, codes) in [("urn:iso:std:iso:5218", 4), ("urn:svc:vocab:group-type", 1)] {
        let page = client.get(&format!("/Vocabulary/{namespace}/codes")).expect(200).json();
        assert!(page["total"].as_u64().unwrap() >= codes, "{page}");
    }
    let files = fs::read_dir(app.data_dir().join("compiled")).unwrap().map(|file| file.unwrap().path());
    let code: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|extension| extension == "code")).collect();
    assert_eq!(code.len(), 1, "one compiled component serves all of them: {code:?}");
}
