//! The engine in its sandbox, on one core: as it is shipped, and built to go row by row.
//!
//! The batches are those of the benchmark outside of the sandbox: the same values in the same order, so that figures of one run compare.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use daftar::app::AppState;
use daftar::domain::audit::Actor;
use daftar::domain::calendar::days_since_epoch;
use daftar::domain::code::CodeUri;
use daftar::domain::eligibility::{Batch, Bindings, Children, Column, ColumnValues, RowSpace, Verdict};
use daftar::domain::extension::ExtensionFields;
use daftar::domain::manifest::PluginName;
use daftar::plugin::{RuleRequest, RuleSession, run_rule_in_background};
use daftar::service::eligibility::schema::schema;
use daftar::vocab::Generation;

use super::{RULES, Rule};
use crate::server::{Server, artifacts_folder};

const SUBJECTS: usize = 4_096;
const MEMBERS: usize = 6;
/// One subject in so many lacks a fact, in the second measurement of each rule.
const ONE_MISSING_IN: usize = 50;
/// How long each way is measured, and how often; the best counts.
const SLICE: Duration = Duration::from_millis(200);
const SLICES: usize = 5;
/// The engine that goes row by row; `cargo xtask bench` builds it.
const ROWS_ENGINE: &str = "eligibility-cel-rows";

/// Million evaluations a second, and how many of a batch are eligible.
struct Rate {
    millions: f64,
    eligible: usize,
}

/// Measures every rule in both engines.
pub async fn measure() -> Result<(), String> {
    println!(
        "eligibility: million evaluations a second in the sandbox, one core, batches of {SUBJECTS}, calls included"
    );
    let by_columns = rates(None).await?;
    let by_rows = rates(Some(ROWS_ENGINE)).await?;
    let what = RULES.iter().flat_map(|rule| GAPS.map(|(gaps, _)| (rule, gaps)));
    for (((rule, gaps), columns), rows) in what.zip(&by_columns).zip(&by_rows) {
        if columns.eligible != rows.eligible {
            return Err(format!(
                "rule {}: {} are eligible by columns, {} by rows",
                rule.name, columns.eligible, rows.eligible
            ));
        }
        println!(
            "eligibility: rule {} in the sandbox, {gaps}: columns {:.1} (target {}), rows {:.2}; columns are {:.0} times the rows",
            rule.name,
            columns.millions,
            rule.target,
            rows.millions,
            columns.millions / rows.millions
        );
    }
    Ok(())
}

const GAPS: [(&str, bool); 2] = [("all recorded", false), ("1 fact in 50 missing", true)];

/// The rates of an engine, the shipped one where none is named: of each rule without and with gaps.
async fn rates(engine: Option<&str>) -> Result<Vec<Rate>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let name = engine.map(PluginName::parse).transpose().map_err(|error| error.to_string())?;
    let server = Server::start_changed(folder.path(), |config| config.plugins.engine = name).await?;
    if let Some(engine) = engine {
        let file = rows_engine()?;
        let bytes = std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let installed = server.app.plugins.install(&server.app.system_context(), bytes).await;
        installed.map_err(|error| error.to_string())?;
        let active = server.app.engine.engine_name().unwrap_or_default();
        if !active.starts_with(engine) {
            return Err(format!("`{active}` is active in place of `{engine}`"));
        }
    }
    let mut rates = Vec::new();
    for rule in &RULES {
        for (_, has_gaps) in GAPS {
            rates.push(rate(&server.app, rule, has_gaps).await?);
        }
    }
    server.stop().await;
    Ok(rates)
}

fn rows_engine() -> Result<PathBuf, String> {
    Ok(artifacts_folder()?.join("bench").join(format!("{ROWS_ENGINE}.wasm")))
}

async fn rate(app: &AppState, rule: &Rule, has_gaps: bool) -> Result<Rate, String> {
    let request = RuleRequest {
        actor: Actor::Administrator,
        expression: rule.expression.to_owned(),
        schema: Arc::new(schema(rule.subject, &ExtensionFields::default())),
    };
    let generation = app.registry.vocabularies.current();
    let measure = move |session: &mut dyn RuleSession| warm(session, &generation, has_gaps);
    // A budget for each call: a request's would be used up by a few hundred.
    let ran = run_rule_in_background(&*app.engine, request, measure).await;
    ran.map_err(|error| error.to_string())?
}

fn warm(session: &mut dyn RuleSession, generation: &Generation, has_gaps: bool) -> Result<Rate, String> {
    let answers = session.questions().iter().map(|asked| generation.answer(&asked.question)).collect::<Result<_, _>>();
    let answers = answers.map_err(|problem| format!("a question has no answer: {problem:?}"))?;
    session.bind(&Bindings { answers, texts: Vec::new() }).map_err(|error| error.to_string())?;
    let batch = batch(session, generation, has_gaps)?;
    let (mut best, mut eligible): (f64, usize) = (0.0, 0);
    for _ in 0..SLICES {
        let (started, mut calls) = (Instant::now(), 0_u32);
        while calls == 0 || started.elapsed() < SLICE {
            let outcomes = session.evaluate(&batch).map_err(|error| error.to_string())?;
            eligible = outcomes.verdicts.iter().filter(|verdict| **verdict == Verdict::Eligible).count();
            calls += 1;
        }
        best = best.max(f64::from(calls) * SUBJECTS as f64 / started.elapsed().as_secs_f64() / 1e6);
    }
    Ok(Rate { millions: best, eligible })
}

/// Subjects with the columns that the rule reads, in no order that a processor could learn by heart.
fn batch(session: &dyn RuleSession, generation: &Generation, has_gaps: bool) -> Result<Batch, String> {
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
            // The last member is the head, so that every member is looked at.
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
