//! `daftar plugin call`, `test` and `bench`: run a plugin without a server, with the sandbox, limits and checks of the
//! server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::app::plugin_runner::PluginRunner;
use crate::app::{App, AppOptions, packs, plugin_files};
use crate::cli::admin_client::{AdminClient, Payload};
use crate::cli::eval::{self, Trial};
use crate::cli::{CliError, GlobalArgs, output};
use daftar_domain::code::{Code, CodeUri, Namespace};
use daftar_domain::config::Config;
use daftar_domain::manifest::{PluginKind, PluginName};
use daftar_domain::vocabulary::{Concept, ConceptStatus, LocalizedText};
use daftar_sandbox::PluginUsage;
use daftar_vocabulary::CheckedPack;

/// One call of a plugin's file.
#[derive(Debug, Args)]
pub struct CallArgs {
    /// The plugin, one `.wasm` component; it needs no signature
    file: PathBuf,
    #[command(subcommand)]
    function: Function,
}

/// A function of a plugin.
#[derive(Debug, Clone, Subcommand)]
pub enum Function {
    /// Read a pack: its vocabularies and concept groups
    Contents,
    /// Look up codes of a pack; an open vocabulary resolves those that it does not list
    Lookup {
        /// The codes, each written `<namespace>#<code>`
        #[arg(required = true)]
        codes: Vec<String>,
    },
    /// Evaluate a rule by an eligibility engine over records in a file
    Evaluate {
        /// The expression; `@FILE` reads a file, `-` standard input
        expression: String,
        /// JSON file with one record or a list of records, as the HTTP API has them
        #[arg(long, value_name = "FILE")]
        records: PathBuf,
        /// Kind of the records
        #[arg(long, value_parser = ["individual", "group"], default_value = "individual")]
        subject: String,
        /// The day that counts as today, `YYYY-MM-DD`
        #[arg(long, value_name = "DATE")]
        as_of: Option<String>,
        /// Folder of packs with the vocabularies that the rule uses
        #[arg(long, value_name = "DIR")]
        packs: Option<PathBuf>,
    },
}

/// The cases of a plugin.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// Folder of the plugin: a pack's source with `pack.toml`, or with `plugin.toml`; its cases are in `tests/*.toml`
    dir: PathBuf,
    /// The built plugin, if it is not a pack's source; `NAME.wasm` in the folder if not given
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Folder of packs with the vocabularies that rules of the cases use
    #[arg(long, value_name = "DIR")]
    packs: Option<PathBuf>,
}

/// Repeated calls of a plugin's file.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Number of calls
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    calls: u32,
    /// The plugin, one `.wasm` component; it needs no signature
    file: PathBuf,
    #[command(subcommand)]
    function: Function,
}

/// Runs one call and prints its result and its resource usage.
pub fn call(global: &GlobalArgs, args: &CallArgs) -> Result<(), CliError> {
    let mut target = Target::open(global, &args.file, &args.function)?;
    let before = target.usage();
    let result = target.call(&args.function);
    let use_of_call = difference(&before, &target.usage());
    let ended = result.map(|result| {
        if global.json {
            output::json(&json!({"result": result, "use": use_body(&use_of_call)}));
        } else {
            output::json(&result);
        }
    });
    if !global.json || ended.is_err() {
        output::note(use_line(&use_of_call));
    }
    target.close();
    ended
}

/// Repeats a call and prints the distribution of its times.
pub fn bench(global: &GlobalArgs, args: &BenchArgs) -> Result<(), CliError> {
    let mut target = Target::open(global, &args.file, &args.function)?;
    let before = target.usage();
    let mut times = Vec::new();
    let mut repeat = || -> Result<(), CliError> {
        for _ in 0..args.calls {
            let begun = Instant::now();
            target.call(&args.function)?;
            times.push(begun.elapsed());
        }
        Ok(())
    };
    let ended = repeat();
    let used = difference(&before, &target.usage());
    target.close();
    ended?;
    times.sort_unstable();
    let at = |share: f64| {
        let place = ((times.len() - 1) as f64 * share).round() as usize;
        times.get(place).copied().unwrap_or_default()
    };
    let (median, p99, slowest) = (at(0.5), at(0.99), at(1.0));
    let body = json!({
        "calls": args.calls, "median_ms": milliseconds(median), "p99_ms": milliseconds(p99),
        "max_ms": milliseconds(slowest), "use": use_body(&used),
    });
    let words = format_args!(
        "{} calls: median {:.3} ms, p99 {:.3} ms, max {:.3} ms\n{}",
        args.calls,
        milliseconds(median),
        milliseconds(p99),
        milliseconds(slowest),
        use_line(&used)
    );
    output::done(global, &body, words);
    Ok(())
}

/// Runs the cases of a plugin and reports the failed ones.
pub fn test(global: &GlobalArgs, args: &TestArgs) -> Result<(), CliError> {
    let cases = args.dir.join("tests");
    if args.dir.is_dir() && !cases.is_dir() {
        return Err(CliError::input(format_args!(
            "`{}` has no cases yet: write them to `{}`, each a `[[case]]` with a `code` and what to `expect` of it, or the `error`",
            args.dir.display(),
            cases.join("cases.toml").display()
        )));
    }
    if !args.dir.join("pack.toml").is_file() {
        let manifest = plugin_files::manifest_in(&args.dir).map_err(CliError::input)?;
        let file = args.file.clone().unwrap_or_else(|| args.dir.join(format!("{}.wasm", manifest.name)));
        if manifest.kind == PluginKind::EligibilityEngine {
            let files = eval::cases::read(&[cases])?;
            let engine = Engine::open(global, &file, args.packs.as_deref())?;
            let ended = eval::cases::run(global, &engine.admin, &files);
            engine.close();
            return ended;
        }
        let runner = runner(global, read(&file)?)?;
        return run_cases(global, &Pack::open(runner)?, &cases);
    }
    let bytes = packs::build(&args.dir, None).map_err(CliError::input)?;
    let runner = runner(global, bytes)?;
    run_cases(global, &Pack::open(runner)?, &cases)
}

/// The plugin of a call.
enum Target {
    Pack(Box<PluginRunner>),
    Engine(Box<Engine>),
}

impl Target {
    fn open(global: &GlobalArgs, file: &Path, function: &Function) -> Result<Self, CliError> {
        match function {
            Function::Contents | Function::Lookup { .. } => {
                let runner = runner(global, read(file)?)?;
                Ok(Self::Pack(Box::new(runner)))
            }
            Function::Evaluate { packs, .. } => {
                Engine::open(global, file, packs.as_deref()).map(|engine| Self::Engine(Box::new(engine)))
            }
        }
    }

    fn call(&mut self, function: &Function) -> Result<Value, CliError> {
        match (self, function) {
            (Self::Pack(runner), Function::Contents) => {
                Ok(contents_body(&runner.contents().map_err(CliError::failed)?))
            }
            (Self::Pack(runner), Function::Lookup { codes }) => {
                let codes: Result<Vec<CodeUri>, _> = codes.iter().map(|code| CodeUri::parse(code)).collect();
                let codes = codes.map_err(CliError::usage)?;
                let pack = runner.contents().map_err(CliError::failed)?;
                let found = codes.iter().map(|uri| look_up(runner, &pack, uri));
                Ok(json!({"results": found.collect::<Result<Vec<_>, _>>()?}))
            }
            (Self::Engine(engine), Function::Evaluate { expression, records, subject, as_of, .. }) => {
                let trial = Trial { expression, records, subject, as_of: as_of.as_deref() };
                eval::evaluate_records(&engine.admin, &trial)
            }
            (Self::Pack(_) | Self::Engine(_), _) => Err(CliError::usage("the plugin has no such function")),
        }
    }

    fn usage(&self) -> PluginUsage {
        match self {
            Self::Pack(runner) => runner.usage(),
            Self::Engine(engine) => engine.usage(),
        }
    }

    fn close(self) {
        if let Self::Engine(engine) = self {
            engine.close();
        }
    }
}

/// An eligibility engine in an empty register of its own.
struct Engine {
    name: PluginName,
    admin: AdminClient,
    _folder: TempDir,
}

impl Engine {
    fn open(global: &GlobalArgs, file: &Path, packs: Option<&Path>) -> Result<Self, CliError> {
        let bytes = read(file)?;
        let manifest = plugin_files::manifest_of(&bytes).map_err(CliError::failed)?;
        let folder = tempfile::tempdir()
            .map_err(|error| CliError::output(format_args!("no temporary folder can be created: {error}")))?;
        let mut config = Config::default();
        config.plugins.engine = Some(manifest.name.clone());
        config.plugins.allow_unsigned = true;
        config.plugins.limits = global.config()?.plugins.limits;
        let plugins_dir = packs.map(Path::to_owned);
        let options = global.app_options(folder.path().to_owned());
        let options = AppOptions { plugins_dir, shows_all_lines: true, ..options };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::failed)?;
        let app = runtime.block_on(App::open(config, options))?;
        let admin = AdminClient::Local { runtime, app };
        let payload = Payload::plugin(plugin_files::PluginFile { bytes, signature: None });
        // A folder of packs may contain another file of the same version.
        let installed = admin.call("POST", "/plugins?allow_unsigned=true&allow_downgrade=true", payload);
        if let Err(error) = installed {
            admin.close();
            return Err(error);
        }
        Ok(Self { name: manifest.name, admin, _folder: folder })
    }

    fn usage(&self) -> PluginUsage {
        let AdminClient::Local { app, .. } = &self.admin else { return PluginUsage::default() };
        let installed = app.state().plugins.list();
        let own = installed.iter().find(|plugin| plugin.manifest().name == self.name);
        own.map(|plugin| plugin.loaded().usage()).unwrap_or_default()
    }

    fn close(self) {
        self.admin.close();
    }
}

fn read(file: &Path) -> Result<Vec<u8>, CliError> {
    Ok(plugin_files::read(file).map_err(CliError::input)?.bytes)
}

/// Starts a plugin with the limits of the configuration, if one is named.
fn runner(global: &GlobalArgs, bytes: Vec<u8>) -> Result<PluginRunner, CliError> {
    PluginRunner::start(bytes, global.config()?.plugins.limits).map_err(CliError::failed)
}

/// Returns the concept of a listed code, or of a code that the open vocabulary resolves.
fn look_up(runner: &PluginRunner, pack: &CheckedPack, uri: &CodeUri) -> Result<Value, CliError> {
    let refused = |message: &str| json!({"code": uri.to_string(), "error": message});
    Ok(match concept_of(runner, pack, &uri.namespace, &uri.code).map_err(CliError::failed)? {
        Ok(concept) => json!({"code": uri.to_string(), "concept": concept_body(&concept)}),
        Err(message) => refused(&message),
    })
}

/// Returns the concept of a code. The outer error is of the call, the inner error of the code.
fn concept_of(
    runner: &PluginRunner,
    pack: &CheckedPack,
    namespace: &Namespace,
    code: &Code,
) -> Result<Result<Concept, String>, String> {
    let Some(vocabulary) = pack.vocabularies().iter().find(|one| one.namespace() == namespace) else {
        let known: Vec<String> = pack.vocabularies().iter().map(|one| format!("`{}`", one.namespace())).collect();
        return Ok(Err(format!("the pack has no vocabulary `{namespace}`; it has {}", known.join(", "))));
    };
    if let Some(concept) = vocabulary.find(code.as_str()).and_then(|concept| concept.to_concept()) {
        return Ok(Ok(concept));
    }
    if !vocabulary.description().is_open {
        return Ok(Err(format!("`{namespace}` has no code `{code}`")));
    }
    let mut resolved = runner.resolve(namespace, std::slice::from_ref(code))?;
    resolved.pop().ok_or_else(|| "the pack returned no result for the code".to_owned())
}

fn contents_body(pack: &CheckedPack) -> Value {
    let vocabularies = pack.vocabularies().iter().map(|vocabulary| {
        let description = vocabulary.description();
        json!({
            "namespace": vocabulary.namespace().to_string(), "name": description.name, "version": description.version,
            "languages": description.languages, "codes": vocabulary.concept_count(), "open": description.is_open,
        })
    });
    let groups =
        pack.concept_groups().iter().map(|group| json!({"name": group.name, "description": group.description}));
    json!({"vocabularies": vocabularies.collect::<Vec<_>>(), "concept_groups": groups.collect::<Vec<_>>()})
}

fn concept_body(concept: &Concept) -> Value {
    let texts = |texts: &[LocalizedText]| -> BTreeMap<String, String> {
        texts.iter().map(|text| (text.language.clone(), text.value.clone())).collect()
    };
    let parents: Vec<&str> = concept.parents.iter().map(Code::as_str).collect();
    json!({
        "code": concept.code.as_str(), "status": status_name(concept.status), "labels": texts(&concept.labels),
        "parents": parents, "aliases": concept.aliases,
        "replaced_by": concept.replaced_by.as_ref().map(Code::as_str),
    })
}

fn status_name(status: ConceptStatus) -> &'static str {
    match status {
        ConceptStatus::Active => "active",
        ConceptStatus::Inactive => "inactive",
    }
}

/// A pack under test.
struct Pack {
    runner: PluginRunner,
    contents: CheckedPack,
}

impl Pack {
    fn open(runner: PluginRunner) -> Result<Self, CliError> {
        let contents = runner.contents().map_err(CliError::failed)?;
        Ok(Self { runner, contents })
    }

    /// Returns the difference between a case and the plugin's result; none if they match.
    fn problem(&self, case: &Case) -> Result<Option<String>, String> {
        let uri = CodeUri::parse(&case.code).map_err(|error| error.to_string())?;
        let found = concept_of(&self.runner, &self.contents, &uri.namespace, &uri.code)?;
        Ok(match (&case.error, found) {
            (Some(part), Err(message)) if message.contains(part.as_str()) => None,
            (Some(part), Err(message)) => Some(format!("the error is `{message}`, without `{part}`")),
            (Some(_), Ok(concept)) => Some(format!("it is valid, with the code `{}`", concept.code)),
            (None, Err(message)) => Some(message),
            (None, Ok(concept)) => case.difference(&concept_body(&concept)),
        })
    }
}

/// The cases of a pack: codes, each with the expected concept or error.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    #[serde(rename = "case")]
    cases: Vec<Case>,
}

/// A code with its expected result.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// The case in a few words; the code if absent.
    name: Option<String>,
    /// The code, written `<namespace>#<code>`.
    code: String,
    /// Part of the expected error message; the code is expected to be valid if absent.
    error: Option<String>,
    /// Expected members of the concept, as `plugin call FILE lookup` prints them; in objects only the named ones.
    #[serde(default)]
    expect: BTreeMap<String, toml::Value>,
}

impl Case {
    fn difference(&self, concept: &Value) -> Option<String> {
        self.expect.iter().find_map(|(name, expected)| {
            let expected = serde_json::to_value(expected).unwrap_or_default();
            let actual = concept.get(name);
            let is_same = match (&expected, actual) {
                (Value::Object(expected), Some(Value::Object(actual))) => {
                    expected.iter().all(|(key, value)| actual.get(key) == Some(value))
                }
                (expected, actual) => Some(expected) == actual,
            };
            let actual = actual.cloned().unwrap_or_default();
            (!is_same).then(|| format!("`{name}` is {actual}, expected {expected}"))
        })
    }
}

fn run_cases(global: &GlobalArgs, pack: &Pack, folder: &Path) -> Result<(), CliError> {
    let mut reported = Vec::new();
    let (mut count, mut failed) = (0_usize, 0_usize);
    for file in eval::cases::listed(folder)? {
        let text = std::fs::read_to_string(&file).map_err(|error| CliError::cannot_read(&file, &error))?;
        let Cases { cases } = toml::from_str(&text)
            .map_err(|error| CliError::input(format_args!("`{}` has no cases: {error}", file.display())))?;
        for case in &cases {
            count += 1;
            let problem = pack.problem(case).unwrap_or_else(Some);
            failed += usize::from(problem.is_some());
            let name = case.name.as_deref().unwrap_or(&case.code);
            if let Some(problem) = problem.as_ref().filter(|_| !global.json) {
                output::line(format_args!("FAILED {}: {name}: {problem}", file.display()));
            }
            reported.push(json!({"file": file, "name": name, "code": case.code, "problem": problem}));
        }
    }
    if count == 0 {
        return Err(CliError::input(format_args!("there are no cases in `{}` (`*.toml`)", folder.display())));
    }
    let use_of_all = use_line(&pack.runner.usage());
    let body = json!({"cases": reported, "failed": failed, "use": use_body(&pack.runner.usage())});
    output::done(global, &body, format_args!("{count} cases, {failed} failed; {use_of_all}"));
    match failed {
        0 => Ok(()),
        failed => Err(CliError::failed(format_args!("{failed} of {count} cases failed"))),
    }
}

fn difference(before: &PluginUsage, after: &PluginUsage) -> PluginUsage {
    PluginUsage {
        calls: after.calls.saturating_sub(before.calls),
        fuel: after.fuel.saturating_sub(before.fuel),
        time: after.time.saturating_sub(before.time),
        log_lines: after.log_lines.saturating_sub(before.log_lines),
        ..after.clone()
    }
}

fn use_body(used: &PluginUsage) -> Value {
    json!({
        "calls": used.calls, "fuel": used.fuel, "peak_fuel": used.peak_fuel, "peak_fuel_share": used.peak_fuel_share,
        "peak_memory_bytes": used.peak_memory_bytes, "time_ms": milliseconds(used.time), "log_lines": used.log_lines,
    })
}

fn use_line(used: &PluginUsage) -> String {
    format!(
        "{} calls of the plugin, {} fuel (one call: at most {:.1} % of its limit), {} KiB of memory, {:.3} ms, {} log lines",
        used.calls,
        used.fuel,
        used.peak_fuel_share * 100.0,
        used.peak_memory_bytes / 1_024,
        milliseconds(used.time),
        used.log_lines
    )
}

fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1_000.0
}
