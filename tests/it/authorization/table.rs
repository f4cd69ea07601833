//! The table itself.

use std::sync::atomic::{AtomicU32, Ordering};

use daftar_tests::records::{FEMALE, NATIONAL_ID};
use daftar_tests::{Connection, Request};
use serde_json::{Value, json};

use super::callers::Caller;

/// One endpoint: its permitted callers, and its response to them.
pub struct Row {
    pub method: &'static str,
    /// Its first spelling.
    pub path: &'static str,
    /// The scopes of which one is required, without `:all`; none for endpoints open to every caller.
    pub scopes: &'static [&'static str],
    /// The status for permitted callers.
    pub status: u16,
    /// A valid body, of a new record each time.
    body: Option<fn(&str) -> Value>,
}

/// The scope that a row with status 403 requires besides its own: no caller of this table holds two.
const ADDITIONAL_SCOPE: &str = "group:read";
/// The same of a preview.
const NEEDED_BY_PREVIEW: &str = "individual:read";

/// Marks endpoints open to every client with any scopes.
const ANY_CLIENT: &str = "any:client";

/// Every endpoint.
pub const ROWS: &[Row] = &[
    // A token in the header is not a client credential here, and the request has no other: 400 for every caller.
    Row { method: "POST", path: "/api/v2/oauth/token", scopes: &[], status: 400, body: None },
    // Its entries require scopes of their own.
    Row { method: "POST", path: "/api/v2/$batch", scopes: &[ANY_CLIENT], status: 200, body: Some(batch) },
    Row { method: "GET", path: "/api/v2/Individual", scopes: &["individual:read"], status: 200, body: None },
    Row { method: "POST", path: "/api/v2/Individual", scopes: &["individual:create"], status: 201, body: Some(record) },
    Row {
        method: "GET",
        path: "/api/v2/Individual/{identifier}",
        scopes: &["individual:read"],
        status: 404,
        body: None,
    },
    Row {
        method: "PUT",
        path: "/api/v2/Individual/{identifier}",
        scopes: &["individual:update"],
        status: 404,
        body: Some(record),
    },
    Row {
        method: "PATCH",
        path: "/api/v2/Individual/{identifier}",
        scopes: &["individual:update"],
        status: 404,
        body: Some(record),
    },
    Row {
        method: "PUT",
        path: "/api/v2/Group/{identifier}",
        scopes: &["group:update"],
        status: 404,
        body: Some(record),
    },
    Row {
        method: "PATCH",
        path: "/api/v2/Group/{identifier}",
        scopes: &["group:update"],
        status: 404,
        body: Some(record),
    },
    Row { method: "GET", path: "/api/v2/Group", scopes: &["group:read"], status: 200, body: None },
    Row { method: "POST", path: "/api/v2/Group", scopes: &["group:create"], status: 201, body: Some(record) },
    Row { method: "GET", path: "/api/v2/Group/{identifier}", scopes: &["group:read"], status: 404, body: None },
    // A person's groups require `group:read` as well.
    Row {
        method: "GET",
        path: "/api/v2/Individual/{identifier}/groups",
        scopes: &["individual:read"],
        status: 403,
        body: None,
    },
    Row {
        method: "POST",
        path: "/api/v2/Group/{identifier}/$add-member",
        scopes: &["group:update"],
        status: 404,
        body: Some(member),
    },
    // Changing or removing a member requires `group:read` as well.
    Row {
        method: "POST",
        path: "/api/v2/Group/{identifier}/$remove-member",
        scopes: &["group:update"],
        status: 403,
        body: Some(member),
    },
    Row {
        method: "PATCH",
        path: "/api/v2/Group/{identifier}/member/{member}",
        scopes: &["group:update"],
        status: 403,
        body: Some(inactive),
    },
    Row {
        method: "GET",
        path: "/api/v2/Group/{identifier}/membership-history",
        scopes: &["group:read"],
        status: 404,
        body: None,
    },
    Row {
        method: "GET",
        path: "/api/v2/Program",
        scopes: &["program:search", "program:read"],
        status: 200,
        body: None,
    },
    Row { method: "GET", path: "/api/v2/Program/{identifier}", scopes: &["program:read"], status: 404, body: None },
    Row {
        method: "GET",
        path: "/api/v2/ProgramMembership",
        scopes: &["program_membership:search", "program_membership:read"],
        status: 200,
        body: None,
    },
    // The references of the body lead nowhere.
    Row {
        method: "POST",
        path: "/api/v2/ProgramMembership",
        scopes: &["program_membership:create"],
        status: 422,
        body: Some(membership),
    },
    Row {
        method: "GET",
        path: "/api/v2/ProgramMembership/{identifier}",
        scopes: &["program_membership:read"],
        status: 404,
        body: None,
    },
    Row {
        method: "PUT",
        path: "/api/v2/ProgramMembership/{identifier}",
        scopes: &["program_membership:update"],
        status: 404,
        body: Some(membership),
    },
    Row { method: "GET", path: "/api/v2/Consent/{consent_id}", scopes: &["consent:read"], status: 404, body: None },
    Row {
        method: "DELETE",
        path: "/api/v2/Consent/{consent_id}",
        scopes: &["consent:delete"],
        status: 404,
        body: None,
    },
    Row {
        method: "POST",
        path: "/api/v2/Eligibility/$validate",
        scopes: &["eligibility:read"],
        status: 200,
        body: Some(expression),
    },
    Row {
        method: "POST",
        path: "/api/v2/Eligibility/$evaluate",
        scopes: &["eligibility:read"],
        status: 200,
        body: Some(rule),
    },
    Row {
        method: "POST",
        path: "/api/v2/Eligibility/$evidence",
        scopes: &["eligibility:read"],
        status: 200,
        body: Some(rule),
    },
    Row {
        method: "POST",
        path: "/api/v2/Eligibility/$preview",
        scopes: &["eligibility:read"],
        // Naming the beneficiary requires the scope to read people.
        status: 403,
        body: Some(expression),
    },
    // A search and a comparison require parameters: 400 for permitted callers.
    Row { method: "GET", path: "/api/v2/Vocabulary", scopes: &["vocabulary:read"], status: 200, body: None },
    Row { method: "GET", path: "/api/v2/Vocabulary/$search", scopes: &["vocabulary:read"], status: 400, body: None },
    Row {
        method: "POST",
        path: "/api/v2/Vocabulary/$validate",
        scopes: &["vocabulary:read"],
        status: 200,
        body: Some(codes),
    },
    Row {
        method: "POST",
        path: "/api/v2/Vocabulary/$lookup",
        scopes: &["vocabulary:read"],
        status: 200,
        body: Some(codes),
    },
    Row {
        method: "GET",
        path: "/api/v2/Vocabulary/{namespace}",
        scopes: &["vocabulary:read"],
        status: 200,
        body: None,
    },
    Row {
        method: "GET",
        path: "/api/v2/Vocabulary/{namespace}/codes",
        scopes: &["vocabulary:read"],
        status: 200,
        body: None,
    },
    Row {
        method: "GET",
        path: "/api/v2/Vocabulary/{namespace}/codes/{code}",
        scopes: &["vocabulary:read"],
        status: 200,
        body: None,
    },
    Row {
        method: "GET",
        path: "/api/v2/Vocabulary/{namespace}/search",
        scopes: &["vocabulary:read"],
        status: 400,
        body: None,
    },
    Row {
        method: "GET",
        path: "/api/v2/Vocabulary/{namespace}/$subsumes",
        scopes: &["vocabulary:read"],
        status: 400,
        body: None,
    },
    Row { method: "GET", path: "/api/v2/ConceptGroup", scopes: &["vocabulary:read"], status: 200, body: None },
    Row { method: "GET", path: "/api/v2/ConceptGroup/{name}", scopes: &["vocabulary:read"], status: 200, body: None },
    Row { method: "GET", path: "/api/v2/metadata", scopes: &[], status: 200, body: None },
    Row { method: "GET", path: "/api/v2/openapi.json", scopes: &[], status: 200, body: None },
    Row { method: "GET", path: "/api/v2/docs", scopes: &[], status: 308, body: None },
    Row { method: "GET", path: "/api/v2/docs/api", scopes: &[], status: 200, body: None },
    Row { method: "GET", path: "/docs/", scopes: &[], status: 200, body: None },
    Row { method: "GET", path: "/docs/{*file}", scopes: &[], status: 200, body: None },
    Row { method: "GET", path: "/api/v2/docs/errors", scopes: &[], status: 200, body: None },
    Row { method: "GET", path: "/api/v2/docs/errors/{error_code}", scopes: &[], status: 200, body: None },
    Row { method: "GET", path: "/workbench", scopes: &[], status: 200, body: None },
    Row { method: "GET", path: "/workbench/{file}", scopes: &[], status: 200, body: None },
    Row { method: "GET", path: "/.well-known/oauth-authorization-server", scopes: &[], status: 200, body: None },
    Row { method: "GET", path: "/health/live", scopes: &[], status: 200, body: None },
    Row { method: "GET", path: "/health/ready", scopes: &[], status: 200, body: None },
    Row { method: "GET", path: "/api/v2/RuleDraft", scopes: &["eligibility:read"], status: 200, body: None },
    Row { method: "POST", path: "/api/v2/RuleDraft", scopes: &["eligibility:create"], status: 201, body: Some(draft) },
    Row { method: "GET", path: "/api/v2/RuleDraft/{draft_id}", scopes: &["eligibility:read"], status: 404, body: None },
    Row {
        method: "PUT",
        path: "/api/v2/RuleDraft/{draft_id}",
        scopes: &["eligibility:create"],
        status: 428,
        body: Some(draft),
    },
    Row {
        method: "DELETE",
        path: "/api/v2/RuleDraft/{draft_id}",
        scopes: &["eligibility:create"],
        status: 404,
        body: None,
    },
    Row {
        method: "GET",
        path: "/api/v2/RuleDraft/{draft_id}/history",
        scopes: &["eligibility:read"],
        status: 404,
        body: None,
    },
];

impl Row {
    /// The status that this caller must get.
    pub fn expected(&self, caller: &Caller) -> u16 {
        if self.scopes.is_empty() {
            return self.status;
        }
        match (caller.is_known, self.is_open_to(caller)) {
            (false, _) => 401,
            (true, false) => 403,
            // The one scope that covers both, of a record that does not exist.
            (true, true) if self.status == 403 && self.is_of_groups() && caller.scope == "group:all" => 404,
            (true, true) => self.status,
        }
    }

    fn is_of_groups(&self) -> bool {
        self.scopes.iter().all(|scope| scope.starts_with("group:"))
    }

    fn is_open_to(&self, caller: &Caller) -> bool {
        let is_held = |needed: &&str| {
            let (resource, _) = needed.split_once(':').expect("a scope");
            *needed == ANY_CLIENT || caller.scope == **needed || caller.scope == format!("{resource}:all")
        };
        self.scopes.iter().any(is_held)
    }

    /// The missing scopes in the response to a rejected caller.
    pub fn missing(&self, caller: &Caller) -> String {
        match self.is_open_to(caller) {
            true if self.path.ends_with("$preview") => NEEDED_BY_PREVIEW.to_owned(),
            true => ADDITIONAL_SCOPE.to_owned(),
            false => self.scopes.join(" or "),
        }
    }

    /// A valid request, on one of the endpoint's paths.
    pub fn request(&self, connection: &Connection, path: &str) -> Request {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("AUTH-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = path
            .replace("{identifier}", "urn:svc:vocab:id-type%23tax_id|0")
            .replace("{member}", "urn:svc:vocab:id-type%23tax_id|1")
            .replace("{consent_id}", "123e4567-e89b-42d3-a456-426614174000")
            .replace("{draft_id}", "123e4567-e89b-42d3-a456-426614174000")
            .replace("{namespace}", "urn:iso:std:iso:5218")
            .replace("{code}", "2")
            .replace("{name}", "feminine_gender")
            .replace("{error_code}", "not_found")
            .replace("{file}", "icon.svg")
            .replace("{*file}", "glossary.html");
        let request = connection.request(self.method, &path);
        match self.body {
            Some(body) => request.json(&body(&name)),
            None => request,
        }
    }
}

fn batch(_: &str) -> Value {
    json!({"type": "batch", "entry": [{"request": {"method": "GET", "url": "Vocabulary"}}]})
}

fn record(name: &str) -> Value {
    json!({"identifier": [{"system": NATIONAL_ID, "value": name}]})
}

fn member(name: &str) -> Value {
    json!({"entity": {"reference": format!("Individual/{NATIONAL_ID}|{name}")}})
}

fn inactive(_: &str) -> Value {
    json!({"inactive": true})
}

fn codes(_: &str) -> Value {
    json!({"codes": [FEMALE]})
}

fn membership(name: &str) -> Value {
    let reference = |kind: &str| format!("{kind}/{NATIONAL_ID}|{name}");
    json!({"program": reference("Program"), "beneficiary": reference("Individual"), "status": "draft"})
}

fn draft(name: &str) -> Value {
    json!({"name": name, "expression": "true", "subject": "individual"})
}

fn expression(_: &str) -> Value {
    json!({"expression": "is_female(me)", "subject": "individual"})
}

fn rule(_: &str) -> Value {
    json!({"expression": "is_female(me)", "subjects": [{"type": "individual", "gender": FEMALE}]})
}
