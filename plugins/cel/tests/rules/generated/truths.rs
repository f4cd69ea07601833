//! Generated boolean rules and their parts, except values.

use super::{Item, Maker};

impl Maker<'_> {
    pub(super) fn truth(&mut self, depth: u32) -> String {
        let simple = 18;
        match self.choose(if depth == 0 { simple } else { simple + 17 }) {
            0 => {
                self.uses("boolean");
                self.one_of(&["me.active", "me.insured"]).into()
            }
            1 => {
                self.uses("constant");
                self.one_of(&["true", "false"]).into()
            }
            2 => {
                self.uses("has");
                let field = self.field("district", "birth_date", "program");
                match field {
                    Some(field) => format!("has({field})"),
                    None => "has(me.rooms)".into(),
                }
            }
            3 => {
                let person = self.person();
                self.uses("is_alive");
                format!("is_alive({person})")
            }
            4 | 5 => {
                let person = self.person();
                self.uses("person");
                let helper = self.one_of(&["is_female", "is_male", "is_pregnant"]);
                format!("{helper}({person})")
            }
            6 => {
                let code = self.code(depth);
                self.uses("group");
                let group = self.one_of(&["filled", "head_of_household", "not_filled"]);
                format!("in_group({code}, '{group}')")
            }
            7 | 8 => {
                let (left, operator, right) = (self.integer(depth), self.comparison(), self.integer(depth));
                format!("{left} {operator} {right}")
            }
            9 => {
                let (left, operator, right) = (self.number(depth), self.comparison(), self.number(depth));
                format!("{left} {operator} {right}")
            }
            10 => {
                let (left, operator, right) = (self.integer(depth), self.comparison(), self.number(depth));
                format!("{left} {operator} {right}")
            }
            11 | 12 => {
                let (left, operator, right) = (self.date(depth), self.comparison(), self.date(depth));
                format!("{left} {operator} {right}")
            }
            13 => {
                let (left, operator, right) = (self.text(depth), self.comparison(), self.text(depth));
                format!("{left} {operator} {right}")
            }
            14 => {
                let (left, right) = (self.code(depth), self.code(depth));
                let (name, operator) = if self.choose(2) == 0 { ("equal", "==") } else { ("not_equal", "!=") };
                self.uses(name);
                format!("{left} {operator} {right}")
            }
            15 => {
                let date = self.date(0);
                let operator = self.comparison();
                let (function, construct) =
                    if self.choose(3) > 0 { ("age_years", "age") } else { ("days_since", "days_since") };
                self.uses(construct);
                let number = self.one_of(&["18", "60", "0", "17", "66", "1"]);
                format!("{function}({date}) {operator} {number}")
            }
            16 => {
                let (text, other) = (self.text(depth), self.text(0));
                let (name, test) = [("starts_with", "startsWith"), ("ends_with", "endsWith"), ("contains", "contains")]
                    [self.choose(3)];
                self.uses(name);
                format!("{text}.{test}({other})")
            }
            17 => {
                self.uses("between");
                match self.choose(4) {
                    0 => format!("between(age_years({}), 18, 59)", self.date(0)),
                    1 => format!("between({}, date('1960-01-01'), {})", self.date(0), self.date(0)),
                    2 => format!("between({}, 0, {})", self.number(0), self.number(0)),
                    _ => format!("between({}, {}, 3)", self.integer(0), self.integer(0)),
                }
            }
            18 | 19 => self.joined("and", "&&", depth),
            20 | 21 => self.joined("or", "||", depth),
            22 => {
                self.uses("not");
                format!("!({})", self.truth(depth - 1))
            }
            23 => {
                self.uses("conditional");
                format!("({} ? {} : {})", self.truth(depth - 1), self.truth(depth - 1), self.truth(depth - 1))
            }
            24 => {
                let (left, operator) = (self.truth(depth - 1), self.comparison());
                format!("(({left}) {operator} ({}))", self.truth(depth - 1))
            }
            25..=29 => {
                let (name, macro_name) =
                    [("exists", "exists"), ("all", "all"), ("exists_one", "exists_one")][self.choose(3)];
                self.uses(name);
                if !self.scope.is_empty() {
                    self.uses("nested");
                }
                let (list, item) = self.list(depth - 1);
                let (variable, body) = self.body(item, depth - 1);
                format!("{list}.{macro_name}({variable}, {body})")
            }
            30 => {
                self.uses("in_list");
                match self.choose(3) {
                    0 => format!("{} in [1, {}, 3]", self.integer(0), self.integer(0)),
                    1 => format!("{} in ['north', {}]", self.text(0), self.text(0)),
                    _ => format!("{} in [1.5, 5000, {}]", self.number(0), self.number(0)),
                }
            }
            31 => {
                self.uses("in_registry");
                if self.choose(2) == 0 {
                    format!("{} in me.languages", self.code(0))
                } else {
                    format!("{} in me.tags", self.text(0))
                }
            }
            32 => {
                // Parts that only rows support.
                let text = self.text(0);
                let integer = self.integer(0);
                let rows = [
                    format!("{text}.matches('^n.*h$')"),
                    format!("[1, 2].exists(x, x == {integer})"),
                    "me.?rooms.orValue(0) > 1".into(),
                    format!("{text} + 'a' == 'northa'"),
                    "me.languages[1] == code('urn:lang#ar')".into(),
                    "members.map(m, age_years(m.birth_date)).exists(a, a > 60)".into(),
                ];
                rows[self.choose(6)].clone()
            }
            _ => self.truth(depth - 1),
        }
    }

    pub(super) fn joined(&mut self, name: &'static str, operator: &str, depth: u32) -> String {
        self.uses(name);
        let left = self.truth(depth - 1);
        format!("({left} {operator} {})", self.truth(depth - 1))
    }

    pub(super) fn comparison(&mut self) -> &'static str {
        let (name, operator) = [
            ("less", "<"),
            ("equal", "=="),
            ("greater_or_equal", ">="),
            ("not_equal", "!="),
            ("greater", ">"),
            ("less_or_equal", "<="),
        ][self.choose(6)];
        self.uses(name);
        operator
    }

    /// A list with the kind of its items, optionally filtered.
    pub(super) fn list(&mut self, depth: u32) -> (String, Item) {
        let address = self.variable(&[Item::Address]);
        let (list, item) = match (self.choose(if address.is_some() { 7 } else { 6 }), address) {
            (0 | 1, _) => ("members".to_owned(), Item::Member),
            (2, _) => ("me.address".to_owned(), Item::Address),
            (3, _) => ("me.languages".to_owned(), Item::Language),
            (4, _) => ("me.tags".to_owned(), Item::Text),
            (6, Some(address)) => (format!("{address}.line"), Item::Text),
            (_, _) => ("programs".to_owned(), Item::Program),
        };
        if depth > 0 && self.choose(3) == 2 {
            self.uses("filtered");
            let (variable, body) = self.body(item, depth - 1);
            return (format!("{list}.filter({variable}, {body})"), item);
        }
        (list, item)
    }

    pub(super) fn body(&mut self, item: Item, depth: u32) -> (String, String) {
        let variable = format!("x{}", self.scope.len());
        self.scope.push((variable.clone(), item));
        let body = self.truth(depth);
        self.scope.pop();
        (variable, body)
    }

    /// With probability one half, an enclosing variable of one of those kinds.
    pub(super) fn variable(&mut self, of: &[Item]) -> Option<String> {
        let fitting: Vec<_> = self.scope.iter().filter(|(_, item)| of.contains(item)).cloned().collect();
        if fitting.is_empty() || self.choose(4) == 3 {
            return None;
        }
        let (name, _) = &fitting[self.choose(fitting.len())];
        if Some(name) != self.scope.last().map(|(name, _)| name) {
            self.uses("outer");
        }
        Some(name.clone())
    }

    /// A field of an enclosing item, by its kind.
    pub(super) fn field(&mut self, of_address: &str, of_member: &str, of_program: &str) -> Option<String> {
        let name = self.variable(&[Item::Address, Item::Member, Item::Program])?;
        let item = self.scope.iter().find(|(other, _)| *other == name).map(|(_, item)| *item)?;
        let field = match item {
            Item::Address => of_address,
            Item::Member => of_member,
            Item::Program => of_program,
            Item::Language | Item::Text => return None,
        };
        Some(format!("{name}.{field}"))
    }

    pub(super) fn person(&mut self) -> String {
        self.variable(&[Item::Member]).unwrap_or_else(|| "me".into())
    }
}
