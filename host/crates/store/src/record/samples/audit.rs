//! Entries of the audit log.

use std::sync::Arc;

use crate::record::audit::AuditSegment;
use daftar_domain::audit::{Actor, AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::consent::ConsentId;

use super::parts::client_id;

/// The summary of an audit log segment.
pub fn audit_segment() -> AuditSegment {
    let (first, last, lines) = (4_097, 5_000, 4_096);
    let (at_min_ms, at_max_ms) = (1_772_600_767_089, 1_772_600_999_999);
    AuditSegment { first, last, lines, at_min_ms, at_max_ms, filter: vec![0x00, 0x80, 0xff, 0x01] }
}

/// Short entries of the audit log, by every known actor.
fn short_entries() -> Vec<AuditEntry> {
    let entry = |actor, action, outcome, targets: &[&str], note: Option<&str>| AuditEntry {
        at: "2026-03-04T05:06:07.089Z".parse().unwrap(),
        actor,
        address: None,
        request_id: "0123456789abcdef0123456789abcdef".into(),
        operation: None,
        action,
        outcome,
        status: None,
        targets: targets.iter().map(|target| (*target).to_owned()).collect(),
        fields: Arc::default(),
        consents: Vec::new(),
        reason: None,
        note: note.map(str::to_owned),
        count: 1,
    };
    let client = Actor::Client(client_id("demo-client_1"));
    vec![
        entry(client.clone(), AuditAction::Search, AuditOutcome::Allowed, &[], Some("name, birth_date")),
        entry(client, AuditAction::Read, AuditOutcome::Refused, &["Individual/urn:x:y|1"], None),
        entry(Actor::Administrator, AuditAction::Administer, AuditOutcome::Allowed, &["demo-client_1"], None),
        entry(Actor::System, AuditAction::Plugin, AuditOutcome::Allowed, &["genders", "roles"], None),
    ]
}

/// Entries of the audit log with every field set.
pub fn audit_entries() -> Vec<AuditEntry> {
    let mut entries = short_entries();
    let consents = ["123e4567-e89b-42d3-a456-426614174000", "00000000-0000-4000-8000-000000000001"];
    let [search, read, ..] = entries.as_mut_slice() else { unreachable!("there are four") };
    *search = AuditEntry {
        address: Some("203.0.113.9".parse().unwrap()),
        operation: Some("GET /api/v2/Individual".into()),
        ..search.clone()
    }
    .with_fields(["identifier", "name", "extension.farmer"])
    .with_consents(consents.map(|id| ConsentId::parse(id).unwrap()))
    .with_status(200);
    *read = AuditEntry {
        address: Some("2001:db8:1:2::".parse().unwrap()),
        operation: Some("GET /api/v2/Individual/{identifier}".into()),
        request_id: "not hexadecimal".into(),
        ..read.clone()
    }
    .with_reason("missing scope individual:read")
    .with_status(403);
    let unknown = AuditEntry {
        actor: Actor::Unknown,
        action: AuditAction::Authenticate,
        outcome: AuditOutcome::Refused,
        targets: Vec::new(),
        count: 4_000,
        ..read.clone()
    };
    let failed = AuditEntry { outcome: AuditOutcome::Failed, ..unknown.clone() }.with_status(503);
    let audit = AuditEntry { actor: Actor::System, action: AuditAction::Audit, ..search.clone() };
    entries.extend([unknown, failed, audit]);
    entries
}
