//! The body of a look at how a server is set up.

use serde::Serialize;

use daftar_domain::checkup::{Check, CheckState};

/// All that was looked at.
#[derive(Debug, Serialize)]
pub struct CheckupBody {
    /// `ok`, `warning` or `problem`: the worst of all.
    state: &'static str,
    warnings: usize,
    problems: usize,
    checks: Vec<CheckBody>,
}

#[derive(Debug, Serialize)]
struct CheckBody {
    area: &'static str,
    check: &'static str,
    state: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl From<Check> for CheckBody {
    fn from(check: Check) -> Self {
        let Check { area, name, state, message, remedy } = check;
        Self { area: area.name(), check: name, state: state.name(), message, remedy }
    }
}

impl From<Vec<Check>> for CheckupBody {
    fn from(checks: Vec<Check>) -> Self {
        let count = |state| checks.iter().filter(|check| check.state == state).count();
        let (warnings, problems) = (count(CheckState::Warning), count(CheckState::Problem));
        let state = match (problems, warnings) {
            (0, 0) => CheckState::Ok,
            (0, _) => CheckState::Warning,
            (_, _) => CheckState::Problem,
        };
        Self { state: state.name(), warnings, problems, checks: checks.into_iter().map(CheckBody::from).collect() }
    }
}
