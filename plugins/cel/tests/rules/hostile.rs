//! Expressions that crash or hang the CEL library when it runs natively. Here each is one fault with a position, or an
//! outcome.

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

#[test]
fn no_argument_of_a_library_makes_the_engine_panic() {
    use daftar_cel::check::Typing;
    use daftar_cel::constant::evaluate;
    let numbers = ["-9223372036854775808", "9223372036854775807", "-1", "0", "64", "1"];
    let mut expressions: Vec<String> = Vec::new();
    for number in numbers {
        for call in [
            "'aé'.substring(N)",
            "'aé'.substring(N, N)",
            "'aé'.charAt(N)",
            "'aé'.indexOf('é', N)",
            "'aé'.lastIndexOf('', N)",
            "'aé'.replace('', 'x', N)",
            "'aé'.split('', N)",
            "[1, 2].slice(N, N)",
            "[[1], [[2]]].flatten(N)",
            "[1, 2][N]",
            "math.bitShiftLeft(1, N)",
            "math.bitShiftRight(1u, N)",
            "math.abs(N)",
            "math.sign(N)",
            "uint(N)",
            "timestamp(N)",
            "duration('1s') + timestamp(N)",
            "string(timestamp(N))",
            "'%d %x %o %b %e %.3f'.format([N, N, N, N, N, N])",
            "N / -1",
            "N % -1",
            "-(N)",
        ] {
            expressions.push(call.replace('N', number));
        }
    }
    for expression in [
        "lists.range(-1)",
        "'%'.format([])",
        "'%d'.format([])",
        "'%z'.format([1])",
        "'%.99999999999f'.format([1.0])",
        "'%s'.format([{'a': [b'x', null, duration('1s')]}])",
        "duration('9223372036854775807h')",
        "duration('é')",
        "duration('')",
        "timestamp('9999-12-31T23:59:59Z') + duration('1s')",
        "timestamp('0001-01-01T00:00:00Z') - duration('1h')",
        "timestamp('9999-12-31T23:59:59Z') - timestamp('0001-01-01T00:00:00Z')",
        "timestamp(0).getHours('Nowhere/Land')",
        "timestamp(0).getHours('+99:99')",
        "timestamp(0).getHours('é')",
        "timestamp(0).getHours('+é:0')",
        "timestamp(0).getHours('')",
        "timestamp(253402300799).getFullYear('Pacific/Kiritimati')",
        "timestamp(-62135596800).getFullYear('America/Adak')",
        "math.round(1e300)",
        "int(1e300)",
        "int('9223372036854775808')",
        "math.sqrt(-1.0)",
        "string(b'\\xff')",
        "base64.decode('é')",
        "math.greatest([])",
        "dyn([1, 'a']).sort()",
        "[[1], [2]].sort()",
        "[1, 2].sortBy(x, [x])",
        "optional.none().value()",
        "{'a': 1}[null]",
        "{1: 1, 1u: 2}",
        "[1].transformMapEntry(i, v, {})",
        "[1].transformMap(i, v, {i: v})",
        "''.matches('\\\\p{Han}{1000}')",
        "strings.quote('\\u0000\\U0001F600')",
    ] {
        expressions.push(expression.to_owned());
    }
    for typing in [Typing::Static, Typing::Dynamic] {
        for expression in &expressions {
            let message = std::panic::catch_unwind(|| drop(evaluate(expression, typing, Vec::new(), "")));
            assert!(message.is_ok(), "{expression} panics");
        }
    }
}
