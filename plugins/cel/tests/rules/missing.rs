//! Every operation with each of its operands missing, and the resulting missing facts.

use super::support::{Case, Cell, FEMALE, PREGNANT, Record, ask, household, person};

/// The fields of a subject with all facts that the tables use.
fn record() -> Record {
    vec![
        ("active", Cell::Boolean(true)),
        ("dependants", Cell::Integer(3)),
        ("rooms", Cell::Integer(2)),
        ("income.amount", Cell::Number(99.5)),
        ("district", Cell::Text("north")),
        ("name.family", Cell::Text("or")),
        ("birth_date", Cell::Day("1960-01-01")),
        ("deceased_date", Cell::Day("2025-01-01")),
        ("gender", Cell::Code(FEMALE)),
        ("pregnancy_status", Cell::Code(PREGNANT)),
        ("tags", Cell::List(vec![Cell::Text("a"), Cell::Text("b"), Cell::Text("c"), Cell::Text("d")])),
    ]
}

fn without(missing: &[&str]) -> Case {
    person(record().into_iter().filter(|(path, _)| !missing.contains(path)).collect())
}

/// All subsets of some fields.
fn choices<'f>(fields: &[&'f str]) -> Vec<Vec<&'f str>> {
    (0..1_usize << fields.len())
        .map(|chosen| {
            fields.iter().enumerate().filter(|(bit, _)| chosen >> bit & 1 == 1).map(|(_, field)| *field).collect()
        })
        .collect()
}

/// Operations that need all operands: all missing operands are reported, and nothing else.
#[test]
fn strict_operations_report_all_missing_facts() {
    let mut table: Vec<(String, Vec<&str>)> = Vec::new();
    for operator in ["==", "!=", "<", "<=", ">", ">="] {
        table.push((format!("me.dependants {operator} me.rooms"), vec!["dependants", "rooms"]));
        table.push((format!("me.income.amount {operator} me.rooms"), vec!["income.amount", "rooms"]));
        table.push((format!("me.district {operator} me.name.family"), vec!["district", "name.family"]));
        table.push((format!("me.birth_date {operator} me.deceased_date"), vec!["birth_date", "deceased_date"]));
    }
    for operator in ["+", "-", "*", "/", "%"] {
        table.push((format!("me.dependants {operator} me.rooms == 1"), vec!["dependants", "rooms"]));
    }
    for method in ["contains", "startsWith", "endsWith", "matches", "indexOf"] {
        let is_number = if method == "indexOf" { " == 1" } else { "" };
        table.push((format!("me.district.{method}(me.name.family){is_number}"), vec!["district", "name.family"]));
    }
    for (expression, fields) in [
        ("me.gender == me.pregnancy_status", vec!["gender", "pregnancy_status"]),
        ("me.gender.code == me.pregnancy_status.uri", vec!["gender", "pregnancy_status"]),
        ("-me.dependants < me.rooms", vec!["dependants", "rooms"]),
        ("between(me.dependants, me.rooms, 9)", vec!["dependants", "rooms"]),
        ("between(me.dependants, 1, me.rooms + 9)", vec!["dependants", "rooms"]),
        ("me.tags[me.dependants] == 'd'", vec!["tags", "dependants"]),
        ("me.dependants in [1, me.rooms]", vec!["dependants", "rooms"]),
        ("me.district in me.tags", vec!["district", "tags"]),
        ("me.district + me.name.family == 'x'", vec!["district", "name.family"]),
        ("[me.dependants, me.rooms] == [3, 2]", vec!["dependants", "rooms"]),
        ("{'a': me.dependants, 'b': me.rooms} == {'a': 1}", vec!["dependants", "rooms"]),
        ("{me.district: me.rooms}.north == 2", vec!["district", "rooms"]),
        ("{'north': 1}[me.district] == me.rooms", vec!["district", "rooms"]),
        ("math.greatest(me.dependants, me.rooms) == 3", vec!["dependants", "rooms"]),
        ("'%d %d'.format([me.dependants, me.rooms]) == 'x'", vec!["dependants", "rooms"]),
        ("age_years(me.birth_date) > days_since(me.deceased_date)", vec!["birth_date", "deceased_date"]),
        ("me.birth_date.getFullYear() == me.rooms", vec!["birth_date", "rooms"]),
        ("timestamp(me.birth_date) < timestamp(me.deceased_date)", vec!["birth_date", "deceased_date"]),
        ("string(me.dependants) + me.district == 'x'", vec!["dependants", "district"]),
        ("double(me.dependants) < me.income.amount", vec!["dependants", "income.amount"]),
        ("size(me.district) == me.tags.size()", vec!["district", "tags"]),
        ("date(string(me.birth_date)) == me.deceased_date", vec!["birth_date", "deceased_date"]),
        ("is_female(me) == is_pregnant(me.gender)", vec!["gender"]),
        ("in_group(me.pregnancy_status, 'filled') == (me.rooms > 1)", vec!["pregnancy_status", "rooms"]),
        ("descends_from(me.gender, 'urn:lang#ar') == me.active", vec!["gender", "active"]),
        ("dyn(me.dependants) == me.rooms", vec!["dependants", "rooms"]),
        ("cel.bind(d, me.dependants, d + me.rooms == 5)", vec!["dependants", "rooms"]),
    ] {
        table.push((expression.to_owned(), fields));
    }
    for (expression, fields) in table {
        for missing in choices(&fields) {
            let message = ask(&expression, &without(&missing));
            if missing.is_empty() {
                assert!(
                    ["yes", "no"].contains(&message.as_str()) || expression.contains("is_pregnant"),
                    "{expression}: {message}"
                );
                continue;
            }
            let mut names: Vec<String> = missing.iter().map(|field| format!("me.{field}")).collect();
            names.sort();
            // An unset concept group may be missing in addition to the fields.
            let message: Vec<&str> = message.split(' ').filter(|name| *name != "pregnant_eligible").collect();
            assert_eq!(message.join(" "), format!("? {}", names.join(" ")), "{expression} without {missing:?}");
        }
    }
}

/// `known` is the value of an operand that is not missing; none is a missing one.
fn kleene(operator: &str, left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (operator, left, right) {
        ("&&", Some(false), _) | ("&&", _, Some(false)) => Some(false),
        ("||", Some(true), _) | ("||", _, Some(true)) => Some(true),
        ("&&", Some(true), Some(true)) => Some(true),
        ("||", Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

#[test]
fn logic_is_kleenes_in_every_position_and_depth() {
    let operands = [("true", Some(true)), ("false", Some(false)), ("me.insured", None)];
    for first in ["&&", "||"] {
        for second in ["&&", "||"] {
            for (a, a_known) in operands {
                for (b, b_known) in operands {
                    for (c, c_known) in operands {
                        let inner = kleene(second, b_known, c_known);
                        let shown = |known: Option<bool>| match known {
                            Some(true) => "yes",
                            Some(false) => "no",
                            None => "? me.insured",
                        };
                        let whole = kleene(first, a_known, inner);
                        let expression = format!("{a} {first} ({b} {second} {c})");
                        assert_eq!(ask(&expression, &person(Vec::new())), shown(whole), "{expression}");
                        let expression = format!("!({a} {first} !(!({b} {second} {c})))");
                        let negated = whole.map(|truth| !truth);
                        assert_eq!(ask(&expression, &person(Vec::new())), shown(negated), "{expression}");
                    }
                }
            }
        }
    }
}

/// Households of up to four members, each of whom matches, does not match, or is unknown.
#[test]
fn quantifiers_say_no_more_and_no_less_than_every_completion_of_the_facts() {
    let states = [Some(true), Some(false), None];
    let mut households: Vec<Vec<Option<bool>>> = vec![Vec::new()];
    for _ in 0..4 {
        let longer: Vec<_> = households
            .iter()
            .flat_map(|members| states.map(|state| members.iter().copied().chain([state]).collect::<Vec<_>>()))
            .collect();
        households.extend(longer);
        households.sort();
        households.dedup();
    }
    type Holds = fn(&[bool]) -> bool;
    let holds: [(&str, Holds); 9] = [
        ("members.exists(m, m.dependants == 1)", |fits| fits.contains(&true)),
        ("members.all(m, m.dependants == 1)", |fits| !fits.contains(&false)),
        ("members.exists_one(m, m.dependants == 1)", |fits| count(fits) == 1),
        ("members.filter(m, m.dependants == 1).size() >= 2", |fits| count(fits) >= 2),
        ("members.filter(m, m.dependants == 1).size() == 1", |fits| count(fits) == 1),
        ("members.filter(m, m.dependants != 1).size() < 2", |fits| fits.len() - count(fits) < 2),
        ("size(members.filter(m, m.dependants == 1)) == size(members)", |fits| count(fits) == fits.len()),
        ("members.exists(i, m, m.dependants == 1)", |fits| fits.contains(&true)),
        ("members.map(m, m.dependants == 1).exists(fit, fit)", |fits| fits.contains(&true)),
    ];
    for members in &households {
        let case = household(
            members
                .iter()
                .map(|state| match state {
                    Some(true) => vec![("dependants", Cell::Integer(1))],
                    Some(false) => vec![("dependants", Cell::Integer(0))],
                    None => Vec::new(),
                })
                .collect(),
        );
        for (expression, hold) in &holds {
            let answers: Vec<bool> = completions(members).iter().map(|fits| hold(fits)).collect();
            let expected = match (answers.contains(&true), answers.contains(&false)) {
                (true, false) => "yes",
                (false, _) => "no",
                (true, true) => "? members.dependants",
            };
            assert_eq!(ask(expression, &case), expected, "{expression} of {members:?}");
        }
    }
}

fn count(fits: &[bool]) -> usize {
    fits.iter().filter(|fits| **fits).count()
}

/// All possible values of the unknown facts.
fn completions(members: &[Option<bool>]) -> Vec<Vec<bool>> {
    members.iter().fold(vec![Vec::new()], |known, state| {
        let states: &[bool] = match state {
            Some(true) => &[true],
            Some(false) => &[false],
            None => &[true, false],
        };
        known
            .iter()
            .flat_map(|members: &Vec<bool>| states.iter().map(|state| [members.as_slice(), &[*state]].concat()))
            .collect()
    })
}
