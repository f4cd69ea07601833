//! Many records at once, as the administrator brings them: each line by the use case of a single call.
//!
//! **Invariant:** a line is written whole or not at all, with a line of the audit log that names the import and the number of the
//! line. What an import has done is therefore known after any crash: the audit log says it (`earlier`).
//!
//! **Invariant:** lines of one kind are written in their order, and a line that refers to a record of an earlier line is written
//! after it (`window`). What becomes of a line does not depend on how fast others are written.

pub mod desk;
pub mod earlier;
pub mod export;
mod names;
mod prepare;
pub mod run;
mod window;
mod write;

use std::fmt;
use std::sync::Arc;

use super::consent::ConsentDraft;
use super::group::GroupDraft;
use super::individual::IndividualDraft;
use super::program_membership::MembershipDraft;
use super::registry::Registry;
use daftar_domain::context::OpContext;
use daftar_domain::context::trail::{Trail, TrailOf};
use daftar_domain::error::AppError;
use daftar_domain::identifier::Identifier;
use daftar_domain::program::ProgramDetails;
use daftar_domain::record::{RecordKind, VersionCondition};
use daftar_sandbox::EligibilityEngine;

pub use self::prepare::{PreparedLine, Preparer};

/// What becomes of a line whose record is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExisting {
    /// It is refused.
    Refuse,
    /// It is passed over.
    Skip,
    /// It replaces what is said of the record.
    Update,
    /// The members that it names join the group, those who are members already stay; only for groups.
    AddMembers,
}

impl OnExisting {
    /// The names in requests and commands; `add-members` is said by a line for itself.
    pub const NAMES: [(&'static str, Self); 3] =
        [("refuse", Self::Refuse), ("skip", Self::Skip), ("update", Self::Update)];

    /// The name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Skip => "skip",
            Self::Update => "update",
            Self::AddMembers => "add-members",
        }
    }
}

/// A record as a line gives it, before anything of it is looked up.
#[derive(Debug, Clone)]
pub enum BulkRecord {
    /// A person.
    Individual(Box<IndividualDraft>),
    /// A group with its members.
    Group(Box<GroupDraft>),
    /// A program.
    Program(Box<ProgramDetails>),
    /// A place in a program.
    ProgramMembership(Box<MembershipDraft>),
    /// A consent.
    Consent(Box<ConsentDraft>),
}

impl BulkRecord {
    /// Of which kind.
    #[must_use]
    pub fn kind(&self) -> RecordKind {
        match self {
            Self::Individual(_) => RecordKind::Individual,
            Self::Group(_) => RecordKind::Group,
            Self::Program(_) => RecordKind::Program,
            Self::ProgramMembership(_) => RecordKind::ProgramMembership,
            Self::Consent(_) => RecordKind::Consent,
        }
    }

    /// Its identifiers; those of a consent are none, which is found by its id.
    fn identifiers(&self) -> &[Identifier] {
        match self {
            Self::Individual(draft) => &draft.details.identifiers,
            Self::Group(draft) => &draft.details.identifiers,
            Self::Program(details) => &details.identifiers,
            Self::ProgramMembership(draft) => &draft.identifiers,
            Self::Consent(_) => &[],
        }
    }
}

/// A line that could be read.
#[derive(Debug, Clone)]
pub struct BulkLine {
    /// What it says.
    pub record: BulkRecord,
    /// At which version it replaces a record.
    pub condition: VersionCondition,
    /// What becomes of it when the record is there.
    pub on_existing: OnExisting,
}

/// What was done with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// It made a record.
    Created,
    /// It changed one.
    Updated,
    /// Its record was there already, and stays as it is.
    Skipped,
}

/// Names an import in requests, its lines of the audit log among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportId(Arc<str>);

/// The longest name of an import, in bytes.
pub const IMPORT_ID_BYTES_MAX: usize = 64;

impl ImportId {
    /// Reads a name.
    ///
    /// # Errors
    /// [`AppError::Malformed`] when it is none.
    pub fn parse(text: &str) -> Result<Self, AppError> {
        let is_right = (8..=IMPORT_ID_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if is_right {
            return Ok(Self(text.into()));
        }
        Err(AppError::Malformed(format!(
            "`id` names the import: 8 to {IMPORT_ID_BYTES_MAX} small letters, digits and `-`, the same for all its parts"
        )))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ImportId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What stands before the number of a line in the audit log.
const LINE_MARK: &str = " line ";
const STATUS_CREATED: u16 = 201;
const STATUS_OK: u16 = 200;

/// Writes lines as one actor.
#[derive(Clone)]
pub struct Importer {
    /// As whom, and in which request.
    pub ctx: OpContext,
    /// Where to.
    pub registry: Arc<Registry>,
    /// Decides who may be enrolled.
    pub engine: Arc<dyn EligibilityEngine>,
    /// Which import.
    pub id: ImportId,
    /// Whether lines are only checked: then programs are not asked whom they let in.
    pub is_rehearsal: bool,
}

impl Importer {
    /// The context of one line: its lines of the audit log name the import and the line.
    fn context(&self, line: u64, success_status: u16) -> OpContext {
        let operation = self.ctx.trail.operation();
        let trail = Trail::new(TrailOf {
            request_id: Arc::clone(&self.id.0),
            operation: format!("{}{LINE_MARK}{line}", operation.as_deref().unwrap_or("import")).into(),
            address: self.ctx.trail.address(),
            success_status,
        });
        OpContext { request_id: Arc::clone(&self.id.0), trail, ..self.ctx.clone() }
    }
}

/// Whether an error is no fault of the line: the import stops then, and goes on later.
#[must_use]
pub fn is_no_fault_of_the_line(error: &AppError) -> bool {
    match error {
        AppError::NoEngine
        | AppError::VocabularyUnavailable(_)
        | AppError::PluginSetAside { .. }
        | AppError::Busy
        | AppError::Unavailable(_)
        | AppError::Internal(_) => true,
        AppError::Malformed(_)
        | AppError::InvalidCursor(_)
        | AppError::Invalid(_)
        | AppError::InvalidValue(..)
        | AppError::NotFound(_)
        | AppError::NotThere(_)
        | AppError::Ambiguous
        | AppError::IdentifierInUse { .. }
        | AppError::VersionMismatch { .. }
        | AppError::MissingScope { .. }
        | AppError::FieldNotGranted { .. }
        | AppError::UnknownClient(_)
        | AppError::UnknownPlugin(_)
        | AppError::Plugin(_)
        | AppError::Overtaken
        | AppError::DryRun
        | AppError::Conflict(..)
        | AppError::NotEligible { .. }
        | AppError::Expression(_) => false,
    }
}
