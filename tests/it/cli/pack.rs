//! `daftar pack`: the files of owners, from the file to a code that a client reads.

mod base;
mod refused;

use std::path::{Path, PathBuf};

use daftar_tests::process::run;
use daftar_tests::{ApiClient, TestApp};
use serde_json::{Value, json};

/// A file in the form of an owner, with invented codes.
fn owner_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/owner-files").join(name)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A folder with what was imported and built in it.
struct Workshop {
    app: TestApp,
    folder: tempfile::TempDir,
}

impl Workshop {
    fn open() -> Self {
        Self { app: TestApp::start(), folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Imports a file into a folder of that name; returns the report.
    fn import(&self, format: &str, file: &Path, name: &str, more: &[&str]) -> Value {
        let folder = self.path(name);
        let arguments = [&["pack", "import", format, text(file), "-o", text(&folder), "--json"], more].concat();
        run(self.app.data_dir(), &arguments).expect_success().json()
    }

    /// Builds the folder of that name, on a base where there is one, and installs the result.
    fn install(&self, name: &str, base: Option<&Path>) {
        let (folder, pack) = (self.path(name), self.path(&format!("{name}.wasm")));
        drop(run(self.app.data_dir(), &["pack", "check", text(&folder)]).expect_success());
        let mut arguments = vec!["pack", "build", text(&folder), "-o", text(&pack)];
        if let Some(base) = base {
            arguments.extend(["--base", text(base)]);
        }
        drop(run(self.app.data_dir(), &arguments).expect_success());
        drop(
            run(self.app.data_dir(), &["plugin", "install", "--allow-unsigned", "--accept-loss", text(&pack)])
                .expect_success(),
        );
    }
}

/// A code as a client reads it: its name, and the codes one level up.
fn read(client: &ApiClient, namespace: &str, code: &str) -> (String, Vec<String>) {
    let namespace = namespace.replace('/', "%2F");
    let found = client.get(&format!("/Vocabulary/{namespace}/codes/{code}")).expect(200).json();
    let parents = found["parents"].as_array().unwrap().iter();
    let parents = parents.map(|parent| parent["code"].as_str().unwrap().to_owned()).collect();
    (found["display"].as_str().unwrap().to_owned(), parents)
}

/// A file, how it is imported, and what a client then reads.
struct Case {
    format: &'static str,
    file: &'static str,
    more: &'static [&'static str],
    namespace: &'static str,
    codes: u64,
    /// A code, its name, its parents.
    spot: (&'static str, &'static str, &'static [&'static str]),
}

const SAID: &[&str] = &["--title", "Tools", "--licence", "CC0-1.0", "--namespace", "urn:example:tools"];

const CASES: [Case; 10] = [
    Case {
        format: "who-tabulation",
        file: "SimpleTabulation-ICD-11-MMS-en.txt",
        more: &[],
        namespace: "urn:who:icd-11",
        codes: 9,
        spot: ("1A00", "Foxing", &["BlockL1-1A0"]),
    },
    Case {
        format: "who-tabulation",
        file: "LinearizationMiniOutput-ICF-en.txt",
        more: &["--only", "urn:who:icf:b", "--only", "urn:who:icf:d"],
        namespace: "urn:who:icf:b",
        codes: 5,
        spot: ("b11420", "Knowing the desk", &["b1142"]),
    },
    Case {
        format: "isco-csv",
        file: "ISCO-08 EN.csv",
        more: &[],
        namespace: "urn:ilo:isco-08",
        codes: 10,
        spot: ("0110", "Keepers, of dépôts", &["011"]),
    },
    Case {
        format: "skos",
        file: "agrovoc-core.nt",
        more: &["--root", "c_8"],
        namespace: "urn:fao:agrovoc",
        codes: 4,
        spot: ("c_91", "invented grain", &["c_8", "c_9"]),
    },
    Case {
        format: "skos",
        file: "thesaurus.ttl",
        more: SAID,
        namespace: "urn:example:tools",
        codes: 4,
        spot: ("hoe", "Hoe", &["hand", "garden"]),
    },
    Case {
        format: "six-xml",
        file: "list-one.xml",
        more: &[],
        namespace: "urn:iso:std:iso:4217",
        codes: 3,
        spot: ("008", "Crown & Half-Crown", &[]),
    },
    Case {
        format: "iso-json",
        file: "iso_3166-1.json",
        more: &[],
        namespace: "urn:iso:std:iso:3166-1",
        codes: 2,
        spot: ("QBB", "Borduria", &[]),
    },
    Case {
        format: "sil-tab",
        file: "iso-639-3.tab",
        more: &[],
        namespace: "urn:iso:std:iso:639",
        codes: 2,
        spot: ("qx", "Xish \"old\"", &[]),
    },
    Case {
        format: "fhir",
        file: "codesystem.json",
        more: &[],
        namespace: "http://id.example.org/papers",
        codes: 3,
        spot: ("ruled", "Ruled paper", &["card"]),
    },
    Case {
        format: "tsv",
        file: "tools.tsv",
        more: &["--title", "Farm tools", "--licence", "CC0-1.0", "--namespace", "urn:example:farm-tools"],
        namespace: "urn:example:farm-tools",
        codes: 4,
        spot: ("mattock", "Hoe", &["hand", "garden"]),
    },
];

#[test]
fn the_file_of_every_owner_becomes_codes_that_clients_read() {
    let workshop = Workshop::open();
    let client = workshop.app.client(&["vocabulary:read"]);
    for (index, case) in CASES.iter().enumerate() {
        let name = format!("pack-{index}");
        let report = workshop.import(case.format, &owner_file(case.file), &name, case.more);
        let vocabularies = report["vocabularies"].as_array().unwrap();
        let written = vocabularies.iter().find(|vocabulary| vocabulary["namespace"] == case.namespace).unwrap();
        assert_eq!(written["codes"], case.codes, "{}: {report}", case.file);
        assert_eq!(report["refused"], json!([]), "{}", case.file);
        workshop.install(&name, None);
        let (code, display, parents) = case.spot;
        let parents = parents.iter().map(|parent| (*parent).to_owned()).collect();
        assert_eq!(read(&client, case.namespace, code), (display.to_owned(), parents), "{}", case.file);
    }
    let below = client.get("/Vocabulary/urn:who:icd-11/codes?below=chapter:01").expect(200).json();
    let codes: Vec<&str> =
        below["data"].as_array().unwrap().iter().map(|code| code["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["BlockL1-1A0", "1A00", "1A00.0", "1A00.Z", "1A01"]);
    let heading = json!({"codes": ["urn:who:icd-11#BlockL1-1A0", "urn:who:icd-11#1A01"]});
    let valid = client.post("/Vocabulary/$validate", &heading).expect(200).json();
    assert_eq!(
        (&valid["results"][0]["reason"], &valid["results"][1]["valid"]),
        (&json!("not_selectable"), &json!(true))
    );
}

#[test]
fn the_same_file_gives_the_same_pack() {
    let workshop = Workshop::open();
    let file = owner_file("agrovoc-core.nt");
    let build = |name: &str| {
        drop(workshop.import("skos", &file, name, &["--root", "c_8"]));
        let pack = workshop.path(&format!("{name}.wasm"));
        let folder = workshop.path(name);
        drop(run(workshop.app.data_dir(), &["pack", "build", text(&folder), "-o", text(&pack)]).expect_success());
        std::fs::read(pack).unwrap()
    };
    assert!(build("one") == build("two"), "the bytes differ");
}

#[test]
fn numbers_of_codes_read_included_and_left_out_are_reported() {
    let workshop = Workshop::open();
    let folder = workshop.path("icd-11");
    let file = owner_file("SimpleTabulation-ICD-11-MMS-en.txt");
    let arguments = ["pack", "import", "who-tabulation", text(&file), "-o", text(&folder), "--without-extension-codes"];
    let reported = run(workshop.app.data_dir(), &arguments).expect_success();
    let stdout = reported.stdout.replace(text(&folder), "FOLDER");
    insta::assert_snapshot!(stdout, @r"
    read 9 rows
    imported 6 codes of urn:who:icd-11 (2031-03), 4 of them for records; 1 top-level codes, 3 further levels; labels: en 6
    left out 3: an extension code, or a heading of them
    wrote FOLDER: icd-11 2031.3.0; `daftar pack build FOLDER -o FILE` makes the pack
    ");
    assert_eq!(reported.stderr, "", "a progress bar is drawn on terminals only");
}
