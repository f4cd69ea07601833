use super::*;
use crate::client::ClientId;

const REFERENCE: &str = "Individual/urn:x:a|1";

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn client() -> Actor {
    Actor::Client(ClientId::parse("client-1").unwrap())
}

fn trail() -> AuditContext {
    let trail = AuditContext::new(AuditedRequest {
        request_id: "r".into(),
        operation: "GET /api/v2/Individual/{identifier}".into(),
        address: None,
        success_status: 200,
    });
    trail.set_caller(client(), AuditAction::Read);
    trail
}

fn read(outcome: AuditOutcome) -> AuditEntry {
    let AuditContext(Some(inner)) = trail() else { unreachable!("it belongs to a request") };
    let line = inner.line((client(), AuditAction::Read), vec![REFERENCE.to_owned()], now());
    AuditEntry { outcome, ..line }
}

fn targets(line: &AuditEntry) -> Vec<&str> {
    line.targets.iter().map(String::as_str).collect()
}

#[test]
fn a_read_gets_its_status_and_the_returned_fields() {
    let trail = trail();
    assert!(!trail.wants_shown());
    trail.collect(read(AuditOutcome::Allowed)).unwrap();
    assert!(trail.wants_shown());
    trail.shows(["name".to_owned()].into());
    trail.shows(["identifier".to_owned(), "name".to_owned()].into());
    trail.names([REFERENCE.to_owned(), "Group/urn:x:g|1".to_owned(), "Group/urn:x:g|1".to_owned()]);
    let lines = trail.end(now(), 200, None);
    assert_eq!(lines.len(), 1);
    assert_eq!((lines[0].status, lines[0].outcome), (Some(200), AuditOutcome::Allowed));
    assert_eq!(*lines[0].fields, ["name", "identifier"]);
    assert_eq!(targets(&lines[0]), [REFERENCE, "Group/urn:x:g|1"]);
}

#[test]
fn an_unrecorded_failure_gets_an_entry_with_its_targets() {
    for (status, outcome) in [
        (400, AuditOutcome::Refused),
        (498, AuditOutcome::Refused),
        (499, AuditOutcome::Failed),
        (500, AuditOutcome::Failed),
        (503, AuditOutcome::Failed),
    ] {
        let trail = trail();
        trail.about([REFERENCE.to_owned()]);
        let lines = trail.end(now(), status, Some("why"));
        assert_eq!(lines.len(), 1, "{status}");
        assert_eq!((lines[0].outcome, lines[0].status), (outcome, Some(status)));
        assert_eq!((lines[0].reason.as_deref(), targets(&lines[0])), (Some("why"), vec![REFERENCE]));
    }
    assert!(trail().end(now(), 399, None).is_empty());
    let unknown = AuditContext::new(AuditedRequest {
        request_id: "r".into(),
        operation: "GET /".into(),
        address: None,
        success_status: 200,
    });
    assert!(unknown.end(now(), 404, None).is_empty(), "the caller is unknown");
}

#[test]
fn reads_that_were_not_returned_become_one_entry_of_the_failure() {
    let trail = trail();
    trail.collect(read(AuditOutcome::Allowed)).unwrap();
    let lines = trail.end(now(), 503, Some("late"));
    assert_eq!(lines.len(), 1);
    assert_eq!((lines[0].outcome, lines[0].reason.as_deref()), (AuditOutcome::Failed, Some("late")));
}

#[test]
fn a_failure_recorded_by_the_operation_stays_its_only_entry() {
    let trail = trail();
    let evaluated = AuditEntry { action: AuditAction::Evaluate, ..read(AuditOutcome::Allowed) };
    trail.collect(evaluated).unwrap();
    trail.collect(read(AuditOutcome::Refused).with_reason("its own")).unwrap();
    let lines = trail.end(now(), 409, Some("why"));
    let reported: Vec<_> = lines.iter().map(|line| (line.outcome, line.status, line.reason.as_deref())).collect();
    let expected = [(AuditOutcome::Allowed, Some(409), None), (AuditOutcome::Refused, Some(409), Some("its own"))];
    assert_eq!(reported, expected);
}

#[test]
fn other_records_in_the_response_to_a_change_get_their_own_entry() {
    let trail = trail();
    trail.names([REFERENCE.to_owned()]);
    let lines = trail.end(now(), 200, None);
    assert_eq!(lines.len(), 1);
    assert_eq!((lines[0].action, lines[0].outcome), (AuditAction::Read, AuditOutcome::Allowed));
    assert_eq!(targets(&lines[0]), [REFERENCE]);
}

#[test]
fn nothing_is_collected_after_the_end_or_without_a_request() {
    let trail = trail();
    assert_eq!(trail.end(now(), 404, None).len(), 1);
    assert!(trail.end(now(), 404, None).is_empty());
    assert!(trail.collect(read(AuditOutcome::Allowed)).is_err());
    assert!(AuditContext::default().collect(read(AuditOutcome::Allowed)).is_err());
    assert!(AuditContext::default().end(now(), 404, None).is_empty());
}

#[test]
fn a_part_knows_the_caller_and_ends_separately() {
    let whole = trail();
    let part = whole.of_part("POST /api/v2/Individual", 201);
    assert_eq!(part.success_status(), Some(201));
    let lines = part.end(now(), 422, Some("why"));
    assert_eq!(lines[0].operation.as_deref(), Some("POST /api/v2/Individual"));
    assert_eq!((lines[0].actor.clone(), lines[0].request_id.as_str()), (client(), "r"));
    whole.collect(read(AuditOutcome::Allowed)).unwrap();
}
