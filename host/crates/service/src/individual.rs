//! What is done with people: create, change, read, search; the latter two in a file each.

mod read;
mod search;

use std::sync::Arc;

pub use read::{read, read_body};
pub(super) use search::carriers;
pub use search::{GroupFilter, SearchRequest, asked, check_search, find_all, search};

use super::codes::CodeView;
use super::edit::hidden::Hidden;
use super::edit::references::Shown;
use super::edit::{self, Draft, Editable};
use super::group::members::{GroupPlace, Until, places_in_groups};
use super::registry::Registry;
use super::visibility::{self, Seen};
use super::written::Spoken;
use super::{photo, records};
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldProblem, FieldUse};
use daftar_domain::field::FieldSet;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::individual::{Individual, IndividualDetails, IndividualRecord, PHOTO};
use daftar_domain::photo::PhotoReference;
use daftar_domain::record::{RecordKind, VersionCondition};
use daftar_domain::search::Page;
use daftar_vocabulary::{Generation, LanguagePreference};

/// A person as a request gives it.
pub type IndividualDraft = Draft<IndividualRecord>;

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
    records::reference(RecordKind::Individual, key)
}

/// Registers a person.
///
/// # Errors
/// [`AppError::FieldNotGranted`], [`AppError::Invalid`] with every field that is not right, [`AppError::IdentifierInUse`].
pub async fn create(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    draft: IndividualDraft,
) -> Result<IndividualView, AppError> {
    edit::create(ctx, registry, languages, draft).await
}

/// Changes what is said of a person: `make` says what it is to be, given what the client knows of it and what it writes. What
/// the client may not write stays as it is.
///
/// # Errors
/// [`AppError::FieldNotGranted`], those of `make` and of [`create`], [`AppError::NotFound`], [`AppError::Ambiguous`], and
/// [`AppError::VersionMismatch`] when the condition is not met.
pub async fn change(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (key, condition): (&IdentifierKey, &VersionCondition),
    spoken: &Spoken,
    make: &(dyn Fn(&IndividualView) -> Result<IndividualDraft, AppError> + Send + Sync),
) -> Result<IndividualView, AppError> {
    edit::change::<IndividualRecord>(ctx, registry, languages, (key, condition), spoken, make).await
}

impl Editable for IndividualRecord {
    type View = IndividualView;

    async fn present(
        _: &OpContext,
        registry: &Registry,
        languages: LanguagePreference,
        Seen { record: individual, fields }: Seen<IndividualDetails>,
        _: &FieldSet,
    ) -> Result<IndividualView, AppError> {
        let codes = CodeView::new(registry.vocabularies.current(), languages);
        Ok(IndividualView { individual, fields, beside: Beside::default(), codes })
    }

    fn shown(_: &IndividualView, _: &FieldSet) -> Shown {
        Shown::default()
    }

    fn check(_: &OpContext, _: &Generation, _: &IndividualDetails, _: &Hidden, _: &mut Vec<FieldProblem>) {}

    async fn answer(
        ctx: &OpContext,
        registry: &Registry,
        languages: LanguagePreference,
        written: Seen<IndividualDetails>,
    ) -> Result<IndividualView, AppError> {
        view(ctx, registry, languages, written, Wanted::ALL).await
    }
}

/// A person with what is wanted of what lies beside the record.
pub(super) async fn view(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    Seen { record: individual, fields }: Seen<IndividualDetails>,
    wanted: Wanted,
) -> Result<IndividualView, AppError> {
    let beside = beside(ctx, registry, (&individual, &fields), wanted).await?;
    // Taken after the record, so that a code published meanwhile has its name.
    let codes = CodeView::new(registry.vocabularies.current(), languages);
    Ok(IndividualView { individual, fields, beside, codes })
}

/// The photo of a person, where it is wanted and may be shown.
fn shown_photo(individual: &Individual, fields: &FieldSet, wanted: Wanted) -> Option<PhotoReference> {
    individual.details.get(PHOTO).filter(|_| wanted.photo && fields.allows("photo"))
}

/// Fetches what lies beside a record.
async fn beside(
    ctx: &OpContext,
    registry: &Registry,
    (individual, fields): (&Individual, &FieldSet),
    wanted: Wanted,
) -> Result<Beside, AppError> {
    let photo = match shown_photo(individual, fields, wanted) {
        Some(reference) => Some(photo::fetch(registry, reference).await?),
        None => None,
    };
    let may_see =
        wanted.places && fields.allows("group_membership") && visibility::check_membership(ctx, FieldUse::Read).is_ok();
    let first = (Page { offset: 0, count: PLACES_MAX }, Until::PageIsFull);
    let places = if may_see { Some(places_in_groups(ctx, registry, individual.id, first).await?.places) } else { None };
    Ok(Beside { photo, places })
}
