//! `daftar import` of people in households into a running server. The register that it fills is the one that other
//! benchmarks share.

use std::time::Duration;

use serde_json::Value;

use crate::load::Load;
use crate::machine::{bytes_below, mib};
use crate::people;
use crate::read::{self, all_people};
use crate::report::{Report, Row, Spread};
use crate::server::Server;
use crate::setup::{Setup, import_rate};

/// Number of people imported while others are read.
const CONCURRENT_PEOPLE: u64 = 50_000;
/// Other numbers of people than any other register or import has.
const FIRST: u64 = 500_000_001;

/// Measures everything.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), String> {
    let register = setup.shared(setup.people(read::PEOPLE))?;
    report.setting("people", register.people);
    report.setting("files", register.import_rates.len());
    report.setting("people have", "an identifier, codes, an address and an income, and households of five");
    let rates = Spread::of(register.import_rates.iter().copied());
    let what = "`daftar import` into a running server, records (people and households)";
    report.row(Row::new("import.running", what, "1/s", rates).target("30,000/s"));
    let store = bytes_below(&register.folder.join("data").join("store"))?;
    report.row(Row::new("import.store", "store on disk", "MiB", Spread::of([mib(store)])));

    let copy = setup.filled("import", setup.people(read::PEOPLE / 10))?;
    let file = copy.folder.join("more.ndjson");
    let path = file.to_str().ok_or("a path is no text")?;
    let beside = setup.people(CONCURRENT_PEOPLE);
    let server = Server::start(&copy.folder)?;
    let token = server.token(&copy.client)?;
    let reads = all_people(copy.people, token);
    let load = |duration| Load::new(server.address, 1, duration);
    let alone = load(setup.window()).run(&reads)?;
    people::write(&file, FIRST..=FIRST + beside - 1, &copy.codes)?;
    let (rate, taken) = std::thread::scope(|scope| {
        let importing = scope.spawn(|| server.command(&["import", path]));
        // About as long as the import takes.
        let taken = load(Duration::from_millis((beside / 20).max(200))).run(&reads);
        let reported: Value = importing.join().map_err(|_| "the import failed".to_owned())??;
        Ok::<_, String>((import_rate(&reported)?, taken?))
    })?;
    let what = "`daftar import` beside a client that reads, records";
    report.row(Row::new("import.beside", what, "1/s", Spread::of([rate])));
    for (part, of) in [(0.5, "median"), (0.99, "p99")] {
        for (taken, id, when) in [(&alone, "alone", "alone"), (&taken, "beside", "beside the import")] {
            let what = format!("read by identifier, 1 connection, {when}: {of}");
            report.row(Row::new(format!("import.read-{id}.{of}"), what, "ms", Spread::of([taken.ms(0, part)])));
        }
    }
    server.stop()?;
    people::write(&file, FIRST + beside..=FIRST + 2 * beside - 1, &copy.codes)?;
    let rate = import_rate(&crate::server::run(&copy.folder, None, &["import", path])?)?;
    report.row(Row::new(
        "import.stopped",
        "`daftar import` into a stopped register, records",
        "1/s",
        Spread::of([rate]),
    ));
    setup.remove(copy)
}
