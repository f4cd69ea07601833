//! What is done with people: create, change, read, search; a file each.

mod change;
mod create;
mod read;
mod search;

use std::sync::Arc;

pub use change::change;
pub use create::create;
pub use read::read;
pub(super) use search::carriers;
pub use search::{GroupFilter, SearchRequest, check_search, search};

use super::codes::CodeView;
use super::registry::Registry;
use super::visibility;
use crate::context::OpContext;
use crate::domain::code::CodeUri;
use crate::domain::field::FieldSet;
use crate::domain::identifier::IdentifierKey;
use crate::domain::individual::{Individual, IndividualDetails};
use crate::domain::record::RecordKind;
use crate::error::AppError;

/// A person with the way its codes are shown.
pub struct IndividualView {
    /// The person.
    pub individual: Arc<Individual>,
    /// What of it may be shown.
    pub fields: FieldSet,
    /// How its codes are shown.
    pub codes: CodeView,
}

/// Writes `Individual/<system>|<value>`.
#[must_use]
pub fn reference(key: &IdentifierKey) -> String {
    format!("{}/{}", RecordKind::Individual, key.reveal())
}

async fn find(
    ctx: &OpContext,
    registry: &Registry,
    key: &IdentifierKey,
) -> Result<(Arc<Individual>, FieldSet), AppError> {
    let (id, fields) = visibility::find(ctx, registry, RecordKind::Individual, key).await?;
    let individual = registry.store.individual(id).await?;
    let individual =
        individual.ok_or_else(|| AppError::internal("an identifier leads to a record that is not there"))?;
    Ok((individual, fields))
}

/// Every code of a draft.
pub(super) fn codes_of(draft: &IndividualDetails<CodeUri>) -> Vec<CodeUri> {
    let mut codes = Vec::new();
    draft.clone().map_codes(|_, _, code| codes.push(code));
    codes
}
