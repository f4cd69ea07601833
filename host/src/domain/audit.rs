//! Who did what to whose data.

use jiff::Timestamp;

use super::client::ClientId;

/// As whom something was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// A client with a token.
    Client(ClientId),
    /// The administrator, by the admin listener or a command.
    Administrator,
    /// The server itself.
    System,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditAction {
    /// One record read.
    Read,
    /// Records searched.
    Search,
    /// A record made.
    Create,
    /// A record changed.
    Update,
    /// A rule evaluated on records.
    Evaluate,
    /// A client, grant or setting changed.
    Administer,
    /// A plugin installed or removed.
    Plugin,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditOutcome {
    /// Done.
    Allowed,
    /// Refused.
    Refused,
}

/// One line of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// When.
    pub at: Timestamp,
    /// As whom.
    pub actor: Actor,
    /// In which request.
    pub request_id: String,
    /// What.
    pub action: AuditAction,
    /// How it ended.
    pub outcome: AuditOutcome,
    /// On what: references `Individual/<system>|<value>`, a client's id, a plugin's name.
    pub targets: Vec<String>,
    /// What else is needed to understand it, such as the fields of a search; never their values.
    pub note: Option<String>,
}
