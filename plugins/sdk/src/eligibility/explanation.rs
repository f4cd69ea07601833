//! Builders of summaries and explanations.

use super::{Cost, Explained, ExplainedValue, RowOutcome, SeenFact, Summary};

/// The assumed number of items of a list in cost estimates, so that the costs of all engines are comparable.
pub const COST_LIST_ITEMS: u32 = 100;

impl Summary {
    /// A boolean rule with a constant number of steps.
    ///
    /// ```
    /// use daftar_sdk::eligibility::Summary;
    ///
    /// let summary = Summary::truth_of_steps(3);
    /// assert_eq!((summary.result_type.as_str(), summary.cost.steps_max), ("bool", 3));
    /// ```
    pub fn truth_of_steps(steps: u64) -> Self {
        let cost = Cost { steps_min: steps, steps_max: steps, list_items: COST_LIST_ITEMS };
        Self { result_type: "bool".to_owned(), cost }
    }
}

impl Explained {
    /// The whole of an expression with this outcome.
    ///
    /// ```
    /// use daftar_sdk::eligibility::{Explained, ExplainedValue, RowOutcome};
    ///
    /// let whole = Explained::whole("active", &RowOutcome::of(None, "me.active"));
    /// assert!(matches!(whole.value, ExplainedValue::Unknown));
    /// assert_eq!((whole.end, whole.missing), (6, vec!["me.active".to_owned()]));
    /// ```
    pub fn whole(expression: &str, outcome: &RowOutcome) -> Self {
        let (value, mut missing) = match outcome {
            RowOutcome::Eligible => (ExplainedValue::Boolean(true), Vec::new()),
            RowOutcome::NotEligible => (ExplainedValue::Boolean(false), Vec::new()),
            RowOutcome::Undetermined(facts) => (ExplainedValue::Unknown, facts.clone()),
        };
        missing.sort();
        missing.dedup();
        let end = u32::try_from(expression.len()).unwrap_or(u32::MAX);
        Self { parent: None, start: 0, end, item: None, value, missing, error: None, seen: Vec::new() }
    }

    /// Adds a boolean fact that it read.
    pub fn seeing_truth(mut self, fact: &str, truth: Option<bool>) -> Self {
        let value = truth.map_or(ExplainedValue::Unknown, ExplainedValue::Boolean);
        self.seen.push(SeenFact { name: fact.to_owned(), value });
        self
    }
}
