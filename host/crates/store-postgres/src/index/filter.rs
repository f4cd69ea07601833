//! Conditions on the rows of one kind of record, all of which must be met.
//!
//! **Invariant:** no text of a caller is part of a statement: every value is a parameter, so there are few statements
//! and each is prepared once.

use std::collections::BTreeSet;

use tokio_postgres::types::ToSql;

use super::row::key;
use super::sees::Sight;
use super::term::{self, Wanted, quoted};
use super::time::{Day, Instant};
use crate::copy::{Cell, cell, values};
use daftar_domain::calendar::days_since_epoch;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::RecordId;
use daftar_domain::scope::Resource;
use daftar_domain::search::instant::InstantCondition;
use daftar_domain::search::{
    CodeCondition, DateCondition, DateConditions, DateOperator, PlaceCondition, TextConditions,
};

/// A query in terms of the rows of a table, which a statement calls `p`.
pub(super) struct Filter<'p> {
    resource: Resource,
    pub(super) parameters: &'p mut Parameters,
    /// Queries that the terms must match.
    queries: Vec<String>,
    conditions: Vec<String>,
    /// The fields that conditions check.
    fields: BTreeSet<String>,
    /// True if the filter can match nothing.
    is_impossible: bool,
}

impl<'p> Filter<'p> {
    pub(super) fn new(resource: Resource, parameters: &'p mut Parameters) -> Self {
        Self {
            resource,
            parameters,
            queries: Vec::new(),
            conditions: Vec::new(),
            fields: BTreeSet::new(),
            is_impossible: false,
        }
    }

    /// A condition that checks a field, or only data that is never hidden.
    pub(super) fn push(&mut self, condition: String, field: Option<&str>) {
        self.conditions.push(condition);
        self.fields.extend(field.map(str::to_owned));
    }

    /// The first conditions of individuals and groups alike.
    pub(super) fn common(
        &mut self,
        codes: &[CodeCondition],
        texts: &TextConditions,
        active: Option<bool>,
        dates: &DateConditions,
    ) {
        self.codes(codes);
        self.texts(texts);
        self.active(active);
        dates.iter().for_each(|(field, conditions)| self.day(field, conditions));
    }

    fn codes(&mut self, conditions: &[CodeCondition]) {
        for condition in conditions {
            let mut codes: Vec<String> =
                condition.any_of.iter().map(|number| quoted(&term::of_code_at(&condition.field, *number))).collect();
            codes.sort_unstable();
            codes.dedup();
            self.is_impossible |= codes.is_empty();
            self.queries.push(term::any_of(&codes));
            self.fields.insert(condition.field.field().into_owned());
        }
    }

    pub(super) fn identifiers(&mut self, keys: &[IdentifierKey]) {
        self.queries.extend(keys.iter().map(|key| quoted(&term::of_identifier(key))));
    }

    fn texts(&mut self, texts: &TextConditions) {
        let wanted = Wanted::of_texts(texts);
        if wanted.is_empty() {
            return;
        }
        self.fields.extend(texts.fields().into_iter().map(str::to_owned));
        // PostgreSQL stores no such text.
        self.is_impossible |= wanted.iter().any(|wanted| wanted.term.contains('\0'));
        let more = quoted(term::MORE);
        for wanted in &wanted {
            self.queries.push(match wanted.query() {
                Some(query) => format!("({query} | {more})"),
                None => more.clone(),
            });
        }
        let queries = self.parameters.bind(wanted.iter().map(Wanted::query).collect::<Vec<_>>(), "text[]");
        let terms = self.parameters.bind(wanted.iter().map(|wanted| wanted.term.clone()).collect::<Vec<_>>(), "text[]");
        let beginnings =
            self.parameters.bind(wanted.iter().map(|wanted| wanted.is_beginning).collect::<Vec<_>>(), "boolean[]");
        // A record with more words than fit has each wanted word either among its terms or in the other column.
        self.conditions.push(format!(
            "(p.more_words IS NULL OR NOT EXISTS (\
             SELECT FROM unnest({queries}, {terms}, {beginnings}) AS w(query, term, is_beginning) \
             WHERE NOT coalesce(p.terms @@ w.query::tsquery, false) AND NOT EXISTS (\
             SELECT FROM unnest(p.more_words) AS m(word) \
             WHERE CASE WHEN w.is_beginning THEN starts_with(m.word, w.term) ELSE m.word = w.term END)))"
        ));
    }

    fn active(&mut self, active: Option<bool>) {
        match active {
            None => return,
            Some(true) => self.conditions.push("NOT p.is_inactive".to_owned()),
            Some(false) => self.queries.push(quoted(term::INACTIVE)),
        }
        self.fields.insert("active".to_owned());
    }

    /// Conditions on a day, whose column has the name of its field.
    fn day(&mut self, field: &'static str, conditions: &[DateCondition]) {
        let (mut least, mut most, mut excluded) = (i32::MIN, i32::MAX, Vec::new());
        for condition in conditions {
            let day = days_since_epoch(condition.date);
            match condition.operator {
                DateOperator::Equal => (least, most) = (least.max(day), most.min(day)),
                DateOperator::NotEqual => excluded.push(Day(day)),
                DateOperator::After => least = least.max(day.saturating_add(1)),
                DateOperator::OnOrAfter => least = least.max(day),
                DateOperator::Before => most = most.min(day.saturating_sub(1)),
                DateOperator::OnOrBefore => most = most.min(day),
            }
        }
        let (least, most) = (self.parameters.bind(Day(least), "date"), self.parameters.bind(Day(most), "date"));
        self.push(format!("p.{field} BETWEEN {least} AND {most}"), Some(field));
        if !excluded.is_empty() {
            let excluded = self.parameters.bind(excluded, "date[]");
            self.conditions.push(format!("p.{field} <> ALL({excluded})"));
        }
    }

    pub(super) fn last_updated(&mut self, conditions: &[InstantCondition]) {
        if conditions.is_empty() {
            return;
        }
        let (mut least, mut most) = (i64::MIN, i64::MAX);
        let (mut firsts, mut lasts) = (Vec::new(), Vec::new());
        for condition in conditions {
            let (first, last) = (condition.first_ms, condition.last_ms);
            match condition.operator {
                DateOperator::Equal => (least, most) = (least.max(first), most.min(last)),
                DateOperator::NotEqual => {
                    firsts.push(Instant(first));
                    lasts.push(Instant(last));
                }
                DateOperator::After => least = least.max(last.saturating_add(1)),
                DateOperator::OnOrAfter => least = least.max(first),
                DateOperator::Before => most = most.min(first.saturating_sub(1)),
                DateOperator::OnOrBefore => most = most.min(last),
            }
        }
        let (least, most) = (Instant(least), Instant(most));
        let (least, most) = (self.parameters.bind(least, "timestamptz"), self.parameters.bind(most, "timestamptz"));
        self.push(format!("p.last_updated BETWEEN {least} AND {most}"), None);
        if !firsts.is_empty() {
            let firsts = self.parameters.bind(firsts, "timestamptz[]");
            let lasts = self.parameters.bind(lasts, "timestamptz[]");
            self.conditions.push(format!(
                "NOT EXISTS (SELECT FROM unnest({firsts}, {lasts}) AS not_in(first, last) \
                 WHERE p.last_updated BETWEEN not_in.first AND not_in.last)"
            ));
        }
    }

    /// Requires that one of these individuals is a member of the group on a day.
    pub(super) fn member(&mut self, people: &[RecordId], day: i32) {
        let people: Vec<i64> = people.iter().map(|person| key(*person)).collect();
        let (people, day) = (self.parameters.bind(people, "bigint[]"), self.parameters.bind(Day(day), "date"));
        let condition = format!(
            "EXISTS (SELECT FROM daftar.search_member AS m WHERE m.group_id = p.id AND m.individual = ANY({people}) \
             AND NOT m.is_set_aside AND m.first_day <= {day} AND m.last_day >= {day})"
        );
        self.push(condition, Some("member"));
    }

    /// Requires a membership in a group, among the groups that the client can see with their members.
    pub(super) fn place(&mut self, place: &PlaceCondition, sight: Option<&Sight>) {
        let day = self.parameters.bind(Day(place.day), "date");
        let mut counted = format!(
            "SELECT FROM daftar.search_member AS m WHERE m.individual = p.id AND NOT m.is_set_aside \
             AND m.first_day <= {day} AND m.last_day >= {day}"
        );
        if let Some(sight) = sight {
            let opens = sight.opens(Resource::Group, "m.group_id", Some("member"), self.parameters);
            counted.push_str(&format!(" AND {opens}"));
        }
        self.fields.insert("group_membership".to_owned());
        if place.is_none {
            self.is_impossible |= !(place.groups.is_empty() && place.roles.is_empty());
            self.conditions.push(format!("NOT EXISTS ({counted})"));
            return;
        }
        for roles in &place.roles {
            let roles: Vec<i64> = roles.iter().map(|role| i64::from(role.0)).collect();
            counted.push_str(&format!(" AND m.role = ANY({})", self.parameters.bind(roles, "bigint[]")));
        }
        if place.groups.is_empty() {
            self.conditions.push(format!("EXISTS ({counted})"));
        }
        for groups in &place.groups {
            let groups: Vec<i64> = groups.iter().map(|group| key(*group)).collect();
            let groups = self.parameters.bind(groups, "bigint[]");
            self.conditions.push(format!("EXISTS ({counted} AND m.group_id = ANY({groups}))"));
        }
    }

    /// Returns all conditions; `None` if nothing can match.
    pub(super) fn finish(mut self, sight: Option<&Sight>) -> Option<Vec<String>> {
        if self.is_impossible {
            return None;
        }
        if !self.queries.is_empty() {
            let query = self.parameters.bind(self.queries.join(" & "), "text");
            self.conditions.push(format!("p.terms @@ {query}::tsquery"));
        }
        if let Some(sight) = sight {
            for field in &self.fields {
                let opens = sight.opens(self.resource, "p.id", Some(field), self.parameters);
                self.conditions.push(opens);
            }
            if self.fields.is_empty() {
                let opens = sight.opens(self.resource, "p.id", None, self.parameters);
                self.conditions.push(opens);
            }
        }
        Some(self.conditions)
    }
}

/// Values of a statement.
#[derive(Default)]
pub(super) struct Parameters(Vec<Cell<'static>>);

impl Parameters {
    /// Adds a value of a type, and returns its name in the statement.
    pub(super) fn bind(&mut self, value: impl ToSql + Sync + Send + 'static, of_type: &str) -> String {
        self.0.push(cell(value));
        format!("${}::{of_type}", self.0.len())
    }

    /// The values, in the order of their names.
    pub(super) fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        values(&self.0)
    }
}
