//! What is done with people: create, change, read, search; a file each.

mod change;
mod create;
mod read;
mod search;

use daftar_store::TypedReads;
use std::sync::Arc;

pub use change::change;
pub use create::create;
pub(super) use create::{must_ask, prepare};
pub use read::{read, read_body};
pub(super) use search::carriers;
pub use search::{GroupFilter, SearchRequest, asked, check_search, find_all, search};

use super::codes::CodeView;
use super::group::members::{GroupPlace, Until, places_in_groups};
use super::registry::Registry;
use super::{photo, visibility};
use daftar_domain::code::CodeUri;
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldUse};
use daftar_domain::field::FieldSet;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::individual::{Individual, IndividualDetails};
use daftar_domain::photo::Photo;
use daftar_domain::record::RecordKind;
use daftar_domain::search::Page;

/// A person as a request gives it: codes by URI, and a photo where it brings a new one.
#[derive(Debug, Clone)]
pub struct IndividualDraft {
    /// What is said of the person; it holds which photo is meant, new or not.
    pub details: IndividualDetails<CodeUri>,
    /// The photo that is to be kept.
    pub photo: Option<Photo>,
}

impl From<IndividualDetails<CodeUri>> for IndividualDraft {
    /// Brings no new photo.
    fn from(details: IndividualDetails<CodeUri>) -> Self {
        Self { details, photo: None }
    }
}

/// What lies beside the record of a person, as far as it is wanted and the client may see it.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// The bytes of the photo.
    pub photo: Option<Arc<[u8]>>,
    /// The person's places in groups, the first [`PLACES_MAX`].
    pub places: Option<Vec<GroupPlace>>,
}

/// Which of what lies beside a record is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The photo.
    pub photo: bool,
    /// The places in groups.
    pub places: bool,
}

impl Wanted {
    /// All of it.
    pub const ALL: Self = Self { photo: true, places: true };
}

/// The most places in groups that stand in the body of a person; the rest is told by its groups.
pub const PLACES_MAX: u32 = 100;

/// A person with the way its codes are shown.
pub struct IndividualView {
    /// The person.
    pub individual: Arc<Individual>,
    /// What of it may be shown.
    pub fields: FieldSet,
    /// What lies beside the record.
    pub beside: Beside,
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
    let individual = registry.store.find::<IndividualDetails>(id).await?;
    let individual =
        individual.ok_or_else(|| AppError::internal("an identifier leads to a record that is not there"))?;
    Ok((individual, fields))
}

/// Fetches what lies beside a record.
pub(super) async fn beside(
    ctx: &OpContext,
    registry: &Registry,
    (individual, fields): (&Individual, &FieldSet),
    wanted: Wanted,
) -> Result<Beside, AppError> {
    let photo = individual.details.photo.filter(|_| wanted.photo && fields.allows("photo"));
    let photo = match photo {
        Some(reference) => Some(photo::fetch(registry, reference).await?),
        None => None,
    };
    let may_see =
        wanted.places && fields.allows("group_membership") && visibility::check_membership(ctx, FieldUse::Read).is_ok();
    let first = (Page { offset: 0, count: PLACES_MAX }, Until::PageIsFull);
    let places = if may_see { Some(places_in_groups(ctx, registry, individual.id, first).await?.places) } else { None };
    Ok(Beside { photo, places })
}

/// Every code of a draft.
pub(super) fn codes_of(draft: &IndividualDetails<CodeUri>) -> Vec<CodeUri> {
    let mut codes = Vec::new();
    draft.clone().map_codes(|_, _, code| codes.push(code));
    codes
}
