//! Every kind of caller.

use daftar_tests::{TestApp, token};
use serde_json::json;

/// A caller.
pub struct Caller {
    /// Name in the test.
    pub name: String,
    /// Its token.
    pub token: Option<String>,
    /// True if its token is accepted.
    pub is_known: bool,
    /// The one scope that it holds, or none.
    pub scope: String,
}

impl Caller {
    fn unknown(name: &str, token: Option<String>) -> Self {
        Self { name: name.to_owned(), token, is_known: false, scope: String::new() }
    }

    fn known(name: &str, token: String, scope: &str) -> Self {
        Self { name: name.to_owned(), token: Some(token), is_known: true, scope: scope.to_owned() }
    }
}

/// The 48 scopes, written out: the test must not derive them from the tested code.
const RESOURCES: [&str; 8] =
    ["individual", "group", "program", "program_membership", "consent", "vocabulary", "eligibility", "identifier"];
const ACTIONS: [&str; 6] = ["read", "search", "create", "update", "delete", "all"];

/// No token, three invalid ones, one without scopes, and one for each scope.
pub fn callers(app: &TestApp) -> Vec<Caller> {
    let expired = app.client(&["individual:all", "group:all", "eligibility:all"]).token().to_owned();
    app.advance_seconds(86_400);
    let disabled = app.client(&["individual:all", "group:all", "eligibility:all"]);
    app.admin().disable(disabled.id());
    let mut callers = vec![
        Caller::unknown("absent", None),
        Caller::unknown("a garbage token", Some("garbage".to_owned())),
        Caller::unknown("an expired token", Some(expired)),
        Caller::unknown("a disabled client", Some(disabled.token().to_owned())),
        Caller::known("a client without scopes", app.client(&[]).token().to_owned(), ""),
    ];
    let scopes: Vec<String> =
        RESOURCES.iter().flat_map(|resource| ACTIONS.map(|action| format!("{resource}:{action}"))).collect();
    let all = app.admin().create_client(&json!({
        "name": "holds everything and asks for one thing at a time",
        "scopes": scopes,
        "rate_limit_per_minute": 1_000_000,
        "rate_limit_per_day": 1_000_000,
    }));
    callers.extend(scopes.iter().map(|scope| {
        let token = token::fetch_scoped(&app.anonymous(), &all, scope);
        Caller::known(&format!("a holder of {scope}"), token, scope)
    }));
    callers
}
