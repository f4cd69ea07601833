//! Builders of outcomes and diagnostics.

use std::collections::BTreeMap;

use super::{Diagnostic, Outcomes, Reference, RowSpace, Severity};

/// The outcome of a rule for one subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowOutcome {
    /// The subject is eligible.
    Eligible,
    /// The subject is not eligible.
    NotEligible,
    /// The outcome depends on these missing facts, such as `me.birth_date`.
    Undetermined(Vec<String>),
}

impl RowOutcome {
    /// The outcome of a boolean that may be missing because of one fact.
    ///
    /// ```
    /// use daftar_sdk::eligibility::RowOutcome;
    ///
    /// assert_eq!(RowOutcome::of(Some(true), "me.active"), RowOutcome::Eligible);
    /// assert_eq!(RowOutcome::of(None, "me.active"), RowOutcome::Undetermined(vec!["me.active".to_owned()]));
    /// ```
    pub fn of(truth: Option<bool>, fact: &str) -> Self {
        match truth {
            Some(true) => Self::Eligible,
            Some(false) => Self::NotEligible,
            None => Self::Undetermined(vec![fact.to_owned()]),
        }
    }
}

impl Outcomes {
    /// The outcomes of some rows, in order.
    ///
    /// ```
    /// use daftar_sdk::eligibility::{Outcomes, RowOutcome};
    ///
    /// let facts = vec!["me.gender".to_owned()];
    /// let outcomes = Outcomes::from_rows([RowOutcome::Eligible, RowOutcome::Undetermined(facts)]);
    /// assert_eq!(outcomes.verdicts, [1, 2]);
    /// assert_eq!(outcomes.missing_names, ["me.gender"]);
    /// assert_eq!(outcomes.missing_offsets, [0, 0, 1]);
    /// ```
    pub fn from_rows(rows: impl IntoIterator<Item = RowOutcome>) -> Self {
        let rows: Vec<RowOutcome> = rows.into_iter().collect();
        let mut places: BTreeMap<&str, u32> = BTreeMap::new();
        for row in &rows {
            if let RowOutcome::Undetermined(facts) = row {
                places.extend(facts.iter().map(|fact| (fact.as_str(), 0)));
            }
        }
        // Names are sorted, so that sorted indices are sorted names too.
        for (place, number) in (0..).zip(places.values_mut()) {
            *number = place;
        }
        let mut outcomes = Self {
            verdicts: Vec::with_capacity(rows.len()),
            missing_names: places.keys().map(|name| (*name).to_owned()).collect(),
            missing_offsets: vec![0],
            missing: Vec::new(),
            errors: Vec::new(),
        };
        for row in &rows {
            let (verdict, facts): (u8, &[String]) = match row {
                RowOutcome::NotEligible => (0, &[]),
                RowOutcome::Eligible => (1, &[]),
                RowOutcome::Undetermined(facts) => (2, facts),
            };
            let mut missing: Vec<u32> = facts.iter().filter_map(|fact| places.get(fact.as_str()).copied()).collect();
            missing.sort_unstable();
            missing.dedup();
            outcomes.verdicts.push(verdict);
            outcomes.missing.extend(missing);
            outcomes.missing_offsets.push(u32::try_from(outcomes.missing.len()).unwrap_or(u32::MAX));
        }
        outcomes
    }
}

impl Reference {
    /// A field that is read, without a position.
    pub fn to(space: RowSpace, path: impl Into<String>) -> Self {
        Self { space, path: path.into(), needs_texts: false, line: 1, column: 1, length: 0 }
    }
}

impl Diagnostic {
    /// An error about the whole expression. `code` is a stable name such as `unknown_field`.
    pub fn error(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code: code.into(),
            message: message.into(),
            reason: String::new(),
            parameters: Vec::new(),
            line: 1,
            column: 1,
            length: 0,
            suggestion: None,
        }
    }

    /// Sets the position. Lines and columns count from 1, in characters.
    pub fn at(mut self, line: u32, column: u32, length: u32) -> Self {
        (self.line, self.column, self.length) = (line, column, length);
        self
    }

    /// Sets the stable name of the message and the parts of it that come from the expression and the schema.
    pub fn because(mut self, reason: impl Into<String>, parameters: impl IntoIterator<Item = String>) -> Self {
        (self.reason, self.parameters) = (reason.into(), parameters.into_iter().collect());
        self
    }

    /// Sets a suggested replacement.
    pub fn suggesting(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_facts_are_named_once_and_sorted_in_each_row() {
        let facts = |names: &[&str]| RowOutcome::Undetermined(names.iter().map(|name| (*name).to_owned()).collect());
        let outcomes =
            Outcomes::from_rows([facts(&["me.b", "me.a", "me.b"]), RowOutcome::NotEligible, facts(&["me.c", "me.a"])]);
        assert_eq!(outcomes.verdicts, [2, 0, 2]);
        assert_eq!(outcomes.missing_names, ["me.a", "me.b", "me.c"]);
        assert_eq!(outcomes.missing_offsets, [0, 2, 2, 4]);
        assert_eq!(outcomes.missing, [0, 1, 0, 2]);
    }

    #[test]
    fn no_rows_have_no_outcomes() {
        let outcomes = Outcomes::from_rows([]);
        assert_eq!((outcomes.verdicts.len(), outcomes.missing_offsets), (0, vec![0]));
    }
}
