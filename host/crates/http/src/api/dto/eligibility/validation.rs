//! Bodies of `$validate`.

use serde::Serialize;
use serde_json::{Map, Value};

use super::read_expression;
use crate::api::dto::field::words;
use crate::api::dto::reader::{ObjectReader, Problems};
use crate::api::error::DiagnosticItem;
use daftar_domain::eligibility::Subject;
use daftar_domain::explanation::Cost;
use daftar_service::eligibility::check::Checked;

/// Reads what is to be checked: an expression, and what it decides about.
pub fn read(members: Map<String, Value>, problems: &mut Problems) -> (String, Subject) {
    let mut reader = ObjectReader::root(members);
    let expression = read_expression(&mut reader, problems);
    let subject = reader.word("subject", &words::<Subject>(), problems).unwrap_or(Subject::Individual);
    reader.finish(problems);
    (expression, subject)
}

/// The answer of `$validate`.
#[derive(Debug, Serialize)]
pub struct ValidatedBody<'a> {
    valid: bool,
    result_type: Option<&'a str>,
    references: &'a [String],
    cost: Option<CostBody>,
    diagnostics: Vec<DiagnosticItem<'a>>,
}

#[derive(Debug, Serialize)]
struct CostBody {
    steps_min: u64,
    steps_max: Option<u64>,
    list_items: u32,
}

impl From<Cost> for CostBody {
    fn from(cost: Cost) -> Self {
        // The interface has no greater number: it stands for that or more.
        let steps_max = Some(cost.steps_max).filter(|steps| *steps < u64::MAX);
        Self { steps_min: cost.steps_min, steps_max, list_items: cost.list_items }
    }
}

impl<'a> From<&'a Checked> for ValidatedBody<'a> {
    fn from(checked: &'a Checked) -> Self {
        Self {
            valid: checked.is_valid(),
            result_type: checked.summary.as_ref().map(|summary| summary.result_type.as_str()),
            references: &checked.references,
            cost: checked.summary.as_ref().map(|summary| summary.cost.into()),
            diagnostics: checked.diagnostics.iter().map(DiagnosticItem::from).collect(),
        }
    }
}
