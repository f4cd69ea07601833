//! What is done with people: create, change, read, search; a file each.

mod change;
mod create;
mod read;
mod search;

use std::sync::Arc;

pub use change::change;
pub use create::create;
pub use read::read;
pub use search::{SearchPage, SearchRequest, search};

use super::codes::CodeView;
use super::identifiers;
use super::registry::Registry;
use crate::domain::code::CodeUri;
use crate::domain::identifier::IdentifierKey;
use crate::domain::individual::{Individual, IndividualDetails};
use crate::domain::record::RecordKind;
use crate::error::AppError;

/// A person with the way its codes are shown.
pub struct IndividualView {
    /// The person.
    pub individual: Arc<Individual>,
    /// How its codes are shown.
    pub codes: CodeView,
}

/// Writes `Individual/<system>|<value>`.
#[must_use]
pub fn reference(key: &IdentifierKey) -> String {
    format!("{}/{}", RecordKind::Individual, key.reveal())
}

async fn find(registry: &Registry, key: &IdentifierKey) -> Result<Arc<Individual>, AppError> {
    let id = identifiers::find(&*registry.store, RecordKind::Individual, key).await?;
    let individual = registry.store.individual(id).await?;
    individual.ok_or_else(|| AppError::internal("an identifier leads to a record that is not there"))
}

/// Every code of a draft.
pub(super) fn codes_of(draft: &IndividualDetails<CodeUri>) -> Vec<CodeUri> {
    let mut codes = Vec::new();
    draft.clone().map_codes(|_, _, code| codes.push(code));
    codes
}
