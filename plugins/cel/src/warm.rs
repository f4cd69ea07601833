//! Precomputes data that every compilation needs, once, when the plugin is built.
//!
//! The parser decodes its tables at the first parse, and builds its prediction cache as it meets grammar rules. An
//! instance lives for one request or one preview, so it would repeat this each time. The host's plugin builder calls the exported
//! function `daftar-initialise` and uses the resulting memory as the plugin's initial memory; the export is then
//! removed.
//!
//! **Invariant:** that memory contains nothing that affects an outcome, only data that the parser would compute itself:
//! compiled rules and their outcomes are the same with and without it.

use crate::rule::Rule;
use crate::schema::{Field, FieldType, Schema, Space, Subject};

/// Expressions that use every construct of the language once, to fill the parser's cache.
const EXPRESSIONS: [&str; 15] = [
    "me.gender == code('urn:x#2') && age_years(me.born) >= 18 && age_years(me.born) < 60",
    "members.exists(m, is_head(m) && age_years(m.born) >= 60)",
    "in_group(me.gender, 'g') && me.amount < 5000.0 || not descends_from(me.gender, 'urn:x#2')",
    "not is_female(me) and (is_male(me) or !is_alive(me)) ? true : false",
    "between(age_years(me.born), 18, 59) and me.born <= date('2000-01-31') or me.born > today()",
    "me.languages.exists(l, l == code('urn:x#ar')) && size(me.languages) > 1 && me.languages[0] != code('urn:x#en')",
    "members.all(m, has(m.born)) || members.exists_one(m, m.gender.code in ['1', '2'])",
    "members.filter(m, is_female(m)).size() >= 2 && members.map(m, age_years(m.born)).exists(a, a > 3)",
    "me.name.startsWith('a') && me.name.endsWith(\"b\") && !me.name.contains('c') && me.name.matches('^d')",
    "(me.rooms + 2 - 1) * 3 / 4 % 5 == -6 && double(me.rooms) * 1.5 > 2.0e3 && string(me.rooms) + 'x' != 'y'",
    "has(me.name) && days_since(me.born) > 10 && as_of == today() && me.gender.display == 'Female'",
    "me.?rooms.orValue(0) > {'a': 1, 'b': 2u}['a'] || [1, 2][?0].hasValue() && null == dyn(b'x')",
    "cel.bind(x, me.rooms, x > 1) && members.exists(i, m, i > 0 && has(m.born)) && {'a-b': true}.`a-b`",
    "me.amount >=",
    "me.unknown == 1 && (",
];

/// Compiles them. Some are invalid on purpose: reporting is part of a compilation.
pub fn up() {
    let schema = schema();
    for expression in EXPRESSIONS {
        drop(Rule::compile(expression, &schema));
    }
}

fn schema() -> Schema {
    let field = |space, path: &str, kind, is_repeated| {
        let vocabularies = if kind == FieldType::Coded { vec!["urn:x".to_owned()] } else { Vec::new() };
        Field { space, path: path.to_owned(), kind, is_repeated, vocabularies }
    };
    let fields = [
        field(Space::Me, "gender", FieldType::Coded, false),
        field(Space::Me, "born", FieldType::Date, false),
        field(Space::Me, "amount", FieldType::Number, false),
        field(Space::Me, "rooms", FieldType::Integer, false),
        field(Space::Me, "name", FieldType::Text, false),
        field(Space::Me, "languages", FieldType::Coded, true),
        field(Space::Members, "gender", FieldType::Coded, false),
        field(Space::Members, "born", FieldType::Date, false),
    ];
    Schema::new(Subject::Individual, fields)
}

#[cfg(target_arch = "wasm32")]
#[expect(unsafe_code, reason = "the builder finds the function by this name; no other symbol has it")]
#[unsafe(export_name = "daftar-initialise")]
extern "C" fn initialise() {
    up();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warming_up_meets_right_and_wrong_expressions() {
        let schema = schema();
        let right = EXPRESSIONS.iter().filter(|expression| Rule::compile(expression, &schema).is_ok()).count();
        // The helpers of people read fields that this small schema does not have; only parsing matters.
        assert!((4..EXPRESSIONS.len()).contains(&right), "{right}");
        up();
    }
}
