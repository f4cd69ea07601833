//! What is done with people: create, change, read, search; the latter two in a file each.

mod read;
mod search;

use std::collections::HashMap;
use std::sync::Arc;

pub use read::{read, read_body};
pub(super) use search::carriers;
pub use search::{FoundPeople, GroupFilter, SearchRequest, asked, check_search, find_all, search};

use super::codes::CodeView;
use super::edit::hidden::Hidden;
use super::edit::references::Shown;
use super::edit::{self, Draft, Editable, relationship};
use super::group::members::{GroupPlace, Until, places_in_groups};
use super::registry::Registry;
use super::visibility::{self, Seen};
use super::written::Spoken;
use super::{photo, records};
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldProblem, FieldUse};
use daftar_domain::field::FieldSet;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::individual::{Individual, IndividualDetails, IndividualRecord, PHOTO, RELATIONSHIP};
use daftar_domain::photo::PhotoReference;
use daftar_domain::record::{RecordId, RecordKind, VersionCondition};
use daftar_domain::scope::Resource;
use daftar_domain::search::Page;
use daftar_domain::value::Reference;
use daftar_vocabulary::{Generation, LanguagePreference};

/// A person as a request gives it.
pub type IndividualDraft = Draft<IndividualRecord>;

/// People that other records name, as far as they are there for the client, with what of each may be shown.
pub type People = HashMap<RecordId, Seen<IndividualDetails>>;

/// What lies beside the record of a person, as far as it is wanted and the client may see it.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// The other people that the person has a relationship to.
    pub related: People,
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
    /// The relationships to other people.
    pub related: bool,
    /// Who these are.
    pub names_related: bool,
}

impl Wanted {
    /// All of it.
    pub const ALL: Self = Self { photo: true, places: true, related: true, names_related: true };
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
        ctx: &OpContext,
        registry: &Registry,
        languages: LanguagePreference,
        Seen { record: individual, fields }: Seen<IndividualDetails>,
        written: &FieldSet,
    ) -> Result<IndividualView, AppError> {
        // Whom it names is compared with what is sent back.
        let is_written = written.allows("relationship");
        let named = if is_written { relationship::targets(&individual.details, RELATIONSHIP) } else { Vec::new() };
        let beside = Beside { related: people_there(ctx, registry, named).await?, ..Beside::default() };
        let codes = CodeView::new(registry.vocabularies.current(), languages);
        Ok(IndividualView { individual, fields, beside, codes })
    }

    fn shown(view: &IndividualView, seen: &FieldSet) -> Shown {
        let people = view.beside.related.iter().filter(|_| seen.allows("relationship"));
        Shown::of(people.map(|(id, seen)| {
            (Reference { kind: RecordKind::Individual, id: *id }, seen.record.details.identifiers.as_slice())
        }))
    }

    fn check(
        _: &OpContext,
        _: &Generation,
        details: &IndividualDetails,
        hidden: &Hidden,
        problems: &mut Vec<FieldProblem>,
    ) {
        relationship::check(details, (RecordKind::Individual, RELATIONSHIP), hidden, problems);
    }

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
    mut seen: Seen<IndividualDetails>,
    wanted: Wanted,
) -> Result<IndividualView, AppError> {
    let related =
        related(ctx, registry, std::slice::from_mut(&mut seen), (wanted.related, wanted.names_related)).await?;
    let Seen { record: individual, fields } = seen;
    let beside = Beside { related, ..beside(ctx, registry, (&individual, &fields), wanted).await? };
    // Taken after the record, so that a code published meanwhile has its name.
    let codes = CodeView::new(registry.vocabularies.current(), languages);
    Ok(IndividualView { individual, fields, beside, codes })
}

/// The other people that some people have relationships to, where these are wanted and may be shown; whom the answer names is named in the
/// audit log. Of a person of whose relations a client that needs consents sees none it is not told whether there are any.
async fn related(
    ctx: &OpContext,
    registry: &Registry,
    shown: &mut [Seen<IndividualDetails>],
    (are_wanted, are_named): (bool, bool),
) -> Result<People, AppError> {
    if !are_wanted && ctx.consent.is_none() {
        return Ok(People::new());
    }
    let are_seen = shown.iter().filter(|person| person.fields.allows("relationship"));
    let mut named: Vec<RecordId> =
        are_seen.flat_map(|person| relationship::targets(&person.record.details, RELATIONSHIP)).collect();
    named.sort_unstable();
    named.dedup();
    let people = people_there(ctx, registry, named).await?;
    if ctx.consent.is_some() {
        for Seen { record, fields } in shown {
            if !relationship::targets(&record.details, RELATIONSHIP).iter().any(|target| people.contains_key(target)) {
                *fields = visibility::without(Resource::Individual, fields, &["relationship"]);
            }
        }
    }
    if are_named {
        let called = people.values().filter_map(|person| records::called(&person.record.details.identifiers));
        ctx.trail.names(called.map(reference));
    }
    Ok(people)
}

/// Some people, as far as they are there for the client.
///
/// # Errors
/// When the store fails.
pub(super) async fn people_there(
    ctx: &OpContext,
    registry: &Registry,
    named: Vec<RecordId>,
) -> Result<People, AppError> {
    if named.is_empty() {
        return Ok(People::new());
    }
    let fields = visibility::of_each(ctx, registry, RecordKind::Individual, &named).await?;
    let seen = named.into_iter().zip(fields).filter_map(|(id, fields)| Some((id, fields?)));
    let mut seen: HashMap<RecordId, FieldSet> = seen.collect();
    let ids: Vec<RecordId> = seen.keys().copied().collect();
    let people = registry.store.find_all::<IndividualDetails>(&ids).await?.into_iter();
    Ok(people.filter_map(|record| Some((record.id, Seen { fields: seen.remove(&record.id)?, record }))).collect())
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
    Ok(Beside { photo, places, ..Beside::default() })
}
