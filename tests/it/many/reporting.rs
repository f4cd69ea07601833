//! Reports by SQL: the views of the schema `reporting` return the guide's results, as the files of an export do.

use daftar_tests::postgres::{Processes, run};
use daftar_tests::records::{FEMALE, person};
use serde_json::json;

const GUIDE: &str = include_str!("../../../host/docs/guides/reporting.md");
const SAMPLE: &str = include_str!("../../../examples/reporting/sample.ndjson");
const QUESTIONS: &str = include_str!("../../../examples/reporting/questions.sql");

/// The statement of a question, by its number.
fn question(number: usize) -> &'static str {
    let (_, after) = QUESTIONS.split_once(&format!("-- {number}. ")).expect("the question is there");
    let (_, statement) = after.split_once('\n').expect("it is below its title");
    statement.split("\n-- ").next().unwrap_or(statement).trim()
}

/// The rows of the guide for a question.
fn shown(number: usize) -> Vec<String> {
    let (_, after) = GUIDE.split_once(&format!("\n{number}. ")).expect("the guide shows the answer");
    let rows = after.lines().skip(2).take_while(|line| line.starts_with("  "));
    rows.map(|row| row.trim().replace(" | ", "|")).collect()
}

/// Tests whether two rows are equal: one engine writes 2.5, the other 2.50.
fn is_same(one: &str, other: &str) -> bool {
    let same = |(one, other): (&str, &str)| {
        one == other
            || one.parse::<f64>().ok().zip(other.parse().ok()).is_some_and(|(one, other): (f64, f64)| one == other)
    };
    one.split('|').count() == other.split('|').count() && one.split('|').zip(other.split('|')).all(same)
}

#[test]
fn the_questions_of_the_guide_have_the_same_answers_in_the_views_as_in_files() {
    let processes = Processes::start(1);
    // A copy: rejects of a file are written next to it.
    let folder = tempfile::tempdir().unwrap();
    let sample = folder.path().join("sample.ndjson");
    std::fs::write(&sample, SAMPLE).unwrap();
    for system in ["urn:example:register", "urn:example:program"] {
        drop(run(processes.data_dir(0), &["identifier-system", "add", system]).expect_success());
    }
    drop(run(processes.data_dir(0), &["import", sample.to_str().unwrap()]).expect_success());
    for number in 1..=10 {
        let requested = format!("SET search_path = reporting; SET reporting.language = 'en'; {}", question(number));
        let found = processes.database().sql(&requested);
        let (found, shown): (Vec<&str>, Vec<String>) = (found.lines().collect(), shown(number));
        let is_same = found.len() == shown.len() && found.iter().zip(&shown).all(|(one, other)| is_same(one, other));
        assert!(is_same && !shown.is_empty(), "question {number}: {found:#?} and in the guide {shown:#?}");
    }

    // Further columns and rows of the views.
    let requested = |statement: &str| processes.database().sql(&format!("SET search_path = reporting; {statement}"));
    let french = "SELECT id FROM individual WHERE 'urn:iso:std:iso:639#fr' = ANY (languages)";
    assert_eq!(requested(french), "urn:example:register|P-11");
    let audit = "SELECT action, outcome, count(*) > 0 FROM audit_entry WHERE action = 'create' GROUP BY 1, 2";
    assert_eq!(requested(audit), "create|allowed|t");
    // The import was by the administrator, and this is by a client of that name.
    let credentials = processes.credentials(0, &["individual:all"]);
    let client = processes.client_of(0, &credentials);
    drop(client.create_individual(&person("1", json!({"gender": FEMALE}))));
    let names = "SELECT DISTINCT client IS NULL, client_name FROM audit_entry WHERE action = 'create' ORDER BY 1";
    assert_eq!(requested(names), "f|test\nt|");
    drop(processes.admin(0).request("DELETE", &format!("/clients/{}", credentials.id)).send().expect(204));
    assert_eq!(requested(names), "f|deleted\nt|");
    assert_eq!(requested("SELECT label('urn:iso:std:iso:5218#2', 'en')"), "Female");
}
