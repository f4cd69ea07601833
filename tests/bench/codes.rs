//! Codes: look-up, search with misspelt labels, hierarchy, install, start and memory, over everything that was built.

mod misspelt;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use daftar::app::App;
use daftar::domain::code::CodeUri;
use daftar::vocab::{
    ConceptRef, Generation, LanguagePreference, SearchOptions, SearchQuery, Vocabulary, search as search_codes,
};

use self::misspelt::Misspelt;
use crate::load;
use crate::server::{Server, artifacts_folder, options, settings};

/// How many look-ups are timed.
const LOOKUPS: usize = 200_000;
/// How many misspelt labels are searched for.
const QUERIES: usize = 2_000;
/// How many connections send at the same time.
const CONNECTIONS: usize = 8;
/// How long a round over HTTP lasts.
const ROUND: Duration = Duration::from_secs(4);
/// The classification whose install is timed, by the name of its plugin.
const LARGE_PACK: &str = "icd-11";

/// Runs the benchmark and prints its figures.
pub fn run() -> Result<(), String> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(measure())
}

async fn measure() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let everything = everything(folder.path())?;
    let started = Instant::now();
    let server = Server::start_with(folder.path(), &everything).await?;
    println!("codes: first start, everything installed and compiled: {:.0} ms", millis(started));
    server.stop().await;
    start_again("codes", folder.path()).await?;

    let server = Server::start_with(folder.path(), &everything).await?;
    let generation = server.app.registry.vocabularies.current();
    let vocabularies: Vec<&Vocabulary> = generation.vocabularies().map(|one| &**one).collect();
    let count: usize = vocabularies.iter().map(|one| one.concept_count()).sum();
    println!("codes: {} vocabularies, {count} codes", vocabularies.len());
    let indexing = Instant::now();
    vocabularies.iter().for_each(|one| one.prepare_search());
    println!("codes: indexes for search not made in the background yet: {:.1} ms", millis(indexing));
    let bytes: usize = vocabularies.iter().map(|one| one.heap_bytes()).sum();
    println!("codes: vocabularies in memory, with their indexes for search: {:.1} MB", bytes as f64 / 1e6);

    look_up(&generation);
    hierarchy(&vocabularies);
    let queries = misspelt::labels(&vocabularies, QUERIES);
    search(&vocabularies, &queries)?;
    over_http(&server, &generation, &queries).await?;
    println!("codes: resident after the load, load generator included: {:.0} MB", resident_mb("/proc/self/status"));
    server.stop().await;
    install(&everything).await
}

/// A folder with every plugin and module that was built, linked.
pub fn everything(folder: &Path) -> Result<PathBuf, String> {
    let all = folder.join("everything");
    std::fs::create_dir(&all).map_err(|error| error.to_string())?;
    for part in ["plugins", "modules"] {
        let from = artifacts_folder()?.join(part);
        for entry in std::fs::read_dir(&from).map_err(|error| format!("{}: {error}", from.display()))? {
            let entry = entry.map_err(|error| error.to_string())?;
            if entry.path().extension().is_some_and(|extension| extension == "wasm") {
                std::fs::copy(entry.path(), all.join(entry.file_name())).map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(all)
}

/// Starts the program itself on the folder, everything installed and its compiled code kept.
pub async fn start_again(benchmark: &str, folder: &Path) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("daftar");
    let mut times = Vec::new();
    let mut resident = 0.0;
    // The server of this process may still be bringing its last writes to disk.
    while daftar::plugin::is_in_use(&folder.join("data").join("plugins")) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for _ in 0..5 {
        let started = Instant::now();
        let mut child = std::process::Command::new(&program)
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder.join("data"))
            .args(["--plugins".as_ref(), folder.join("everything").as_os_str()])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .map_err(|error| format!("`{}` cannot be started: {error}", program.display()))?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            use std::io::BufRead as _;
            std::io::BufReader::new(output).read_line(&mut line).map_err(|error| error.to_string())?;
        }
        times.push(millis(started));
        // The indexes for search are made right after the start.
        tokio::time::sleep(Duration::from_secs(1)).await;
        resident = resident_mb(&format!("/proc/{}/status", child.id()));
        child.kill().map_err(|error| error.to_string())?;
        child.wait().map_err(|error| error.to_string())?;
        if !line.starts_with("listening on") {
            return Err(format!("the server did not start: {line}"));
        }
    }
    times.sort_unstable_by(f64::total_cmp);
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    println!("{benchmark}: start with everything installed: median {median:.0} ms of {times:.0?} (target 300)");
    println!("{benchmark}: resident one second later, indexes for search made: {resident:.0} MB (target 150)");
    Ok(())
}

/// Looks codes up by their URI, each by itself.
fn look_up(generation: &Generation) {
    let uris: Vec<CodeUri> =
        generation.vocabularies().flat_map(|one| one.concepts()).filter_map(|concept| concept.uri().ok()).collect();
    let mut times = Vec::with_capacity(LOOKUPS);
    let mut number = 1_usize;
    for _ in 0..LOOKUPS {
        number = scattered(number);
        let Some(uri) = uris.get(number % uris.len().max(1)) else { return };
        let started = Instant::now();
        let found = generation.look_up(std::hint::black_box(uri));
        times.push(micros(started));
        assert!(found.is_ok_and(|concept| concept.code() == uri.code.as_str()));
    }
    let (median, p99) = median_and_p99(&mut times);
    println!("codes: look-up in process: median {median:.2} us, p99 {p99:.2} us (target 5)");
}

/// Walks everything below the code with the most below it, and asks who is above whom.
fn hierarchy(vocabularies: &[&Vocabulary]) {
    let all = vocabularies.iter().flat_map(|one| one.concepts());
    let Some(top) = all.max_by_key(|concept| concept.descendant_count()) else { return };
    let mut times = Vec::new();
    let mut count = 0;
    for _ in 0..200 {
        let started = Instant::now();
        count =
            std::hint::black_box(top.descendants().map(ConceptRef::code).map(str::len).filter(|len| *len > 0)).count();
        times.push(micros(started));
    }
    let (median, p99) = median_and_p99(&mut times);
    println!("codes: the {count} codes below {top:?}: median {median:.0} us, p99 {p99:.0} us");
    let below: Vec<ConceptRef<'_>> = top.descendants().collect();
    let started = Instant::now();
    let inside = below.iter().filter(|concept| std::hint::black_box(concept).is_below(top)).count();
    let each = micros(started) * 1_000.0 / below.len().max(1) as f64;
    println!("codes: subsumption: {each:.1} ns each ({inside} of {} below)", below.len());
}

/// Searches all vocabularies for the misspelt labels.
fn search(vocabularies: &[&Vocabulary], queries: &[Misspelt]) -> Result<(), String> {
    let languages = LanguagePreference::parse("en");
    let mut times = Vec::new();
    let (mut within_five, mut first) = (0_usize, 0_usize);
    for misspelt in queries {
        let started = Instant::now();
        let query = SearchQuery::parse(&misspelt.text).map_err(|error| error.to_string())?;
        let options = SearchOptions { languages: &languages, with_inactive: false, offset: 0, count: 20 };
        let page = search_codes(vocabularies, &query, options);
        times.push(micros(started));
        let is_it = |concept: ConceptRef<'_>| {
            concept.code() == misspelt.code && concept.vocabulary().namespace().as_str() == misspelt.namespace
        };
        let place = page.found.iter().position(|found| is_it(found.concept));
        within_five += usize::from(place.is_some_and(|place| place < 5));
        first += usize::from(place == Some(0));
    }
    let (median, p99) = median_and_p99(&mut times);
    let part = |count: usize| count as f64 * 100.0 / queries.len().max(1) as f64;
    println!(
        "codes: search over all, {} misspelt labels ({} Chinese): median {:.2} ms, p99 {:.2} ms (target 5), worst {:.2} ms",
        queries.len(),
        queries.iter().filter(|query| query.is_ideographic).count(),
        median / 1e3,
        p99 / 1e3,
        times.last().copied().unwrap_or_default() / 1e3
    );
    println!("codes: recall@5 {:.1} %, first {:.1} %", part(within_five), part(first));
    typed(vocabularies)
}

/// Searches for beginnings of words, letter by letter, as a form does while somebody types.
fn typed(vocabularies: &[&Vocabulary]) -> Result<(), String> {
    let languages = LanguagePreference::parse("en");
    let mut times = Vec::new();
    for words in
        ["malaria due to plasmodium", "other specified disorders", "crop growers", "republica", "a", "unspecified"]
    {
        for (end, letter) in words.char_indices() {
            let text = words.get(..end + letter.len_utf8()).unwrap_or_default();
            let started = Instant::now();
            let query = SearchQuery::parse(text).map_err(|error| error.to_string())?;
            let options = SearchOptions { languages: &languages, with_inactive: false, offset: 0, count: 20 };
            std::hint::black_box(search_codes(vocabularies, &query, options));
            times.push(micros(started));
        }
    }
    let (median, p99) = median_and_p99(&mut times);
    println!("codes: search letter by letter: median {:.2} ms, p99 {:.2} ms", median / 1e3, p99 / 1e3);
    Ok(())
}

async fn over_http(server: &Server, generation: &Arc<Generation>, queries: &[Misspelt]) -> Result<(), String> {
    let get = |path: &str| {
        format!("GET /api/v2{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n", server.token)
            .into_bytes()
    };
    let concepts: Vec<ConceptRef<'_>> = generation.vocabularies().flat_map(|one| one.concepts()).collect();
    let mut number = 3_usize;
    let mut lookups = Vec::new();
    for _ in 0..5_000 {
        number = scattered(number);
        let Some(concept) = concepts.get(number % concepts.len().max(1)) else { break };
        lookups.push(get(&format!(
            "/Vocabulary/{}/codes/{}",
            concept.vocabulary().namespace(),
            encoded(concept.code())
        )));
    }
    let searches =
        queries.iter().map(|query| get(&format!("/Vocabulary/$search?q={}", encoded(&query.text)))).collect();
    for (name, requests) in [("one code", lookups), ("search over all", searches)] {
        let requests = Arc::new(requests);
        for connections in [1, CONNECTIONS] {
            let measured = load::run(server.address, requests.clone(), connections, ROUND).await?;
            println!(
                "codes: {name} over HTTP, {connections} connections: {:.0}/s, median {:.0} us, p99 {:.0} us",
                measured.per_second, measured.median_us, measured.p99_us
            );
        }
    }
    Ok(())
}

/// Installs the largest classification into a register that has everything else.
async fn install(everything: &Path) -> Result<(), String> {
    let package = everything.join(format!("{LARGE_PACK}.wasm"));
    let Ok(bytes) = std::fs::read(&package) else {
        println!("codes: no pack `{LARGE_PACK}` was built, so its install is not timed");
        return Ok(());
    };
    std::fs::remove_file(&package).map_err(|error| error.to_string())?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let app = App::open(settings(), options(folder.path(), everything)?).await.map_err(|error| error.to_string())?;
    let started = Instant::now();
    let installed = app.plugins.install(&app.system_context(), bytes).await;
    installed.map_err(|error| error.to_string())?;
    println!("codes: install of `{LARGE_PACK}`: {:.0} ms (target 1000)", millis(started));
    app.close();
    Ok(())
}

/// The next of a fixed row of numbers that lie scattered.
fn scattered(number: usize) -> usize {
    number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407) >> 1
}

fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// The median and the value that 99 of 100 stay below.
pub fn median_and_p99(times: &mut [f64]) -> (f64, f64) {
    times.sort_unstable_by(f64::total_cmp);
    let at = |part: f64| times.get(((times.len() as f64 - 1.0) * part) as usize).copied().unwrap_or_default();
    (at(0.5), at(0.99))
}

/// How long it has been, in microseconds.
pub fn micros(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e6
}

/// How long it has been, in milliseconds.
pub fn millis(started: Instant) -> f64 {
    micros(started) / 1e3
}

/// What a process holds in memory.
pub fn resident_mb(status: &str) -> f64 {
    let text = std::fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok()).unwrap_or_default() / 1024.0
}
