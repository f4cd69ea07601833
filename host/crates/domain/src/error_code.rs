//! The table of error codes: stable names of the reasons for failed requests, with meaning and remedy.
//!
//! The body of every problem contains a code. Its `type` is the URL of a page that the server generates from this
//! table.
//! [`AppError::code`](crate::error::AppError::code) returns the code of an operation's error.
//!
//! `cargo xtask fields` writes the table as `host/docs/ERRORS.md`.
//!
//! **Invariant:** a code has one status. A released code keeps its name, its status and its meaning.

/// Path of the pages about error codes, below the public URL.
pub const ERROR_PAGES_PATH: &str = "/docs/errors";

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorEntry {
    /// The code in problem bodies.
    pub name: &'static str,
    /// The status of the response.
    pub status: u16,
    /// The reason, in a sentence or two.
    pub meaning: &'static str,
    /// Steps for the client or its operator to resolve the error.
    pub remedy: &'static str,
}

macro_rules! error_codes {
    ($($code:ident: $name:literal, $status:literal, $meaning:literal, $remedy:literal;)+) => {
        /// The reason for a failed request. Each is a row of the table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorCode {
            $(#[doc = $meaning] $code,)+
        }

        impl ErrorCode {
            /// All codes, in the order of the table: by status.
            pub const ALL: &'static [Self] = &[$(Self::$code),+];

            /// Returns its row.
            #[must_use]
            pub const fn entry(self) -> ErrorEntry {
                match self {
                    $(Self::$code => ErrorEntry { name: $name, status: $status, meaning: $meaning, remedy: $remedy },)+
                }
            }
        }
    };
}

error_codes! {
    MalformedRequest: "malformed_request", 400,
        "The request cannot be read: its path, a parameter, a header or its body does not have the form that the call requires. `detail` names the part.",
        "Correct the part that `detail` names. The same request fails again.";
    UnknownParameter: "unknown_parameter", 400,
        "The query has a parameter that the call does not take. It is not ignored, since the result would be another than the one asked for.",
        "Correct the name, for which `detail` has the closest match, or leave the parameter out.";
    InvalidCursor: "invalid_cursor", 400,
        "The cursor was not issued by this server for this client and this search.",
        "Follow `links.next` as it is, or begin again without a cursor.";
    TokenMissing: "token_missing", 401,
        "The call requires an access token, and the request has none.",
        "Get a token from the token endpoint and send it as `Authorization: Bearer <token>`. On the administrator's listener, send the administrator's token.";
    TokenInvalid: "token_invalid", 401,
        "The access token is malformed, is not signed by this server, or is meant for another one. On the administrator's listener: the token is not the administrator's.",
        "Send the token exactly as the token endpoint returned it, in one `Authorization` header, or get a new one.";
    TokenExpired: "token_expired", 401,
        "The access token has expired or was revoked.",
        "Get a new token and repeat the request.";
    ClientDisabled: "client_disabled", 401,
        "An administrator has disabled the client.",
        "Ask the administrator. A new token is not issued either.";
    MissingScope: "missing_scope", 403,
        "The token grants none of the scopes that the call accepts. `detail` names them and those that were granted.",
        "Ask the administrator for the scope, then get a new token.";
    FieldNotGranted: "field_not_granted", 403,
        "The request reads, filters by, sorts by or writes a field that was not granted to the client. `errors` names it.",
        "Leave the field out, or ask the administrator to grant it.";
    OriginNotAllowed: "origin_not_allowed", 403,
        "The request comes from a web page whose origin may not call the server.",
        "The administrator adds the origin to `cors_origins` in `[server]`.";
    UntrustedProxy: "untrusted_proxy", 403,
        "The request came over plain HTTP from an address that is not one of the server's trusted proxies.",
        "Use the server's HTTPS address. The administrator names proxies as `trusted_proxies` in `[server]`.";
    NotFound: "not_found", 404,
        "The record, code or other item that the request names does not exist, or this client may not see it: the response is the same.",
        "Check the identifier. An item of a list that may have changed is looked up again.";
    UnknownPath: "unknown_path", 404,
        "The server offers nothing at this path.",
        "Check the path against `/openapi.json`. In an identifier, `/` is written `%2F` and `#` is written `%23`.";
    MethodNotAllowed: "method_not_allowed", 405,
        "The path exists and does not offer this method.",
        "Use one of the methods that the header `Allow` names.";
    NotAcceptable: "not_acceptable", 406,
        "`Accept` admits none of the media types in which the response is available. `detail` names them.",
        "Name one of them in `Accept`, or leave the header out.";
    RequestTimeout: "request_timeout", 408,
        "The body of the request did not arrive in time, or stopped arriving.",
        "Send the request again, over a better connection or with a smaller body.";
    IdentifierInUse: "identifier_in_use", 409,
        "Another record has an identifier of the same system and value that has not ended.",
        "Search by the identifier: the record may exist already. Otherwise send another identifier.";
    VersionMismatch: "version_mismatch", 409,
        "The record was changed since the version that `If-Match` names.",
        "Read the record again, apply the change to it, and send it with the new version.";
    WriteConflict: "write_conflict", 409,
        "Other requests changed the same records concurrently, several times in a row. Nothing was written.",
        "Send the same request again.";
    AmbiguousIdentifier: "ambiguous_identifier", 409,
        "The identifier has ended, and several records once had it.",
        "Use an identifier that has not ended.";
    SeveralMemberships: "several_memberships", 409,
        "The beneficiary that the path names has several memberships.",
        "Name the program with `?program=`, or the membership by its own identifier.";
    MembershipOpen: "membership_open", 409,
        "The beneficiary already has an open membership in the program.",
        "Change that membership, or end it before another one is created.";
    ProgramClosed: "program_closed", 409,
        "The program has ended or is not active, and enrols no one.",
        "Enrol in another program, or ask the administrator to open this one.";
    NotEligible: "not_eligible", 409,
        "The program enforces its eligibility expression, which does not find the beneficiary eligible. `outcome` is `not_eligible` or `undetermined`; `missing` lists the fields that would decide.",
        "Complete the missing fields, or enrol with `override {reason}`.";
    ProgramRuleFailed: "program_rule_failed", 409,
        "The program enforces its eligibility expression, and the expression can no longer be evaluated.",
        "The administrator corrects it with `daftar program update`. Until then enrol with `override {reason}`.";
    TransitionNotAllowed: "transition_not_allowed", 409,
        "A membership cannot change from its present status to the one sent.",
        "Send one of the statuses that `detail` names. A beneficiary who returns gets a new membership.";
    RequestInProgress: "request_in_progress", 409,
        "Another request with the same `Idempotency-Key` is in progress.",
        "Send the same request again in a moment: the response is then that of the first one.";
    IdempotencyKeysExhausted: "idempotency_keys_exhausted", 409,
        "The client has as many idempotency keys stored as the server keeps for one client.",
        "Send the request without `Idempotency-Key`, or wait until the oldest keys are a day old.";
    DecisionNotRepeatable: "decision_not_repeatable", 409,
        "The decision depends on an engine, a vocabulary, a concept group, an identifier or a version of a record that is no longer available. `detail` names it.",
        "Ask again without `decision` for a decision on the present data.";
    AlreadyExists: "already_exists", 409,
        "An item of that name exists already, or existed once and its name is not used again.",
        "Choose another name, or change the item that exists.";
    PluginInUse: "plugin_in_use", 409,
        "Records, local codes, concept groups or other plugins depend on the plugin, or the server cannot check whether they do.",
        "Remove what depends on it, or remove the plugin with `--force`. `detail` names the effects.";
    OperationInProgress: "operation_in_progress", 409,
        "An operation of which one runs at a time, such as an import, a backup or a verification, is running.",
        "Wait until it ends, or stop it.";
    LimitReached: "limit_reached", 409,
        "As many items of this kind exist as the server keeps. `detail` names the limit.",
        "Remove an item that is not needed, or wait where `detail` says so.";
    Conflict: "conflict", 409,
        "The present state of the register does not allow the operation, for a reason that only `detail` names.",
        "Read `detail`. The same request fails until the state has changed.";
    PreconditionFailed: "precondition_failed", 412,
        "The item was changed since the version that `If-Match` names, or is at a version that `If-None-Match` excludes.",
        "Read the item again, apply the change to it, and send it with the new version as `If-Match`. Leave `If-None-Match` out to change an item that exists.";
    BodyTooLarge: "body_too_large", 413,
        "The body of the request is larger than the limit that `detail` names.",
        "Send less in one request, such as a smaller photo or a batch of fewer entries.";
    ResponseTooLarge: "response_too_large", 413,
        "The bodies of earlier entries take all the space that the response to one batch has. Only entries of batches have this code.",
        "Read the rest in another batch.";
    UnsupportedMediaType: "unsupported_media_type", 415,
        "The body of the request has a media type, a character encoding or a content encoding that the call does not take.",
        "Send the media type that `detail` names, in UTF-8 and not compressed.";
    ValidationFailed: "validation_failed", 422,
        "The request can be read, and its values are not valid. `errors` names each field with the reason, at most 50 of them; `errors_omitted` counts the rest.",
        "Correct every field that `errors` names.";
    InvalidExpression: "invalid_expression", 422,
        "The expression is not valid. `diagnostics` has each error with its place in the text.",
        "Correct the expression. `POST /Eligibility/$validate` checks one without evaluating it.";
    EvaluationFailed: "evaluation_failed", 422,
        "The expression is valid, and evaluating it exhausted a budget or failed. `detail` names the budget.",
        "Make the expression simpler, or ask about fewer subjects.";
    DecisionNotAuthentic: "decision_not_authentic", 422,
        "The decision was changed, or was issued by another register or to another organization.",
        "Send the decision back exactly as it was received, or ask again without it.";
    IdempotencyKeyReused: "idempotency_key_reused", 422,
        "The `Idempotency-Key` was sent before with another request.",
        "Use a new key for each request, and the same key only to repeat one.";
    TransactionFailed: "transaction_failed", 422,
        "An entry of a transaction was rejected, so nothing of it was written. `errors` names the entry with the code of its reason.",
        "Correct the entry and send the whole transaction again.";
    VocabularyFailed: "vocabulary_failed", 422,
        "The plugin of an open vocabulary fails for a code of the request: it exceeds a limit, or returns an invalid result. It fails again if the request is repeated.",
        "Use a code that the vocabulary lists, or fewer codes in one request. The operator finds the reason in the server's log.";
    PluginRejected: "plugin_rejected", 422,
        "The file is not a plugin that can be installed. `detail` names the step that rejected it and the reason.",
        "Correct the plugin or its signature. `daftar plugin inspect` checks a file without installing it.";
    PreconditionRequired: "precondition_required", 428,
        "The call requires `If-Match` with the version of the item that it changes.",
        "Read the item, and send its `ETag` as `If-Match`.";
    RateLimited: "rate_limited", 429,
        "The limit of requests a minute is reached, or requests come from more addresses than the server can count.",
        "Wait as many seconds as `Retry-After` says, then continue evenly.";
    QuotaExceeded: "quota_exceeded", 429,
        "The limit of requests a day is reached. Days are those of UTC.",
        "Wait until `Retry-After` has passed, or ask the administrator for a higher limit.";
    InternalError: "internal_error", 500,
        "The server failed for a reason that is a defect.",
        "Report the `request_id`, by which the server's log names the reason.";
    Overloaded: "overloaded", 503,
        "The server has more work than it takes.",
        "Repeat the request after `Retry-After`, with longer pauses each time.";
    TooManyConnections: "too_many_connections", 503,
        "Too many connections are open, to the server or from the caller's address.",
        "Use fewer connections and keep them open between requests.";
    ResponsesUnread: "responses_unread", 503,
        "Unread responses to the client, or to its address, have reached the memory limit.",
        "Read the responses, or close their connections, and repeat the request.";
    DeadlineExceeded: "deadline_exceeded", 503,
        "The request took longer than the server allows. Unless `detail` says that nothing was changed, a write may have been done.",
        "Check whether a write was done before repeating it, or repeat it with the same `Idempotency-Key`.";
    StorageUnavailable: "storage_unavailable", 503,
        "The disk or the database does not respond, or takes no writes.",
        "Repeat the request after `Retry-After`. The operator finds the reason in the server's log.";
    NotReady: "not_ready", 503,
        "The server cannot serve requests. `detail` gives the reason. Only `/health/ready` has this code.",
        "Send requests to another server, or wait.";
    NoEligibilityEngine: "no_eligibility_engine", 503,
        "No eligibility engine is active.",
        "The administrator installs one with `daftar plugin install`, or names one of several as `engine` in `[plugins]`.";
    EngineCompiling: "engine_compiling", 503,
        "The eligibility engine is being compiled: the server was started some seconds ago, and serves everything else.",
        "Repeat the request after `Retry-After`. `/health/ready` names the engine until it is active.";
    PluginSuspended: "plugin_suspended", 503,
        "A plugin that the request requires keeps failing and is suspended for some seconds.",
        "Repeat the request after `Retry-After`. The administrator finds the reason in the server's log.";
    VocabularyUnavailable: "vocabulary_unavailable", 503,
        "The codes of an open vocabulary can be checked by its plugin alone, which does not respond.",
        "Repeat the request after `Retry-After`, or use a code that the vocabulary lists.";
}

impl ErrorCode {
    /// Returns the code in problem bodies.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// Returns the code of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.name() == name)
    }
}

const PAGE_HEAD: &str = "\
# Error codes

Written by `cargo xtask fields` from the table in `host/crates/domain/src/error_code.rs`: a change of this page alone is lost.

The body of a failed call is `application/problem+json` (RFC 9457). `code` is one of the codes below, and `type` is the address of the page
about it, `{public_url}/docs/errors/<code>`, generated by the server from the same table; `/docs/errors` lists all. A code keeps its name, its
status and its meaning; `detail` is for people and may change. The items of `errors` have codes of their own, about single fields. The token
endpoint has the codes of RFC 6749 instead ([TOKENS.md](TOKENS.md)).

| Code | Status | Meaning | What to do |
|---|---|---|---|
";

/// Returns the table as a documentation page in Markdown.
#[must_use]
pub fn page() -> String {
    let mut page = PAGE_HEAD.to_owned();
    for ErrorEntry { name, status, meaning, remedy } in ErrorCode::ALL.iter().map(|code| code.entry()) {
        page.push_str(&format!("| `{name}` | {status} | {meaning} | {remedy} |\n"));
    }
    page
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_is_complete_and_its_name_is_unique() {
        let names: BTreeSet<&str> = ErrorCode::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), ErrorCode::ALL.len());
        for code in ErrorCode::ALL {
            let ErrorEntry { name, status, meaning, remedy } = code.entry();
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            assert!((400..=599).contains(&status), "{name}: {status}");
            assert!(meaning.ends_with('.') && remedy.ends_with('.'), "{name}");
            assert_eq!(ErrorCode::parse(name), Some(*code));
        }
        assert!(ErrorCode::ALL.is_sorted_by_key(|code| code.entry().status), "the table is in the order of statuses");
        assert_eq!(ErrorCode::parse("Conflict"), None);
    }

    #[test]
    fn the_documentation_page_is_generated_from_the_table() {
        let written = include_str!("../../../docs/ERRORS.md");
        assert!(written == page(), "`host/docs/ERRORS.md` is out of date: run `cargo xtask fields`");
    }
}
