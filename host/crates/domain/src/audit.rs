//! Entries of the audit log: actor, operation, affected records and outcome.

pub mod query;

// From `core`, which has no sockets: this module only stores addresses.
use core::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use jiff::Timestamp;

use super::client::ClientId;
use super::consent::ConsentId;

/// The actor of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Actor {
    /// A client with a token.
    Client(ClientId),
    /// The administrator, by the admin listener or a command.
    Administrator,
    /// The server itself.
    System,
    /// An unauthenticated caller: its token or secret is invalid. All its requests are rejected.
    Unknown,
}

crate::named_enum! {
    /// The kind of operation.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum AuditAction {
        /// A record was read.
        Read = "read",
        /// Records were searched.
        Search = "search",
        /// A record was created.
        Create = "create",
        /// A record was changed.
        Update = "update",
        /// A rule was evaluated on records.
        Evaluate = "evaluate",
        /// A client, grant or setting was changed.
        Administer = "administer",
        /// A plugin was installed, removed or tested.
        Plugin = "plugin",
        /// A token was issued or denied, or a call was rejected because of its token.
        Authenticate = "authenticate",
        /// The audit log was read, or its oldest entries were removed.
        Audit = "audit",
    }
}

crate::named_enum! {
    /// The outcome of an operation.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum AuditOutcome {
        /// The operation succeeded.
        Allowed = "allowed",
        /// The operation was denied, or the request was invalid.
        Refused = "refused",
        /// The operation failed on the server: overload, a store failure or a defect.
        Failed = "failed",
    }
}

/// An entry of the audit log.
///
/// **Invariant:** contains names of records, fields and kinds of faults, never field values: no names, dates or other
/// values, no token and no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Time of the operation.
    pub at: Timestamp,
    /// The actor.
    pub actor: Actor,
    /// Client address: an IPv4 address, or the /64 network of an IPv6 address. Absent if no caller was involved.
    pub address: Option<IpAddr>,
    /// Request ID.
    pub request_id: String,
    /// Method and matched route, such as `GET /api/v2/Individual/{identifier}`.
    pub operation: Option<Arc<str>>,
    /// The kind of operation.
    pub action: AuditAction,
    /// The outcome.
    pub outcome: AuditOutcome,
    /// Status of the response.
    pub status: Option<u16>,
    /// Targets: references `Individual/<system>|<value>`, client ids, plugin names.
    pub targets: Vec<String>,
    /// API fields: those returned by a read, or changed by a write.
    pub fields: Arc<[String]>,
    /// The consents that granted access.
    pub consents: Vec<ConsentId>,
    /// Reason for the denial, such as `missing scope individual:read`.
    pub reason: Option<String>,
    /// Further details, such as the fields of a search; never their values.
    pub note: Option<String>,
    /// Number of events that the entry represents: more than 1 only for aggregated denials and for removed entries.
    pub count: u64,
}

/// Prefix of the note of an entry that records a removal of entries.
pub const REMOVAL_NOTE: &str = "removed lines older than";

impl AuditEntry {
    /// True if the entry records that old entries of the log were removed.
    #[must_use]
    pub fn reports_removal(&self) -> bool {
        self.actor == Actor::System
            && self.action == AuditAction::Audit
            && self.note.as_ref().is_some_and(|note| note.starts_with(REMOVAL_NOTE))
    }

    /// Adds the API fields that were returned or changed.
    #[must_use]
    pub fn with_fields<F: Into<String>>(mut self, fields: impl IntoIterator<Item = F>) -> Self {
        self.fields = fields.into_iter().map(Into::into).collect();
        self
    }

    /// Adds the consents that granted access.
    #[must_use]
    pub fn with_consents(mut self, consents: impl IntoIterator<Item = ConsentId>) -> Self {
        self.consents = consents.into_iter().collect();
        self
    }

    /// Adds further details; never values of a record.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Adds the reason for the denial; never values of a record.
    #[must_use]
    pub fn with_reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Adds the status of the response to the call or to the entry of a batch.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }
}

/// Returns the address as the audit log stores it: an IPv4 address unchanged, an IPv6 address as its /64 network.
#[must_use]
pub fn stored_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_networks_of_ipv6_addresses() {
        let stored = |text: &str| stored_address(text.parse().unwrap()).to_string();
        assert_eq!(stored("203.0.113.9"), "203.0.113.9");
        assert_eq!(stored("::ffff:203.0.113.9"), "203.0.113.9");
        assert_eq!(stored("2001:db8:1:2:ffff::1"), "2001:db8:1:2::");
    }
}
