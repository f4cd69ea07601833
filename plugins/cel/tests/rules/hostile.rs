//! Expressions that kill or hang the CEL library when it runs natively. Here each is one fault with a place, or an outcome.

use super::support::{Cell, compile, evaluate, faults, household, person};
use daftar_cel::diagnostic::Fault;
use daftar_cel::evaluate::Budget;
use daftar_cel::limits::{DEPTH_MAX, NESTING_MAX, SOURCE_BYTES_MAX};
use daftar_cel::rule::EvaluationFault;

fn fault(expression: &str) -> Fault {
    let found = faults(expression);
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].fault
}

#[test]
fn chains_that_overflow_the_parsers_stack_are_refused_before_it_runs() {
    for expression in [
        format!("1{} > 0", "+1".repeat(1_449)),
        format!("'a'{} == 1", ".size()".repeat(1_100)),
        format!("me{} == 1", "['a']".repeat(1_450)),
        format!("me{}", ".a".repeat(4_000)),
    ] {
        assert_eq!(fault(&expression), Fault::TooDeep, "{}", &expression[..20]);
    }
}

#[test]
fn expressions_beyond_the_length_bound_are_refused() {
    for expression in [
        format!("me{}", ".a".repeat(5_000)),
        "@#$".repeat(10_000),
        format!("'a'.matches('{}')", "a?".repeat(1_000_000)),
        format!("{}1 2", " ".repeat(70_000)),
    ] {
        assert_eq!(fault(&expression), Fault::TooLong);
    }
}

#[test]
fn garbage_is_refused_at_its_first_character() {
    let garbage = "@#$".repeat(SOURCE_BYTES_MAX / 3);
    let found = faults(&garbage);
    assert_eq!((found[0].fault, found[0].span.start, found[0].span.end), (Fault::Syntax, 0, 1));
}

#[test]
fn brackets_and_ternaries_nest_to_the_bound() {
    let depth = NESTING_MAX as usize;
    let nested = |depth: usize| format!("{}me.active{}", "(".repeat(depth), ")".repeat(depth));
    compile(&nested(depth));
    assert_eq!(fault(&nested(depth + 1)), Fault::TooDeep);
    assert_eq!(fault(&nested(4_000)), Fault::TooDeep);
    let ternaries = |depth: usize| format!("{}true", "me.active?true:".repeat(depth));
    compile(&ternaries(depth));
    assert_eq!(fault(&ternaries(depth + 1)), Fault::TooDeep);
    assert_eq!(fault(&ternaries(500)), Fault::TooDeep);
}

#[test]
fn chains_run_to_the_bound_from_text_to_outcome() {
    let sum = format!("1{} > 0", "+1".repeat(DEPTH_MAX as usize - 1));
    assert!(evaluate(&compile(&sum), &[person(Vec::new())]).is_ok());
    let conjunction = vec!["me.active"; 600].join(" && ");
    assert!(evaluate(&compile(&conjunction), &[person(Vec::new())]).is_ok());
    let nots = format!("{}me.active", "!".repeat(DEPTH_MAX as usize - 1));
    assert!(evaluate(&compile(&nots), &[person(Vec::new())]).is_ok());
}

#[test]
fn texts_that_double_themselves_exhaust_their_budget() {
    let expression = format!("['aaaaaaaaaaaaaaaa']{}.size() > 0", ".map(x, x + x)".repeat(28));
    let rule = compile(&expression);
    assert_eq!(evaluate(&rule, &[person(Vec::new())]), Err(EvaluationFault::Exhausted(Budget::TextBytes)));
}

#[test]
fn lists_that_double_themselves_exhaust_their_budget() {
    let expression = format!("[[1, 2]]{}.size() > 0", ".map(x, x + x)".repeat(20));
    let rule = compile(&expression);
    assert_eq!(evaluate(&rule, &[person(Vec::new())]), Err(EvaluationFault::Exhausted(Budget::ListItems)));
    let members = vec![vec![("dependants", Cell::Integer(1))]; 10_001];
    let rule = compile("members.map(m, m.dependants).size() > 0");
    assert_eq!(evaluate(&rule, &[household(members)]), Err(EvaluationFault::Exhausted(Budget::ListItems)));
}

#[test]
fn patterns_that_explode_elsewhere_run_in_time() {
    let rule = compile("'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!'.matches('(a+)+$')");
    assert!(evaluate(&rule, &[person(Vec::new())]).is_ok());
    assert_eq!(fault("me.district.matches('a{1000}{1000}{1000}')"), Fault::InvalidLiteral);
}

#[test]
fn fields_and_questions_are_bounded() {
    let groups: Vec<String> = (0..63).map(|number| format!("in_group(me.gender, 'g{number}')")).collect();
    assert_eq!(fault(&groups.join("||")), Fault::TooMany);
    compile(&groups[..62].join("||"));
}
