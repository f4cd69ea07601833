//! Numbers, days, texts and codes.

use super::{Item, Maker};

impl Maker<'_> {
    pub(super) fn integer(&mut self, depth: u32) -> String {
        self.uses("integer");
        match self.choose(if depth == 0 { 6 } else { 15 }) {
            0 => self.one_of(&["1", "2", "0", "3", "60", "-1", "9007199254740993", "9223372036854775807"]).into(),
            1 => "me.rooms".into(),
            2 => "me.dependants".into(),
            3 | 4 => self.variable(&[Item::Member]).map_or("me.rooms".into(), |member| format!("{member}.dependants")),
            5 => {
                self.uses("length");
                format!("size({})", self.text(0))
            }
            6 => {
                self.uses("age");
                format!("age_years({})", self.date(depth - 1))
            }
            7 => {
                self.uses("days_since");
                format!("days_since({})", self.date(depth - 1))
            }
            8 | 9 => {
                self.uses("count");
                let (list, _) = self.list(depth - 1);
                if list.contains(".filter(") {
                    self.uses("filter");
                }
                format!("size({list})")
            }
            10 | 11 => {
                self.uses("arithmetic");
                let (left, right) = (self.integer(depth - 1), self.integer(depth - 1));
                let operator = self.one_of(&["+", "-", "*", "/", "%"]);
                format!("({left} {operator} {right})")
            }
            12 => {
                self.uses("negate");
                format!("(-({}))", self.integer(depth - 1))
            }
            13 => {
                self.uses("to_integer");
                if self.choose(2) == 0 {
                    format!("int({})", self.number(depth - 1))
                } else {
                    format!("int({})", self.text(depth - 1))
                }
            }
            _ => {
                self.uses("conditional");
                format!("({} ? {} : {})", self.truth(depth - 1), self.integer(depth - 1), self.integer(depth - 1))
            }
        }
    }

    pub(super) fn number(&mut self, depth: u32) -> String {
        self.uses("number");
        match self.choose(if depth == 0 { 2 } else { 7 }) {
            0 => "me.income.amount".into(),
            1 => self.one_of(&["5000.0", "0.0", "1.5", "-2.5", "1.0e308"]).into(),
            2 => {
                self.uses("to_number");
                format!("double({})", self.integer(depth - 1))
            }
            3 | 4 => {
                self.uses("arithmetic");
                let (left, right) = (self.number(depth - 1), self.number(depth - 1));
                let operator = self.one_of(&["+", "-", "*", "/"]);
                format!("({left} {operator} {right})")
            }
            5 => {
                self.uses("negate");
                format!("(-({}))", self.number(depth - 1))
            }
            _ => {
                self.uses("conditional");
                format!("({} ? {} : {})", self.truth(depth - 1), self.number(depth - 1), self.number(depth - 1))
            }
        }
    }

    pub(super) fn date(&mut self, depth: u32) -> String {
        self.uses("date");
        match self.choose(if depth == 0 { 6 } else { 8 }) {
            0 => "me.birth_date".into(),
            1 => "me.deceased_date".into(),
            2 => self.one_of(&["date('1966-03-01')", "date('2008-02-29')", "date('1960-02-29')"]).into(),
            3 => self.one_of(&["as_of", "today()"]).into(),
            4 | 5 => self
                .field("district", "birth_date", "enrollment_date")
                .filter(|field| field.ends_with("_date"))
                .unwrap_or_else(|| "me.birth_date".into()),
            6 => {
                self.uses("parse_date");
                format!("date({})", self.field_text())
            }
            _ => {
                self.uses("conditional");
                format!("({} ? {} : {})", self.truth(depth - 1), self.date(depth - 1), self.date(depth - 1))
            }
        }
    }

    /// A text that is not a literal.
    pub(super) fn field_text(&mut self) -> String {
        self.one_of(&["me.district", "me.name.given", "me.name.family"]).into()
    }

    pub(super) fn text(&mut self, depth: u32) -> String {
        match self.choose(if depth == 0 { 5 } else { 7 }) {
            0 | 1 => self.field_text(),
            2 => self.one_of(&["'north'", "'n'", "''", "'é'", "'12'", "'2'"]).into(),
            3 => {
                let item = self.variable(&[Item::Text]);
                if item.is_some() {
                    self.uses("item");
                }
                item.unwrap_or_else(|| "me.district".into())
            }
            4 => self
                .field("district", "birth_date", "program")
                .filter(|field| !field.ends_with("_date"))
                .unwrap_or_else(|| "me.name.family".into()),
            5 => {
                self.uses("code_text");
                let part = self.one_of(&["code", "uri", "display", "namespace"]);
                format!("{}.{part}", self.one_of(&["me.gender", "me.pregnancy_status"]))
            }
            _ => {
                self.uses("conditional");
                format!("({} ? {} : {})", self.truth(depth - 1), self.text(depth - 1), self.text(depth - 1))
            }
        }
    }

    pub(super) fn code(&mut self, depth: u32) -> String {
        self.uses("code");
        match self.choose(if depth == 0 { 5 } else { 6 }) {
            0 => "me.gender".into(),
            1 => {
                self.one_of(&["code('urn:iso:std:iso:5218#2')", "code('urn:lang#ar')", "code('urn:role#head')"]).into()
            }
            2 => self.variable(&[Item::Member]).map_or("me.gender".into(), |member| format!("{member}.gender")),
            3 => self.variable(&[Item::Member]).map_or("me.gender".into(), |member| format!("{member}.role")),
            4 => {
                let item = self.variable(&[Item::Language]);
                if item.is_some() {
                    self.uses("item");
                }
                item.unwrap_or_else(|| "me.pregnancy_status".into())
            }
            _ => {
                self.uses("conditional");
                format!("({} ? {} : {})", self.truth(depth - 1), self.code(depth - 1), self.code(depth - 1))
            }
        }
    }
}
