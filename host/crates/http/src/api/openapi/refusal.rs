//! Errors of operations: their statuses and responses, and the headers of responses.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::api::access::Access;
use crate::api::openapi::operation::Operation;
use crate::api::openapi::shape::{self, Shape, named};
use daftar_domain::error_code::ErrorCode;

/// An error: its status, name in the document, description, and headers in addition to those of every response.
type Refusal = (u16, &'static str, &'static str, &'static [&'static str]);

const REFUSALS: &[Refusal] = &[
    (400, "Malformed", "The request is malformed; `detail` names the problem.", &[]),
    (401, "Unauthorized", "There is no token, or it is malformed, expired or disabled.", &["WWW-Authenticate"]),
    (
        403,
        "Forbidden",
        "The client's grants do not allow this; `detail` names the scope or the field.",
        &["WWW-Authenticate"],
    ),
    (404, "NotFound", "The record does not exist, or this client may not see it.", &[]),
    (406, "NotAcceptable", "`Accept` excludes the media types of the response.", &[]),
    (
        408,
        "TimedOut",
        "The body took longer to arrive than the timeout: by default 20 seconds, and 10 for any part of it.",
        &[],
    ),
    (
        409,
        "Conflict",
        "The current state does not allow it: another version, an identifier in use, several records.",
        &[],
    ),
    (
        412,
        "Outdated",
        "The item is at another version than the one that `If-Match` names, or at one that `If-None-Match` excludes.",
        &[],
    ),
    (413, "TooLarge", "The body exceeds the limit in `detail`.", &[]),
    (414, "UrlTooLong", "The URL has more than 64 KiB. The response has no body, and no request id.", &[]),
    (415, "NotJson", "The body is of another media type.", &["Accept-Patch"]),
    (422, "Invalid", "The request is well-formed but invalid; `errors` names each field or parameter.", &[]),
    (428, "Unconditional", "The call requires `If-Match`.", &[]),
    (429, "TooMany", "Rate limit exceeded; retry after the time in `Retry-After`.", &["Retry-After"]),
    (500, "Failed", "The server failed; the request id identifies the failure in its log.", &[]),
    (503, "Unavailable", "The server is unavailable; retry later.", &["Retry-After"]),
];

/// Refusals of the token endpoint (RFC 6749, section 5.2).
const TOKEN_REFUSALS: &[Refusal] = &[
    (400, "TokenMalformed", "The request is invalid; `error` names the reason.", &["Cache-Control"]),
    (
        401,
        "TokenUnauthorized",
        "The client is unknown, or its secret is invalid.",
        &["Cache-Control", "WWW-Authenticate"],
    ),
    (
        408,
        "TokenTimedOut",
        "The body took longer to arrive than the timeout: by default 20 seconds, and 10 for any part of it.",
        &["Cache-Control"],
    ),
    (413, "TokenTooLarge", "The body exceeds the limit.", &["Cache-Control"]),
    (
        429,
        "TokenTooMany",
        "Rate limit of the address exceeded; retry after the time in `Retry-After`.",
        &["Retry-After"],
    ),
    (500, "TokenFailed", "The server failed.", &["Cache-Control"]),
    (503, "TokenUnavailable", "The server is unavailable; retry later.", &["Retry-After"]),
];

/// Error statuses of an operation.
#[must_use]
pub fn statuses_of(operation: &Operation, access: Access, takes_path: bool) -> BTreeSet<u16> {
    let mut statuses: BTreeSet<u16> = operation.refusals.iter().copied().collect();
    statuses.extend(match access {
        Access::Scopes(_) => &[401, 403, 429, 500, 503][..],
        Access::AnyClient => &[401, 403, 429, 500, 503],
        Access::Public => &[429, 500, 503],
        Access::Token => &[400, 401, 408, 413, 429, 500, 503],
        Access::Health => &[],
    });
    let answers_with_a_body = operation.responses.iter().any(|response| !response.bodies.is_empty());
    if answers_with_a_body && matches!(access, Access::Scopes(_) | Access::AnyClient | Access::Public) {
        statuses.insert(406);
    }
    if takes_path || !operation.parameters.is_empty() {
        statuses.extend([400, 414]);
    }
    if operation.body.is_some() && access != Access::Token {
        statuses.extend([400, 408, 413, 415, 422]);
    }
    statuses
}

/// The name of such an error in the document.
#[must_use]
pub fn refusal_name(status: u16, access: Access) -> &'static str {
    let table = if access == Access::Token { TOKEN_REFUSALS } else { REFUSALS };
    table.iter().find(|refusal| refusal.0 == status).map_or("Failed", |refusal| refusal.1)
}

/// The errors, by name.
pub fn components() -> impl Iterator<Item = (&'static str, Value)> {
    let problems = REFUSALS.iter().map(|refusal| {
        let (status, name, description, headers) = *refusal;
        let codes = ErrorCode::ALL.iter().map(|code| code.entry()).filter(|entry| entry.status == status);
        let codes: Vec<String> = codes.map(|entry| format!("`{}`", entry.name)).collect();
        let description = match codes.as_slice() {
            [] => description.to_owned(),
            [only] => format!("{description} `code` is {only}."),
            several => format!("{description} `code` is one of {}.", several.join(", ")),
        };
        // The connection itself rejects a URL that is too long, before there is a request.
        let response = match status {
            414 => json!({"description": description}),
            _ => response(&description, ("application/problem+json", named("Problem")), headers),
        };
        (name, response)
    });
    let of_tokens = TOKEN_REFUSALS.iter().map(|(_, name, description, headers)| {
        (*name, response(description, ("application/json", named("TokenError")), headers))
    });
    problems.chain(of_tokens)
}

fn response(description: &str, (media_type, schema): (&str, Shape), headers: &[&str]) -> Value {
    let headers = of_every_answer(Access::Public).iter().chain(headers).copied();
    json!({"description": description, "content": {media_type: {"schema": schema}}, "headers": header_references(headers)})
}

/// The headers of a response, as references to their descriptions.
pub fn header_references<'n>(names: impl Iterator<Item = &'n str>) -> Value {
    names.map(|name| (name, json!({"$ref": format!("#/components/headers/{name}")}))).collect()
}

/// A header: its name, its description, its shape.
type DescribedHeader = (&'static str, &'static str, fn() -> Shape);

/// Every header in the document.
const HEADERS: &[DescribedHeader] = &[
    ("X-API-Version", "The version of the API.", shape::text),
    ("X-Request-Id", "Names the request in the server's log and audit log.", shape::text),
    ("X-RateLimit-Limit", "The limit of calls of the bucket with the fewest calls left.", || shape::whole(1)),
    ("X-RateLimit-Remaining", "The number of calls left in it.", || shape::whole(0)),
    ("X-RateLimit-Reset", "Seconds until it is full again.", || shape::whole(0)),
    ("Retry-After", "Seconds to wait before a retry.", || shape::whole(1)),
    ("Accept-Patch", "The accepted media types, if the request is a PATCH of another one.", shape::text),
    ("ETag", "The version of the content of the response.", || shape::pattern(r#"^"[^"]*"$"#)),
    ("Idempotency-Replayed", "Present if the request was executed before.", || shape::word(["true"])),
    ("Location", "The URL of the new record.", shape::text),
    ("Content-Location", "The URL of the code itself, if it was requested by an alias.", shape::text),
    ("Cache-Control", "Rules for caching the response.", shape::text),
    ("Pragma", "As `Cache-Control`, for old clients.", shape::text),
    ("Vary", "The request headers that the response depends on.", shape::text),
    ("Content-Language", "The languages of the names in the response.", shape::text),
    ("Content-Security-Policy", "The permitted sources of the page's content.", shape::text),
    ("WWW-Authenticate", "The authentication scheme, and the problem.", shape::text),
];

/// Every header, by name.
pub fn headers() -> Value {
    let described = |&(name, description, schema): &DescribedHeader| {
        (name, json!({"description": description, "schema": schema()}))
    };
    HEADERS.iter().map(described).collect()
}

/// Headers of every response; `Vary`, if pages of some origins may call the server.
#[must_use]
pub fn of_every_answer(access: Access) -> &'static [&'static str] {
    match access {
        Access::Health => &["X-API-Version", "X-Request-Id", "Vary"],
        Access::Scopes(_) | Access::AnyClient | Access::Public | Access::Token => &[
            "X-API-Version",
            "X-Request-Id",
            "X-RateLimit-Limit",
            "X-RateLimit-Remaining",
            "X-RateLimit-Reset",
            "Vary",
        ],
    }
}
