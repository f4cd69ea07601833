//! The eligibility engine in its sandbox, in process and on one core: as it ships, and built to go row by row; a fresh
//! instance with the compilation of a rule.
//!
//! The batches are those of the benchmark outside of the sandbox (`plugins/cel/benches`), the same values in the same
//! order, whose rows `cargo xtask bench` hands over in a file.

use std::sync::Arc;
use std::time::{Duration, Instant};

use daftar::domain::audit::Actor;
use daftar::domain::calendar::days_since_epoch;
use daftar::domain::code::CodeUri;
use daftar::domain::eligibility::{Batch, Bindings, Children, Column, ColumnValues, RowSpace, Verdict};
use daftar::domain::extension::ExtensionFields;
use daftar::domain::manifest::PluginName;
use daftar::domain::subject::Subject;
use daftar::plugin::{Priority, RuleRequest, RuleSession, run_rule};
use daftar::service::eligibility::schema::schema;
use daftar::vocab::Generation;
use serde_json::Value;

use crate::in_process::{Opened, open};
use crate::report::{Report, Row, Spread};
use crate::server::artifacts;
use crate::setup::Setup;

/// A rule of the targets.
pub struct Rule {
    /// Its letter.
    pub name: &'static str,
    /// The kind of its subjects.
    pub subject: Subject,
    /// The rule.
    pub expression: &'static str,
    /// Target of evaluations per second and core in the sandbox, in millions.
    pub target: &'static str,
    /// Target of the time for a preview of a million people.
    pub preview_target: &'static str,
}

impl Rule {
    /// The kind of its subjects, as a request names it.
    pub fn subject_name(&self) -> &'static str {
        match self.subject {
            Subject::Individual => "individual",
            Subject::Group => "group",
        }
    }

    fn request(&self) -> RuleRequest {
        let schema = Arc::new(schema(self.subject, &ExtensionFields::default()));
        RuleRequest { actor: Actor::Administrator, expression: self.expression.to_owned(), schema, idle: None }
    }
}

/// The rules: over columns of a person, over the members of a household, over a group of concepts.
pub const RULES: [Rule; 3] = [
    Rule {
        name: "A",
        subject: Subject::Individual,
        expression: "me.gender == code('urn:iso:std:iso:5218#2') && age_years(me.birth_date) >= 18 && age_years(me.birth_date) < 60",
        target: "250 M/s",
        preview_target: "25 ms",
    },
    Rule {
        name: "B",
        subject: Subject::Group,
        expression: "members.exists(m, is_head(m) && age_years(m.birth_date) >= 60)",
        target: "40 M/s",
        preview_target: "50 ms",
    },
    Rule {
        name: "C",
        subject: Subject::Individual,
        expression: "in_group(me.gender, 'feminine_gender') && me.income.amount < 5000.0",
        target: "250 M/s",
        preview_target: "30 ms",
    },
];

const SUBJECTS: usize = 4_096;
const MEMBERS: usize = 6;
/// In the second measurement of each rule, one of this number of subjects lacks a fact.
const ONE_MISSING_IN: usize = 50;
/// Duration of each slice of calls, and their number.
const SLICE: Duration = Duration::from_millis(200);
const SLICES: u64 = 11;
/// Number of fresh instances that are timed.
const INSTANCES: u64 = 500;
/// The engine that goes row by row; `cargo xtask bench` builds it.
const ROWS_ENGINE: &str = "eligibility-cel-rows";
/// Names the file with the rows of the benchmark outside of the sandbox.
const NATIVE_VARIABLE: &str = "DAFTAR_BENCH_NATIVE";
const GAPS: [(&str, &str, bool); 2] = [("", "all facts recorded", false), (".gaps", "1 fact in 50 missing", true)];

/// Measures every rule in both engines.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), String> {
    report.setting("subjects in a batch", SUBJECTS);
    report.setting("slices", setup.times(SLICES));
    report.setting("milliseconds a slice", SLICE.as_millis());
    let by_columns = measure(setup, report, None)?;
    let by_rows = measure(setup, report, Some(ROWS_ENGINE))?;
    if by_columns != by_rows {
        return Err(format!("by columns {by_columns:?} are eligible, row by row {by_rows:?}"));
    }
    if let Some(file) = std::env::var_os(NATIVE_VARIABLE) {
        let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
        let rows: Vec<Value> = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        rows.into_iter().for_each(|row| report.add(row));
    }
    Ok(())
}

/// Measures an engine, the one that ships where none is named; how many of each batch are eligible.
fn measure(setup: &Setup, report: &mut Report, engine: Option<&str>) -> Result<Vec<usize>, String> {
    let register = setup.empty(engine.unwrap_or("engine"))?;
    let name = engine.map(PluginName::parse).transpose().map_err(|error| error.to_string())?;
    let opened = open(&register, |config| config.plugins.engine = name)?;
    let app = opened.state();
    if let Some(engine) = engine {
        let file = artifacts()?.join("bench").join(format!("{engine}.wasm"));
        let bytes = std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let installed = opened.runtime.block_on(app.plugins.install(&app.system_context(), bytes));
        installed.map_err(|error| error.to_string())?;
        let active = app.engine.engine_name().unwrap_or_default();
        if !active.starts_with(engine) {
            return Err(format!("`{active}` is active in place of `{engine}`"));
        }
    }
    let way = if engine.is_some() { "row by row" } else { "by columns" };
    let mut eligible = Vec::new();
    for rule in &RULES {
        let id = format!("engine.{}.{}", if engine.is_some() { "rows" } else { "columns" }, rule.name.to_lowercase());
        for (suffix, gaps, has_gaps) in GAPS {
            let (rates, count) = rates(setup, &opened, rule, has_gaps)?;
            eligible.push(count);
            let what = format!("rule {}, {gaps}, in the sandbox {way}, one core, calls included", rule.name);
            let row = Row::new(format!("{id}{suffix}"), what, "M/s", rates);
            report.row(if engine.is_none() && !has_gaps { row.target(rule.target) } else { row });
        }
        if engine.is_none() {
            let what = format!("rule {}: fresh instance and compilation", rule.name);
            let times = fresh(setup, &opened, rule)?;
            report.row(Row::new(format!("{id}.fresh"), what, "ms", times).target("0.3 ms"));
        }
    }
    drop(opened);
    setup.remove(register)?;
    Ok(eligible)
}

fn fresh(setup: &Setup, opened: &Opened, rule: &Rule) -> Result<Spread, String> {
    opened.runtime.block_on(async {
        let mut times = Vec::new();
        for _ in 0..setup.times(INSTANCES) {
            let started = Instant::now();
            let ran =
                run_rule(&*opened.state().engine, Priority::Interactive, rule.request(), |session| session.usage())
                    .await;
            times.push(started.elapsed().as_secs_f64() * 1e3);
            ran.map_err(|error| error.to_string())?;
        }
        Ok(Spread::of(times))
    })
}

fn rates(setup: &Setup, opened: &Opened, rule: &Rule, has_gaps: bool) -> Result<(Spread, usize), String> {
    let app = opened.state();
    let generation = app.registry.vocabularies.current();
    let slices = setup.times(SLICES);
    let measure = move |session: &mut RuleSession| slices_of(session, &generation, has_gaps, slices);
    // A budget for each call: a request's would be used up by a few hundred.
    let ran = opened.runtime.block_on(run_rule(&*app.engine, Priority::Background, rule.request(), measure));
    ran.map_err(|error| error.to_string())?
}

fn slices_of(
    session: &mut RuleSession,
    generation: &Generation,
    has_gaps: bool,
    slices: u64,
) -> Result<(Spread, usize), String> {
    let answers =
        session.questions().iter().map(|requested| generation.answer(&requested.question)).collect::<Result<_, _>>();
    let answers = answers.map_err(|problem| format!("a question has no answer: {problem:?}"))?;
    session.bind(&Bindings { answers, texts: Vec::new() }).map_err(|error| error.to_string())?;
    let batch = batch(session, generation, has_gaps)?;
    let (mut rates, mut eligible) = (Vec::new(), 0);
    for _ in 0..slices {
        let (started, mut calls) = (Instant::now(), 0_u32);
        while calls == 0 || started.elapsed() < SLICE {
            let outcomes = session.evaluate(&batch).map_err(|error| error.to_string())?;
            eligible = outcomes.verdicts.iter().filter(|verdict| **verdict == Verdict::Eligible).count();
            calls += 1;
        }
        rates.push(f64::from(calls) * SUBJECTS as f64 / started.elapsed().as_secs_f64() / 1e6);
    }
    Ok((Spread::of(rates), eligible))
}

/// Subjects with the columns that the rule reads, in no order that a processor could learn by heart.
fn batch(session: &RuleSession, generation: &Generation, has_gaps: bool) -> Result<Batch, String> {
    let number = |uri: &str| {
        let uri = CodeUri::parse(uri).map_err(|error| error.to_string())?;
        generation.number_of(&uri).map(|number| number.0).ok_or_else(|| format!("the code `{uri}` is not there"))
    };
    let genders = [number("urn:iso:std:iso:5218#1")?, number("urn:iso:std:iso:5218#2")?];
    let (head, child) = (number("urn:svc:vocab:relationship#head")?, number("urn:svc:vocab:relationship#child")?);
    let mixed = |row: usize| row.wrapping_mul(2_654_435_761) >> 7;
    let has_members = session.references().iter().any(|reference| reference.space == RowSpace::Members);
    let rows = 0..if has_members { SUBJECTS * MEMBERS } else { SUBJECTS };
    let mut valid = vec![0_u8; rows.len().div_ceil(8)];
    for (at, byte) in valid.iter_mut().enumerate() {
        for bit in 0..8 {
            *byte |= u8::from(!has_gaps || !mixed(at * 8 + bit + 3).is_multiple_of(ONE_MISSING_IN)) << bit;
        }
    }
    let mut columns = Vec::new();
    for reference in session.references() {
        let (valid, values) = match reference.path.as_str() {
            "gender" => {
                let gender = |row| if mixed(row).is_multiple_of(2) { genders[0] } else { genders[1] };
                (Vec::new(), ColumnValues::Codes(rows.clone().map(gender).collect()))
            }
            // The last member is the head, so that every member is read.
            "role" => {
                let role = |row| if row % MEMBERS == MEMBERS - 1 { head } else { child };
                (Vec::new(), ColumnValues::Codes(rows.clone().map(role).collect()))
            }
            "birth_date" => (
                valid.clone(),
                ColumnValues::Days(rows.clone().map(|row| (mixed(row + 1) % 31_000) as i32 - 11_000).collect()),
            ),
            "income.amount" => (
                valid.clone(),
                ColumnValues::Numbers(rows.clone().map(|row| (mixed(row + 2) % 10_000) as f64).collect()),
            ),
            other => return Err(format!("`{other}` is not made here")),
        };
        columns.push(Column { space: reference.space, path: reference.path.clone(), valid, values });
    }
    let offsets = (0..=SUBJECTS as u32).map(|subject| subject * MEMBERS as u32).collect();
    let members = has_members.then_some(Children { offsets, known: Vec::new() });
    let as_of = days_since_epoch(jiff::civil::date(2026, 3, 1));
    Ok(Batch { as_of, rows: SUBJECTS as u32, members, programs: None, columns })
}
