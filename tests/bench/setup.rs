//! Shared setup of the benchmarks of a run: length of rounds, sizes of registers, and the registers themselves.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::http::{Connection, get};
use crate::people::{self, Codes};
use crate::server::{self, Credentials, Server, artifacts, create_client};

/// Number of files that fill a register, each with a separate import.
const FILES: u64 = 5;
/// Maximum number of individuals of a register in a smoke run.
const SMOKE_PEOPLE: u64 = 500;

/// A run.
pub struct Setup {
    /// True for a smoke run, which only shows that the benchmarks work: tiny registers, one short round each.
    pub is_smoke: bool,
    scratch: TempDir,
    template: OnceCell<Template>,
    registers: RefCell<BTreeMap<u64, Rc<Register>>>,
}

/// An empty register whose plugins are compiled, with a client.
struct Template {
    folder: PathBuf,
    client: Credentials,
    codes: Codes,
}

/// A register in a folder, of a stopped server.
pub struct Register {
    /// The folder; the data folder is `data` in it.
    pub folder: PathBuf,
    /// Number of individuals.
    pub people: u64,
    /// A client with all permissions that the benchmarks need.
    pub client: Credentials,
    /// Codes for further individuals.
    pub codes: Codes,
    /// Records per second of each import that filled the register.
    pub import_rates: Vec<f64>,
    /// True if no server was started on it since it was filled.
    pub is_fresh: Cell<bool>,
    next: Cell<u64>,
}

impl Register {
    /// Reserves numbers of nonexistent individuals. Returns the first of `count`.
    pub fn reserve(&self, count: u64) -> u64 {
        let first = self.next.get();
        self.next.set(first + count);
        first
    }

    /// Returns requests that create `count` individuals.
    pub fn creates(&self, token: &str, count: u64) -> Vec<Vec<u8>> {
        let first = self.reserve(count);
        let create = |id| {
            let body = Value::Object(people::person(id, &self.codes)).to_string();
            crate::http::send("POST", "/api/v2/Individual", token, "", &body)
        };
        (first..first + count).map(create).collect()
    }
}

impl Setup {
    /// Creates a run whose registers are below a folder.
    pub fn new(folder: &Path, is_smoke: bool) -> Result<Self, String> {
        let make = || {
            std::fs::create_dir_all(folder)?;
            tempfile::Builder::new().prefix("registers-").tempdir_in(folder)
        };
        let scratch = make().map_err(|error| format!("`{}`: {error}", folder.display()))?;
        Ok(Self { is_smoke, scratch, template: OnceCell::new(), registers: RefCell::default() })
    }

    /// Returns the folder for files that are removed at the end of the run.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// Number of rounds.
    pub fn rounds(&self) -> u64 {
        if self.is_smoke { 1 } else { 5 }
    }

    /// Length of a round.
    pub fn window(&self) -> Duration {
        if self.is_smoke { Duration::from_millis(200) } else { Duration::from_secs(3) }
    }

    /// Returns the number of individuals of a register that has `people` in a full run.
    pub fn people(&self, people: u64) -> u64 {
        if self.is_smoke { people.min(SMOKE_PEOPLE) } else { people }
    }

    /// Number of repetitions of a step that has `times` in a full run.
    pub fn times(&self, times: u64) -> u64 {
        if self.is_smoke { times.min(3) } else { times }
    }

    fn template(&self) -> Result<&Template, String> {
        if let Some(template) = self.template.get() {
            return Ok(template);
        }
        crate::progress("compile the plugins in an empty register");
        let folder = self.scratch.path().join("template");
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let server = Server::start(&folder)?;
        server.ready()?;
        let client = create_client(&folder, None, &[])?;
        let token = server.token(&client)?;
        let codes = Codes {
            marital_statuses: codes(&server, &token, "urn:un:unsd:pop-census:marital-status")?,
            occupations: codes(&server, &token, "urn:ilo:isco-08")?,
        };
        server.stop()?;
        Ok(self.template.get_or_init(|| Template { folder, client, codes }))
    }

    /// Creates a separate empty register.
    pub fn empty(&self, name: &str) -> Result<Register, String> {
        let template = self.template()?;
        let folder = self.scratch.path().join(name);
        copy(&template.folder, &folder)?;
        Ok(Register {
            folder,
            people: 0,
            client: template.client.clone(),
            codes: template.codes.clone(),
            import_rates: Vec::new(),
            is_fresh: Cell::new(false),
            next: Cell::new(1_000_000_001),
        })
    }

    /// Creates a separate register with `people` individuals and their households.
    pub fn filled(&self, name: &str, people: u64) -> Result<Register, String> {
        let mut register = self.empty(name)?;
        crate::progress(&format!("import {people} people"));
        let server = Server::start(&register.folder)?;
        let file = register.folder.join("people.ndjson");
        let path = file.to_str().ok_or("a path is no text")?;
        let each = people / FILES;
        for part in 0..FILES {
            people::write(&file, part * each + 1..=(part + 1) * each, &register.codes)?;
            register.import_rates.push(import_rate(&server.command(&["import", path])?)?);
        }
        std::fs::remove_file(&file).map_err(|error| error.to_string())?;
        server.stop()?;
        register.people = each * FILES;
        register.is_fresh.set(true);
        Ok(register)
    }

    /// Returns the register with `people` individuals that all benchmarks of this run share. They only add individuals
    /// to it.
    pub fn shared(&self, people: u64) -> Result<Rc<Register>, String> {
        if let Some(register) = self.registers.borrow().get(&people) {
            return Ok(Rc::clone(register));
        }
        let register = Rc::new(self.filled(&format!("shared-{people}"), people)?);
        self.registers.borrow_mut().insert(people, Rc::clone(&register));
        Ok(register)
    }

    /// Removes the register of a single benchmark.
    pub fn remove(&self, register: Register) -> Result<(), String> {
        std::fs::remove_dir_all(register.folder).map_err(|error| error.to_string())
    }
}

/// Returns the records per second in a report of `daftar import`.
pub fn import_rate(report: &Value) -> Result<f64, String> {
    let number = |name: &str| report.get(name).and_then(Value::as_f64);
    let rate = number("created").zip(number("seconds")).map(|(records, seconds)| records / seconds);
    rate.filter(|rate| *rate > 0.0).ok_or_else(|| format!("an import created nothing: {report}"))
}

/// Returns the codes of a vocabulary that a record may have.
fn codes(server: &Server, token: &str, namespace: &str) -> Result<Vec<String>, String> {
    const PAGE: usize = 100;
    let mut connection = Connection::to(server.address)?;
    let mut uris = Vec::new();
    for offset in (0..).step_by(PAGE) {
        let path = format!("/api/v2/Vocabulary/{namespace}/codes?_count={PAGE}&_offset={offset}");
        let page = connection.json(&get(&path, token), 200)?;
        let codes: &[Value] = page.get("data").and_then(Value::as_array).map_or(&[], Vec::as_slice);
        let usable = codes.iter().filter(|code| code.get("selectable").and_then(Value::as_bool) == Some(true));
        uris.extend(usable.filter_map(|code| Some(code.get("uri")?.as_str()?.to_owned())));
        if codes.len() < PAGE {
            break;
        }
    }
    if uris.is_empty() { Err(format!("`{namespace}` has no codes")) } else { Ok(uris) }
}

/// Copies a folder recursively.
pub fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().map_err(|error| error.to_string())?;
    if copied.success() { Ok(()) } else { Err(format!("`{}` cannot be copied", from.display())) }
}

/// Runs a command of the program on the register in a folder. Returns its duration in seconds.
pub fn seconds_of(folder: &Path, arguments: &[&str]) -> Result<f64, String> {
    let started = std::time::Instant::now();
    server::run(folder, None, arguments)?;
    Ok(started.elapsed().as_secs_f64())
}

/// Creates a folder with every built plugin and module.
pub fn everything(folder: &Path) -> Result<PathBuf, String> {
    let all = folder.join("everything");
    std::fs::create_dir_all(&all).map_err(|error| error.to_string())?;
    for part in ["plugins", "modules"] {
        let from = artifacts()?.join(part);
        for entry in std::fs::read_dir(&from).map_err(|error| format!("{}: {error}", from.display()))? {
            let entry = entry.map_err(|error| error.to_string())?;
            if entry.path().extension().is_some_and(|extension| extension == "wasm") {
                std::fs::copy(entry.path(), all.join(entry.file_name())).map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(all)
}
