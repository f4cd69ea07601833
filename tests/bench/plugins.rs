//! Plugins: start with the program itself, install, a fresh instance and a warm one, and replacing plugins under load.

mod swap;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use daftar::app::{App, AppState};
use daftar::domain::audit::Actor;
use daftar::domain::code::{Code, Namespace};
use daftar::domain::eligibility::{
    Batch, Bindings, Children, Column, ColumnValues, FieldType, Outcomes, RowSpace, Schema, Subject,
};
use daftar::domain::extension::ExtensionFields;
use daftar::plugin::{InstalledPlugin, RuleRequest, RuleSession, run_rule, run_rule_in_background};
use daftar::service::eligibility::schema::schema;
use daftar::vocab::Generation;

use crate::codes::{everything, median_and_p99, micros, millis, start_again};
use crate::server::{Server, options, settings};

/// How many fresh instances are timed.
const INSTANCES: usize = 2_000;
/// How many calls a warm instance gets.
const WARM_CALLS: usize = 500;
/// The rules of DESIGN's targets, and how many million evaluations a second and core each is to reach.
const RULES: [(&str, Subject, &str, u32); 3] = [
    (
        "A",
        Subject::Individual,
        "me.gender == code('urn:iso:std:iso:5218#2') && age_years(me.birth_date) >= 18 && age_years(me.birth_date) < 60",
        80,
    ),
    ("B", Subject::Group, "members.exists(m, is_head(m) && age_years(m.birth_date) >= 60)", 12),
    ("C", Subject::Individual, "in_group(me.gender, 'feminine_gender') && me.income.amount < 5000.0", 80),
];
/// The plugins whose install is timed, each into a register that has all others.
const TIMED_INSTALLS: [&str; 3] = ["gender", "icd-11", "eligibility-cel"];

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
    println!(
        "plugins: first start, {} installed and compiled: {:.0} ms",
        server.app.plugins.list().len(),
        millis(started)
    );
    server.stop().await;
    start_again("plugins", folder.path()).await?;
    for name in TIMED_INSTALLS {
        install(&everything, name).await?;
    }
    let server = Server::start_with(folder.path(), &everything).await?;
    packs(&server.app)?;
    for (name, subject, expression, target) in RULES {
        rule(&server.app, name, subject, expression, target).await?;
    }
    server.stop().await;
    swap::run(&everything).await
}

/// Installs one plugin into a register that has everything else; nothing of it was compiled before.
async fn install(everything: &Path, name: &str) -> Result<(), String> {
    let file = format!("{name}.wasm");
    let Ok(bytes) = std::fs::read(everything.join(&file)) else {
        println!("plugins: `{name}` was not built, so its install is not timed");
        return Ok(());
    };
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let others = folder.path().join("others");
    std::fs::create_dir(&others).map_err(|error| error.to_string())?;
    for entry in std::fs::read_dir(everything).map_err(|error| error.to_string())? {
        let entry = entry.map_err(|error| error.to_string())?;
        if entry.file_name() != file.as_str() {
            std::fs::copy(entry.path(), others.join(entry.file_name())).map_err(|error| error.to_string())?;
        }
    }
    let app = App::open(settings(), options(folder.path(), &others)?).await.map_err(|error| error.to_string())?;
    let size_kb = bytes.len() / 1_000;
    let started = Instant::now();
    app.plugins.install(&app.system_context(), bytes).await.map_err(|error| error.to_string())?;
    let target = if name == "icd-11" { " (target 1000)" } else { "" };
    println!("plugins: install of `{name}`, {size_kb} kB: {:.0} ms{target}", millis(started));
    app.close();
    Ok(())
}

fn installed(app: &AppState, name: &str) -> Result<InstalledPlugin, String> {
    let found = app.plugins.list().into_iter().find(|plugin| plugin.manifest().name.as_str() == name);
    found.ok_or_else(|| format!("`{name}` is not installed"))
}

/// A fresh instance and calls into it, through the queue of plugin threads: the generic pack, and one with logic of its own.
fn packs(app: &AppState) -> Result<(), String> {
    let host = app.plugins.host();
    let gender = installed(app, "gender")?;
    let before = gender.loaded().usage();
    let mut times = Vec::with_capacity(INSTANCES);
    for _ in 0..INSTANCES {
        let started = Instant::now();
        host.load_pack(&gender).map_err(|error| error.to_string())?;
        times.push(micros(started));
    }
    let after = gender.loaded().usage();
    let calls = (after.calls - before.calls) / INSTANCES as u64;
    let (median, p99) = median_and_p99(&mut times);
    println!(
        "plugins: generic pack, fresh instance and {calls} calls that read all of it: median {median:.0} us, p99 {p99:.0} us (target 100 for one call)"
    );

    let tags = installed(app, "language-tag")?;
    let namespace = Namespace::parse("urn:ietf:bcp:47").map_err(|error| error.to_string())?;
    let code = |text: String| Code::parse(&text).map_err(|error| error.to_string());
    let one = [code("zh-Hant-TW".to_owned())?];
    let mut many = one.to_vec();
    for number in 0..WARM_CALLS {
        many.push(code(format!("pt-BR-x-v{number}"))?);
    }
    let time = |codes: &[Code], rounds: usize| -> Result<(f64, f64), String> {
        let mut times = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let started = Instant::now();
            let answers = host.resolve_codes(&tags, &namespace, codes).map_err(|error| error.to_string())?;
            times.push(micros(started));
            if answers.iter().any(Result::is_err) {
                return Err("a tag was refused".to_owned());
            }
        }
        Ok(median_and_p99(&mut times))
    };
    let (fresh, p99) = time(&one, INSTANCES)?;
    println!("plugins: language tags, fresh instance and one tag: median {fresh:.0} us, p99 {p99:.0} us");
    let fuel = tags.loaded().usage().fuel;
    let (whole, _) = time(&many, 20)?;
    let fuel = (tags.loaded().usage().fuel - fuel) / (20 * many.len() as u64);
    let warm = (whole - fresh) / WARM_CALLS as f64;
    println!("plugins: language tags, a call on a warm instance: {warm:.1} us, {fuel} units of fuel");
    Ok(())
}

/// A fresh instance of the engine with the compilation of a rule, and evaluations on it once it is warm.
async fn rule(app: &AppState, name: &str, subject: Subject, expression: &str, target: u32) -> Result<(), String> {
    let schema = Arc::new(schema(subject, &ExtensionFields::default()));
    let request =
        RuleRequest { actor: Actor::Administrator, expression: expression.to_owned(), schema: Arc::clone(&schema) };
    let mut times = Vec::with_capacity(INSTANCES);
    let mut inside = Vec::with_capacity(INSTANCES);
    for _ in 0..INSTANCES {
        let started = Instant::now();
        let usage = run_rule(&*app.engine, request.clone(), |session| session.usage()).await;
        times.push(micros(started));
        inside.push(usage.map_err(|error| error.to_string())?.time.as_secs_f64() * 1e6);
    }
    let (median, p99) = median_and_p99(&mut times);
    let (inside, _) = median_and_p99(&mut inside);
    println!(
        "plugins: engine, fresh instance and compilation of rule {name}: median {median:.0} us, p99 {p99:.0} us, {inside:.0} us of it in the sandbox (target 300)"
    );
    let (columns, generation) = (schema.clone(), app.registry.vocabularies.current());
    let warm = move |session: &mut dyn RuleSession| warm(session, &columns, &generation);
    // A budget for each call: a request's would be used up by a few hundred.
    let warmed = run_rule_in_background(&*app.engine, request, warm).await;
    let (one, many) = warmed.map_err(|error| error.to_string())??;
    println!(
        "plugins: engine, a call on a warm instance, rule {name}: {one:.1} us for one subject, {many:.0} us for 4,096, which is {:.1} million a second and core (target {target})",
        4_096.0 / many
    );
    Ok(())
}

/// The median times of a batch of one subject and of 4,096, in microseconds.
fn warm(session: &mut dyn RuleSession, schema: &Schema, generation: &Generation) -> Result<(f64, f64), String> {
    let answers = session.questions().iter().map(|asked| generation.answer(&asked.question)).collect::<Result<_, _>>();
    let answers = answers.map_err(|problem| format!("a question has no answer: {problem:?}"))?;
    session.bind(&Bindings { answers, texts: Vec::new() }).map_err(|error| error.to_string())?;
    let mut medians = [0.0; 2];
    for (median, rows) in medians.iter_mut().zip([1, 4_096]) {
        let batch = batch(session, schema, rows)?;
        let mut times = Vec::with_capacity(WARM_CALLS);
        for _ in 0..WARM_CALLS {
            let started = Instant::now();
            let outcomes: Outcomes = session.evaluate(&batch).map_err(|error| error.to_string())?;
            times.push(micros(started));
            std::hint::black_box(outcomes);
        }
        *median = median_and_p99(&mut times).0;
    }
    Ok(medians.into())
}

/// Subjects with the columns that the rule reads; a group has six members.
fn batch(session: &dyn RuleSession, schema: &Schema, rows: u32) -> Result<Batch, String> {
    const MEMBERS: u32 = 6;
    let mut columns = Vec::new();
    for reference in session.references() {
        let is_it = |field: &&daftar::domain::eligibility::Field| {
            (field.space, &field.path) == (reference.space, &reference.path)
        };
        let field = schema.fields.iter().find(is_it).ok_or_else(|| format!("`{}` is no field", reference.path))?;
        let rows = if reference.space == RowSpace::Me { rows } else { rows * MEMBERS };
        let values = match field.kind {
            FieldType::Date => ColumnValues::Days((0..rows).map(|row| (row % 30_000) as i32 - 10_000).collect()),
            FieldType::Coded => ColumnValues::Codes((0..rows).map(|row| row % 5).collect()),
            FieldType::Number => ColumnValues::Numbers((0..rows).map(|row| f64::from(row % 10_000)).collect()),
            other => return Err(format!("`{}` is of a type that no rule here reads: {other:?}", reference.path)),
        };
        columns.push(Column { space: reference.space, path: reference.path.clone(), valid: Vec::new(), values });
    }
    let has_members = schema.subject == Subject::Group;
    let offsets = (0..=rows).map(|row| row * MEMBERS).collect();
    let members = has_members.then_some(Children { offsets, known: Vec::new() });
    Ok(Batch { as_of: 20_000, rows, members, programs: None, columns })
}
