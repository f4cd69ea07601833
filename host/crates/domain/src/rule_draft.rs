//! Drafts of eligibility rules: an analyst of an organization proposes a rule, and the administrator accepts it for a
//! program or rejects it.
//!
//! **Invariant:** each change of a draft is a version, counted from 1. Versions are never changed.

use jiff::Timestamp;
use jiff::civil::Date;

use super::client::ClientId;
use super::context::OpContext;
use super::identifier::IdentifierKey;
use super::organization::Organization;
use super::public_id::{NamedByUuid, PublicId};
use super::record::VersionId;
use super::subject::Subject;

/// Maximum number of drafts of an organization, or of a client without one.
pub const RULE_DRAFTS_MAX: u64 = 2_000;
/// Maximum number of versions of a draft.
pub const DRAFT_VERSIONS_MAX: u64 = 200;
/// Maximum length of the name of a draft, in bytes.
pub const DRAFT_NAME_BYTES_MAX: usize = 200;
/// Maximum length of a comment, and of the reason of a rejection, in bytes.
pub const DRAFT_TEXT_BYTES_MAX: usize = 4_000;
/// Maximum number of test cases of a draft.
pub const DRAFT_CASES_MAX: usize = 100;
/// Maximum length of the test cases of a draft as JSON, in bytes.
pub const DRAFT_CASES_BYTES_MAX: usize = 64 << 10;

/// Rule drafts as a kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleDraftRecord {}

impl NamedByUuid for RuleDraftRecord {
    const KIND: &'static str = "RuleDraft";
}

/// The public id of a draft.
pub type RuleDraftId = PublicId<RuleDraftRecord>;

named_enum! {
    /// The state of a draft.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum DraftStatus {
        /// It may be changed.
        Open = "open",
        /// Its rule was written to its program.
        Accepted = "accepted",
        /// The administrator rejected it.
        Rejected = "rejected",
        /// Its client deleted it. Only the last version, which has no content, has this status.
        Deleted = "deleted",
    }
}

/// The content of a draft, as its author writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftContent {
    /// Its name.
    pub name: String,
    /// The expression, which need not be valid.
    pub expression: String,
    /// The kind of its subjects.
    pub subject: Subject,
    /// Remarks of the author.
    pub comment: Option<String>,
    /// The program that the rule is for.
    pub program: Option<IdentifierKey>,
    /// The name of the eligibility engine.
    pub engine: Option<String>,
    /// The test cases, as JSON.
    pub cases: Option<String>,
    /// The day on which the test cases are evaluated; the current day by default.
    pub as_of: Option<Date>,
}

/// The author of a draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftAuthor {
    /// The client that created it.
    pub client: ClientId,
    /// The organization of that client at the time.
    pub organization: Option<Organization>,
}

/// The owner of drafts. A client sees those of its organization, and its own without one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DraftOwner {
    /// The clients of an organization.
    Organization(Organization),
    /// A client that had no organization when it created them.
    Client(ClientId),
}

impl DraftOwner {
    /// Returns the owners whose drafts the actor sees; `None` means all.
    #[must_use]
    pub fn seen_by(ctx: &OpContext) -> Option<Vec<Self>> {
        let organization = ctx.organization.clone().map(Self::Organization);
        ctx.client().map(|client| organization.into_iter().chain([Self::Client(client.clone())]).collect())
    }
}

impl DraftAuthor {
    /// Returns the owner of the draft, which never changes.
    #[must_use]
    pub fn owner(&self) -> DraftOwner {
        match &self.organization {
            Some(organization) => DraftOwner::Organization(organization.clone()),
            None => DraftOwner::Client(self.client.clone()),
        }
    }
}

/// A version of a draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleDraft {
    /// Its public id.
    pub id: RuleDraftId,
    /// The version.
    pub version: VersionId,
    /// The content.
    pub content: DraftContent,
    /// The author.
    pub author: DraftAuthor,
    /// The state.
    pub status: DraftStatus,
    /// The reason of a rejection.
    pub reason: Option<String>,
    /// The time of the first version.
    pub created_at: Timestamp,
    /// The time of this version.
    pub last_updated: Timestamp,
}

impl RuleDraft {
    /// True if the actor may see it.
    #[must_use]
    pub fn is_visible(&self, ctx: &OpContext) -> bool {
        DraftOwner::seen_by(ctx).is_none_or(|owners| owners.contains(&self.author.owner()))
    }
}
