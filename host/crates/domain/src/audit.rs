//! Who did what to whose data.

pub mod query;

// From `core`, which has no sockets: addresses are only kept here.
use core::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use jiff::Timestamp;

use super::client::ClientId;
use super::consent::ConsentId;

/// As whom something was done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Actor {
    /// A client with a token.
    Client(ClientId),
    /// The administrator, by the admin listener or a command.
    Administrator,
    /// The server itself.
    System,
    /// Nobody knows: a caller whose token or secret is not sound. It never gets further than being refused.
    Unknown,
}

crate::named_enum! {
    /// What was done.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum AuditAction {
        /// One record read.
        Read = "read",
        /// Records searched.
        Search = "search",
        /// A record made.
        Create = "create",
        /// A record changed.
        Update = "update",
        /// A rule evaluated on records.
        Evaluate = "evaluate",
        /// A client, grant or setting changed.
        Administer = "administer",
        /// A plugin installed or removed, or tried out.
        Plugin = "plugin",
        /// A token issued or refused, or a call refused for its token.
        Authenticate = "authenticate",
        /// The audit log itself read, or its oldest lines removed.
        Audit = "audit",
    }
}

crate::named_enum! {
    /// How it ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum AuditOutcome {
        /// Done.
        Allowed = "allowed",
        /// Refused: the caller may not, or asked for something that cannot be.
        Refused = "refused",
        /// Not done for a reason of the server's: overload, a store that failed, a defect.
        Failed = "failed",
    }
}

/// One line of the audit log.
///
/// **Invariant:** names records, fields and kinds of faults, never what a record says: no names, dates or other values, no
/// token and no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// When.
    pub at: Timestamp,
    /// As whom.
    pub actor: Actor,
    /// From where: an IPv4 address, or the /64 network of an IPv6 address. Absent for what no caller did.
    pub address: Option<IpAddr>,
    /// In which request.
    pub request_id: String,
    /// By which call: method and matched route, such as `GET /api/v2/Individual/{identifier}`.
    pub operation: Option<Arc<str>>,
    /// What.
    pub action: AuditAction,
    /// How it ended.
    pub outcome: AuditOutcome,
    /// With which status it was answered.
    pub status: Option<u16>,
    /// On what: references `Individual/<system>|<value>`, a client's id, a plugin's name.
    pub targets: Vec<String>,
    /// API fields: what was shown of what was read, what changed in what was written.
    pub fields: Arc<[String]>,
    /// The consents that opened it.
    pub consents: Vec<ConsentId>,
    /// Why it was refused, such as `missing scope individual:read`.
    pub reason: Option<String>,
    /// What else is needed to understand it, such as the fields of a search; never their values.
    pub note: Option<String>,
    /// How many alike things the line stands for: 1 but for refusals that are counted together, and for removed lines.
    pub count: u64,
}

/// How the note of a line begins that tells of removed lines.
pub const REMOVAL_NOTE: &str = "removed lines older than";

impl AuditEntry {
    /// Whether it tells that old lines of the log were removed.
    #[must_use]
    pub fn tells_of_removal(&self) -> bool {
        self.actor == Actor::System
            && self.action == AuditAction::Audit
            && self.note.as_ref().is_some_and(|note| note.starts_with(REMOVAL_NOTE))
    }

    /// The line with the API fields that were shown or changed.
    #[must_use]
    pub fn with_fields<F: Into<String>>(mut self, fields: impl IntoIterator<Item = F>) -> Self {
        self.fields = fields.into_iter().map(Into::into).collect();
        self
    }

    /// The line with the consents that opened what was done.
    #[must_use]
    pub fn with_consents(mut self, consents: impl IntoIterator<Item = ConsentId>) -> Self {
        self.consents = consents.into_iter().collect();
        self
    }

    /// The line with what else is needed to understand it; never values of a record.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// The line with why it was refused; never values of a record.
    #[must_use]
    pub fn with_reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// The line with the status that the call, or the entry of a batch, is answered with.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }
}

/// The address that the audit log keeps: an IPv4 address as it is, of an IPv6 address its network of 64 bits.
#[must_use]
pub fn kept_address(address: IpAddr) -> IpAddr {
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
        let kept = |text: &str| kept_address(text.parse().unwrap()).to_string();
        assert_eq!(kept("203.0.113.9"), "203.0.113.9");
        assert_eq!(kept("::ffff:203.0.113.9"), "203.0.113.9");
        assert_eq!(kept("2001:db8:1:2:ffff::1"), "2001:db8:1:2::");
    }
}
