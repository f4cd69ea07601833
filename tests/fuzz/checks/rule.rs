//! Rules: the parser, the checker and both ways of evaluation, natively, over the register of the engine's own tests.

// The file is a module of the engine's tests too, which use more of it.
#[path = "../../../plugins/cel/tests/rules/support.rs"]
#[expect(dead_code, reason = "the engine's tests use the rest")]
mod register;

use daftar_cel::diagnostic::{Diagnostic, Severity};
use daftar_cel::limits::{DIAGNOSTICS_MAX, MESSAGE_CHARACTERS_MAX, SUGGESTION_BYTES_MAX};
use daftar_cel::rule::{Rule, Way};

use register::{AS_OF, Case, Cell, FEMALE, HEAD, batch, bind, household, person, schema, schema_with_vocabularies};

pub fn check(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let _with_vocabularies = compile(text, true);
    let Some(rule) = compile(text, false) else { return };
    let cases = cases();
    let bindings = bind(&rule);
    let by = |way| rule.evaluate_by(way, &bindings, batch(&rule, &cases)).map(|evaluated| evaluated.outcomes);
    let outcomes = by(Way::Columns);
    assert_eq!(outcomes, by(Way::Rows), "columns and rows decide alike");
    let Ok(outcomes) = outcomes else { return };
    assert_eq!(outcomes.verdicts.len(), cases.len());
    for row in 0..cases.len() {
        let row = u32::try_from(row).unwrap();
        if let Ok(explained) = rule.explain(&bindings, batch(&rule, &cases), row) {
            assert!(explained.is_some(), "every subject has an explanation");
        }
    }
}

/// The rule, if it has no errors. Every diagnostic names a place in the text.
fn compile(text: &str, has_vocabularies: bool) -> Option<Rule> {
    let schema = if has_vocabularies { schema_with_vocabularies() } else { schema() };
    match Rule::compile(text, &schema) {
        Ok(rule) => {
            rule.warnings().iter().for_each(|warning| is_usable(warning, text, Severity::Warning));
            Some(rule)
        }
        Err(diagnostics) => {
            assert!((1..=DIAGNOSTICS_MAX).contains(&diagnostics.len()), "{}", diagnostics.len());
            assert!(diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error));
            assert!(diagnostics.is_sorted_by_key(|diagnostic| diagnostic.span));
            diagnostics.iter().for_each(|diagnostic| is_usable(diagnostic, text, diagnostic.severity));
            None
        }
    }
}

fn is_usable(diagnostic: &Diagnostic, text: &str, severity: Severity) {
    let Diagnostic { message, span, suggestion, .. } = diagnostic;
    assert_eq!(diagnostic.severity, severity);
    assert!(text.get(span.start..span.end).is_some(), "{diagnostic:?} is in the text");
    let place = diagnostic.place(text);
    assert!(place.line >= 1 && place.column >= 1, "{place:?}");
    assert!(!message.is_empty() && message.chars().count() <= MESSAGE_CHARACTERS_MAX, "{message}");
    assert!(!message.contains(char::is_control), "{message:?} is one line");
    if let Some(suggestion) = suggestion {
        assert!(suggestion.len() <= SUGGESTION_BYTES_MAX && !suggestion.contains(char::is_control), "{suggestion:?}");
    }
}

/// Subjects with everything, with members, and with nothing.
fn cases() -> [Case; 3] {
    let me = vec![
        ("active", Cell::Boolean(true)),
        ("rooms", Cell::Integer(3)),
        ("income.amount", Cell::Number(99.5)),
        ("name.family", Cell::Text("Diallo")),
        ("gender", Cell::Code(FEMALE)),
        ("birth_date", Cell::Day("1990-02-28")),
        ("languages", Cell::List(vec![Cell::Code(FEMALE), Cell::Absent])),
        ("tags", Cell::List(vec![Cell::Text("a"), Cell::Text("")])),
        ("address", Cell::Records(vec![vec![("district", Cell::Text("North"))], Vec::new()])),
    ];
    let head = vec![("role", Cell::Code(HEAD)), ("birth_date", Cell::Day(AS_OF)), ("gender", Cell::Code(FEMALE))];
    [person(me), household(vec![head, Vec::new()]), Case::default()]
}
