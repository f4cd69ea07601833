//! The codes of errors: a test produces each of them, and the server documents each.

use std::collections::BTreeSet;
use std::path::Path;

use daftar::domain::error_code::ErrorCode::{self, *};
use daftar_tests::records::{path, person};
use daftar_tests::{Request, TestApp};
use serde_json::{Map, Value, json};

/// The codes that [`a_request_is_refused_with_the_code_of_its_reason`] does not produce: the file and the function of
/// the tests that do.
const ELSEWHERE: [(ErrorCode, &str, &str); 44] = [
    (TokenInvalid, "tests/it/forged_tokens.rs", "a_token_counts_in_one_authorization_header_and_nowhere_else"),
    (
        TokenExpired,
        "tests/it/secret.rs",
        "a_token_taken_while_the_secret_is_being_rotated_does_not_outlive_the_rotation",
    ),
    (
        ClientDisabled,
        "tests/it/audit/unauthenticated.rs",
        "a_disabled_client_and_a_revoked_token_are_audited_with_the_client_id",
    ),
    (FieldNotGranted, "tests/it/fields/grants.rs", "a_page_holds_no_more_than_a_read"),
    (OriginNotAllowed, "tests/it/edge/cors.rs", "other_pages_may_not"),
    (
        UntrustedProxy,
        "host/crates/http/src/api/middleware/entrance.rs",
        "a_plain_http_client_that_bypasses_the_proxies_is_denied_by_its_code",
    ),
    (RequestTimeout, "tests/it/edge/slow.rs", "a_body_that_stops_or_takes_too_long_is_answered_408"),
    (WriteConflict, "host/crates/store/src/error.rs", "a_concurrent_change_is_a_write_conflict"),
    (AmbiguousIdentifier, "tests/it/individual/create.rs", "an_ended_identifier_of_several_is_ambiguous"),
    (SeveralMemberships, "tests/it/program_membership.rs", "one_membership_in_a_program_is_open_at_a_time"),
    (MembershipOpen, "tests/it/program_membership.rs", "one_membership_in_a_program_is_open_at_a_time"),
    (ProgramClosed, "tests/it/program_membership/rules.rs", "a_program_that_ended_accepts_no_enrolment"),
    (
        NotEligible,
        "tests/it/program_membership/rules.rs",
        "an_enforced_expression_lets_in_whom_it_holds_for_and_overrides",
    ),
    (
        ProgramRuleFailed,
        "tests/it/program_membership/rules.rs",
        "a_rule_that_a_later_change_breaks_is_reported_on_enrolment_and_to_the_administrator",
    ),
    (TransitionNotAllowed, "tests/it/program_membership.rs", "statuses_follow_on_each_other_as_the_table_says"),
    (
        RequestInProgress,
        "host/crates/service/src/idempotency.rs",
        "a_name_stands_for_one_request_at_a_time_and_for_one_at_all",
    ),
    (IdempotencyKeysExhausted, "tests/it/once/bound.rs", "assert_refused"),
    (DecisionNotRepeatable, "tests/it/eligibility/replay.rs", "a_decision_depends_only_on_fields_of_its_rule"),
    (AlreadyExists, "tests/it/deployment/identifier_systems.rs", "wrong_systems_are_refused_and_known_ones_listed"),
    (PreconditionFailed, "tests/it/rule_draft.rs", "a_change_names_the_version_that_its_client_has_read"),
    (PreconditionRequired, "tests/it/rule_draft.rs", "a_change_names_the_version_that_its_client_has_read"),
    (PluginInUse, "tests/it/plugin/optional.rs", "a_pack_comes_and_goes_and_records_stay"),
    (OperationInProgress, "tests/it/backup/admin.rs", "one_backup_at_a_time_and_a_slow_reader_blocks_no_other_client"),
    (LimitReached, "tests/it/audit/admin.rs", "a_client_has_at_most_four_secrets_and_an_overlap_at_most_a_month"),
    (Conflict, "tests/it/audit/admin.rs", "administration_of_a_client_is_audited_with_its_status"),
    (ResponseTooLarge, "tests/it/batch/limits.rs", "a_response_of_32_mib_omits_further_bodies"),
    (EvaluationFailed, "tests/it/eligibility/hostile.rs", "a_misbehaving_engine_is_stopped_and_serves_later_requests"),
    (DecisionNotAuthentic, "tests/it/eligibility/sealed.rs", "is_not_authentic"),
    (IdempotencyKeyReused, "tests/it/once.rs", "equal_requests_match_by_content_not_by_spelling"),
    (TransactionFailed, "tests/it/batch/transaction.rs", "one_refused_entry_refuses_the_whole_and_is_named"),
    (RateLimited, "tests/it/limits/headers.rs", "every_response_describes_the_bucket_that_counted_it"),
    (QuotaExceeded, "tests/it/limits/headers.rs", "the_window_closest_to_its_limit_is_reported"),
    (InternalError, "host/crates/http/src/api/error.rs", "a_defect_is_reported_by_its_request_id_alone"),
    (Overloaded, "tests/it/edge/capacity.rs", "so_many_requests_are_worked_on_at_once"),
    (TooManyConnections, "tests/it/edge/capacity.rs", "idle_connections_are_evicted_and_requests_in_progress_are_not"),
    (ResponsesUnread, "tests/it/edge/stalled.rs", "a_batch_gathers_no_more_than_its_client_may_leave_unread"),
    (
        DeadlineExceeded,
        "tests/it/batch/deadline.rs",
        "a_transaction_that_is_not_done_in_time_is_503_and_writes_nothing",
    ),
    (StorageUnavailable, "tests/it/faults.rs", "fill"),
    (NotReady, "tests/it/faults.rs", "fill"),
    (NoEligibilityEngine, "tests/it/discovery.rs", "a_register_without_an_engine_is_ready_and_reports_degraded_parts"),
    (
        EngineCompiling,
        "tests/it/plugin/compiling.rs",
        "records_are_served_while_an_engine_is_compiled_and_readiness_names_it",
    ),
    (
        PluginSuspended,
        "tests/it/plugin/failing.rs",
        "an_engine_that_cannot_start_is_suspended_by_name_and_resumed_by_itself_or_by_the_operator",
    ),
    (VocabularyFailed, "tests/it/plugin/open.rs", "a_code_for_which_a_pack_fails_is_refused_and_nothing_else"),
    (VocabularyUnavailable, "tests/it/plugin/open.rs", "a_pack_that_takes_too_long_is_unavailable"),
];

/// A body that is over the limit of every call.
const TOO_LONG: usize = (8 << 20) + 1;

/// Requests that are rejected, each with that code.
fn refused_requests(app: &TestApp) -> Vec<(ErrorCode, Request)> {
    let client = app.client(&["individual:all", "eligibility:read"]);
    drop(client.create_individual(&person("1", json!({}))));
    let request = |method: &str, path: &str| client.request(method, path);
    let create = || request("POST", "/Individual");
    let anonymous_request = |method: &str, path: &str| app.anonymous().request(method, path);
    let rule = json!({"expression": "me.birth_dat > today()", "subjects": [{"type": "individual"}]});
    vec![
        (MalformedRequest, request("GET", "/Individual/bare")),
        (UnknownParameter, request("GET", "/Individual?nmae=x")),
        (InvalidCursor, request("GET", "/Individual?_cursor=x")),
        (TokenMissing, anonymous_request("GET", "/api/v2/Individual")),
        (MissingScope, request("GET", "/Group")),
        (NotFound, request("GET", &path("Individual", "absent"))),
        (UnknownPath, anonymous_request("GET", "/api/v2/Nothing")),
        (MethodNotAllowed, anonymous_request("DELETE", "/api/v2/Individual")),
        (NotAcceptable, request("GET", "/Individual").header("Accept", "image/png")),
        (IdentifierInUse, create().json(&person("1", json!({})))),
        (
            VersionMismatch,
            request("PATCH", &path("Individual", "1")).header("If-Match", "\"7\"").json(&json!({"active": false})),
        ),
        (BodyTooLarge, create().header("Content-Type", "application/json").declare_length(TOO_LONG)),
        (UnsupportedMediaType, create().body("text/plain", "{}")),
        (ValidationFailed, create().json(&person("2", json!({"unheard_of": 1})))),
        (InvalidExpression, request("POST", "/Eligibility/$evaluate").json(&rule)),
        (PluginRejected, app.admin().request("POST", "/plugins").body("application/wasm", "no plugin")),
    ]
}

#[test]
fn a_request_is_refused_with_the_code_of_its_reason() {
    let app = TestApp::start();
    for (code, request) in refused_requests(&app) {
        let refused = request.send().expect(code.entry().status);
        assert_eq!(refused.code(), code.name(), "{}", refused.text());
    }
}

#[test]
fn every_code_of_the_table_is_produced_by_a_test() {
    let app = TestApp::start();
    let mut produced: Vec<ErrorCode> = refused_requests(&app).into_iter().map(|(code, _)| code).collect();
    for (code, file, function) in ELSEWHERE {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file)).unwrap();
        let begin = text.find(&format!("fn {function}(")).unwrap_or_else(|| panic!("{file} has no `{function}`"));
        // A function ends with a brace below its first letter.
        let indent = begin - text[..begin].rfind('\n').unwrap() - 1;
        let indent = if text[..begin].ends_with("async ") { indent - "async ".len() } else { indent };
        let body = text[begin..].split(&format!("\n{}}}", " ".repeat(indent))).next().unwrap();
        let names_it = [format!("\"{}\"", code.name()), format!("ErrorCode::{code:?}")];
        let is_named = names_it.iter().any(|name| body.contains(name.as_str()));
        assert!(is_named, "`{function}` of {file} does not hold a response to `{}`", code.name());
        produced.push(code);
    }
    let once: BTreeSet<ErrorCode> = produced.iter().copied().collect();
    assert_eq!(once.len(), produced.len(), "a code has one place here: {produced:?}");
    let missing: Vec<&ErrorCode> = ErrorCode::ALL.iter().filter(|code| !once.contains(code)).collect();
    assert!(missing.is_empty(), "no test produces {missing:?}");
}

#[test]
fn every_code_has_a_page_that_needs_no_token_and_loads_nothing() {
    let app = TestApp::start();
    let list = app.anonymous().request("GET", "/docs/errors").send().expect(200);
    for code in ErrorCode::ALL {
        let (name, status) = (code.name(), code.entry().status);
        assert!(list.text().contains(&format!("href=\"errors/{name}\"")), "{name}");
        let page = app.anonymous().request("GET", &format!("/docs/errors/{name}")).send().expect(200);
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
        let text = page.text();
        assert!(text.contains(&format!("<code>{name}</code>")) && text.contains(&status.to_string()), "{text}");
        for absent in ["<script", "src=", "url(", "http-equiv"] {
            assert!(!text.contains(absent), "the page has `{absent}`");
        }
    }
    let unknown = app.anonymous().request("GET", "/docs/errors/Not_Found").send().expect(404);
    assert_eq!(unknown.code(), "not_found");
}

#[test]
fn the_type_of_a_problem_is_the_page_about_its_code_and_leads_there() {
    let url = "https://registry.example";
    let app = TestApp::builder().config(|config| config.server.public_url = Some(url.to_owned())).start();
    let refused = app.anonymous().request("GET", "/api/v2/Individual").send().expect(401).json();
    let page = refused["type"].as_str().and_then(|page| page.strip_prefix(url)).unwrap().to_owned();
    assert_eq!(page, "/docs/errors/token_missing");
    drop(app.anonymous().request("GET", &page).send().expect(200));
    let refused = app.admin_listener().request("GET", "/admin/v1/clients").send().expect(401).json();
    assert_eq!(refused["type"], format!("{url}/docs/errors/token_missing"));
}

#[test]
fn an_address_whose_calls_are_refused_still_reads_why() {
    let app = TestApp::start();
    let anonymous = app.anonymous();
    let mut calls = std::iter::repeat_with(|| anonymous.request("GET", "/api/v2/Individual").send()).take(31);
    let refused = calls.find(|response| response.status == 429).expect("30 calls a minute");
    let page = format!("/docs/errors/{}", refused.code());
    assert_eq!(page, "/docs/errors/rate_limited");
    let page = anonymous.request("GET", &page).send().expect(200);
    assert_eq!((page.number("x-ratelimit-limit"), page.number("x-ratelimit-remaining")), (300, 299));
    assert_eq!(anonymous.request("GET", "/api/v2/Individual").send().status, 429);
}

#[test]
fn fifty_problems_are_listed_and_the_others_counted() {
    let app = TestApp::start();
    let client = app.client(&["individual:create"]);
    for (count, listed, omitted) in [(50, 50, Value::Null), (57, 50, json!(7))] {
        let unknown: Map<String, Value> = (0..count).map(|number| (format!("unheard_of_{number}"), json!(1))).collect();
        let refused = client.post("/Individual", &person("1", Value::Object(unknown))).expect(422).json();
        assert_eq!((refused["errors"].as_array().unwrap().len(), &refused["errors_omitted"]), (listed, &omitted));
    }
}
