//! Registration and changes of records that clients write: individuals and groups share one implementation.
//!
//! **Invariant:** a field that the client may not write stays unchanged. Fields that the client may not read do not
//! affect the validation of its change.
//!
//! **Invariant:** a client may send a received record back. A record whose identifiers have all expired is still
//! displayed with one of them. If another record has taken over that identifier, it does not replace the record of the
//! reference.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::codes::{self, Held, resolve_at, with_undeclared};
use crate::registry::Registry;
use crate::visibility::{self, Seen};
use crate::written::{self, UpdateMode};
use crate::{audit, identifiers, open_vocabulary, records, subjects};
use daftar_domain::audit::{AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::calendar::{Period, utc_day};
use daftar_domain::change::Details;
use daftar_domain::code::{CodeNumber, CodeUri, CodedValue, EditionNumber};
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::extension::Extension;
use daftar_domain::field::FieldSet;
use daftar_domain::group::MEMBER;
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::photo::{Photo, PhotoReference};
use daftar_domain::record::{Fields, Record, RecordId, RecordKind, RecordType, VersionCondition};
use daftar_domain::relationship::{RELATIONSHIP_PERIOD, RELATIONSHIP_TARGET, RELATIONSHIP_TYPE};
use daftar_domain::schema::{self, Field, Kind, Tag};
use daftar_domain::value::{CodePlace, Key, List, Part, Reference, Translate, Value, Values};
use daftar_store::{Operation, RecordDetails, Write};
use daftar_vocabulary::{Generation, LanguagePreference};

/// A record as a request contains it: codes by URI, other records by identifier, and a photo if the request has a new
/// one.
#[derive(Debug, Clone)]
pub struct Draft<T> {
    /// New content of the record, with the digest of its photo, whether new or stored.
    pub details: Fields<T, CodeUri, IdentifierKey>,
    /// The photo to store.
    pub photo: Option<Photo>,
}

impl<T> From<Fields<T, CodeUri, IdentifierKey>> for Draft<T> {
    /// A draft without a new photo.
    fn from(details: Fields<T, CodeUri, IdentifierKey>) -> Self {
        Self { details, photo: None }
    }
}

/// A type of record that clients register and change, with its specific parts.
pub trait Editable: RecordType + Clone + 'static {
    /// A record as displayed to a client.
    type View: Send + Sync;

    /// Its relationships to records of its kind.
    const RELATIONSHIP: Key<List<Part>>;

    /// A record with those fields, as the base of a change that writes them; not displayed to a client.
    fn present(
        ctx: &OpContext,
        registry: &Registry,
        languages: LanguagePreference,
        record: Seen<Fields<Self>>,
        written: &FieldSet,
    ) -> impl Future<Output = Result<Self::View, AppError>> + Send;

    /// The records that a view refers to, in the fields that are visible to the client.
    fn shown(view: &Self::View, seen: &FieldSet) -> Shown;

    /// Checks constraints beyond the schema. Problems use the positions that are visible to the client, without hidden
    /// items.
    fn check(
        ctx: &OpContext,
        generation: &Generation,
        details: &Fields<Self>,
        hidden: &Hidden,
        problems: &mut Vec<FieldProblem>,
    );

    /// The response to a write.
    fn written_view(
        ctx: &OpContext,
        registry: &Registry,
        languages: LanguagePreference,
        written: Seen<Fields<Self>>,
    ) -> impl Future<Output = Result<Self::View, AppError>> + Send;

    /// The response to a registration: as [`Self::written_view`], of a record to which no other record refers yet.
    fn created_view(
        ctx: &OpContext,
        registry: &Registry,
        languages: LanguagePreference,
        created: Seen<Fields<Self>>,
    ) -> impl Future<Output = Result<Self::View, AppError>> + Send {
        Self::written_view(ctx, registry, languages, created)
    }
}

/// Builds the new content of a record from the display known to the client and the data that the client writes.
pub type Make<'m, T> = dyn Fn(&<T as Editable>::View) -> Result<Draft<T>, AppError> + Send + Sync + 'm;

/// Registers a record.
///
/// # Errors
/// [`AppError::FieldNotGranted`]; [`AppError::Invalid`] with every invalid field, including references to records that
/// do not exist; [`AppError::IdentifierInUse`].
pub async fn create<T: Editable>(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    draft: Draft<T>,
) -> Result<T::View, AppError>
where
    Fields<T>: Details + Into<RecordDetails>,
{
    let record = register(ctx, registry, draft).await?;
    // If the new record is hidden from the client, only the permanent fields are returned.
    let fields = visibility::of(ctx, registry, T::KIND, record.id).await?.unwrap_or_else(FieldSet::none);
    T::created_view(ctx, registry, languages, Seen { record, fields }).await
}

/// Registers a record without returning its content.
///
/// # Errors
/// As [`create`].
pub(crate) async fn register<T: Editable>(
    ctx: &OpContext,
    registry: &Registry,
    draft: Draft<T>,
) -> Result<Arc<Record<Fields<T>>>, AppError>
where
    Fields<T>: Details + Into<RecordDetails>,
{
    // Other operations may assign the numbers that its codes were to get.
    let attempt = async || {
        let Prepared { write, stored } = prepare(ctx, registry, draft.clone()).await?;
        open_vocabulary::commit(registry, write, stored).await
    };
    records::retried(&VersionCondition::Any, attempt).await
}

/// True if packs must be queried for codes of a draft. The codes get numbers when the draft is written; such records
/// are written sequentially.
pub(crate) fn needs_lookup<T: RecordType>(registry: &Registry, draft: &Draft<T>) -> bool {
    let generation = registry.vocabularies.current();
    generation.has_open_vocabularies() && codes::of_draft(&draft.details).iter().any(|uri| generation.needs_lookup(uri))
}

/// A new record that passed validation.
pub(crate) struct Prepared {
    /// The content to write.
    pub write: Write,
    /// Numbers of codes to assign with the write; no other operation assigns numbers while this value exists. The
    /// caller passes it to [`open_vocabulary::commit`] with the write.
    pub stored: Option<open_vocabulary::NumberedCodes>,
}

/// Checks a new record and returns the write. Reads only the records that it refers to: the write itself detects an
/// identifier that is in use.
///
/// # Errors
/// As [`create`], but [`AppError::IdentifierInUse`].
pub(crate) async fn prepare<T: Editable>(
    ctx: &OpContext,
    registry: &Registry,
    Draft { details: draft, photo }: Draft<T>,
) -> Result<Prepared, AppError>
where
    Fields<T>: Details + Into<RecordDetails>,
{
    ctx.trail.about(records::references(T::KIND, &draft.identifiers));
    let named = written::present(&draft);
    written::check_new(ctx, T::KIND.resource(), &named)?;
    let consulted =
        open_vocabulary::resolve(registry, registry.vocabularies.current(), || codes::of_draft(&draft)).await?;
    let generation = Arc::clone(&consulted.generation);
    let mut problems = Vec::new();
    identifiers::check((&generation, utc_day(ctx.now)), T::KIND, &[], &draft.identifiers, &mut problems);
    let found = Found::of(ctx, registry, &Shown::default(), &draft).await?;
    let details = resolve(&generation, &Held::default(), Some((&found, None)), draft, &mut problems);
    T::check(ctx, &generation, &details, &Hidden::default(), &mut problems);
    AppError::check(&mut problems)?;
    let (details, stored) = consulted.finalise(ctx, registry, details).await?;
    let targets = records::references(T::KIND, &details.identifiers);
    let operations = std::iter::once(Operation::create(details))
        .chain(photo.map(Operation::PutPhoto))
        .chain(stored.as_ref().and_then(open_vocabulary::NumberedCodes::operation));
    let entry = audit::entry(ctx, AuditAction::Create, AuditOutcome::Allowed, targets);
    let write = records::write(ctx, operations.collect(), entry.with_fields(written::names_of_new(&named)));
    Ok(Prepared { write, stored })
}

/// Changes a record: `make` returns the new content. Fields that the client may not write stay unchanged.
///
/// # Errors
/// [`AppError::FieldNotGranted`], those of `make` and of [`create`], [`AppError::NotFound`], [`AppError::Ambiguous`],
/// and [`AppError::VersionMismatch`] if the condition is not met.
pub async fn change<T: Editable>(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (key, condition): (&IdentifierKey, &VersionCondition),
    spoken: &UpdateMode,
    make: &Make<'_, T>,
) -> Result<T::View, AppError>
where
    Fields<T>: Details + Into<RecordDetails>,
{
    let written = update::<T>(ctx, registry, languages.clone(), (key, condition), spoken, make).await?;
    T::written_view(ctx, registry, languages, written).await
}

/// Changes a record without the data of a response.
///
/// # Errors
/// As [`change`].
pub(crate) async fn update<T: Editable>(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (key, condition): (&IdentifierKey, &VersionCondition),
    spoken: &UpdateMode,
    make: &Make<'_, T>,
) -> Result<Seen<Fields<T>>, AppError>
where
    Fields<T>: Details + Into<RecordDetails>,
{
    let attempt = || change_once::<T>(ctx, registry, languages.clone(), (key, condition), spoken, make);
    let refusal =
        || audit::entry(ctx, AuditAction::Update, AuditOutcome::Refused, vec![records::reference(T::KIND, key)]);
    records::changed(ctx, registry, condition, refusal, attempt).await
}

async fn change_once<T: Editable>(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (key, condition): (&IdentifierKey, &VersionCondition),
    spoken: &UpdateMode,
    make: &Make<'_, T>,
) -> Result<Seen<Fields<T>>, AppError>
where
    Fields<T>: Details + Into<RecordDetails>,
{
    let Seen { record: before, fields } = visibility::find_record::<Fields<T>>(ctx, registry, key).await?;
    let written = written::of_change(ctx, T::KIND.resource(), &fields, spoken)?;
    records::check_version(condition, before.meta.version)?;
    let known = fields.union(&written);
    let present = Seen { record: Arc::clone(&before), fields: known.clone() };
    let present = T::present(ctx, registry, languages.clone(), present, &written).await?;
    let Draft { details: draft, photo } = make(&present)?;
    let draft = written::only(draft, &written);
    let consulted =
        open_vocabulary::resolve(registry, registry.vocabularies.current(), || codes::of_draft(&draft)).await?;
    let generation = Arc::clone(&consulted.generation);
    let mut problems = Vec::new();
    check_identifiers(ctx, &generation, &before.details, &draft, &mut problems)?;
    let hidden = Hidden::of(ctx, registry, &before.details).await?;
    let held = Held::of::<T>(&hidden.without(&before.details));
    if known != fields {
        // A patch is merged with fields that the client may not read: its codes are validated without them.
        let seen = Seen { record: Arc::clone(&before), fields: fields.clone() };
        let seen = T::present(ctx, registry, languages.clone(), seen, &written).await?;
        drop(resolve(&generation, &held.seen(&fields), None, make(&seen)?.details, &mut problems));
    }
    AppError::check(&mut problems)?;
    let found = Found::of(ctx, registry, &T::shown(&present, &fields), &draft).await?;
    let details = resolve(&generation, &held, Some((&found, Some(before.id))), draft, &mut problems);
    if hidden.is_empty() {
        T::check(ctx, &generation, &details, &hidden, &mut problems);
    } else {
        let whole = hidden.retained(&before.details, details.clone(), &mut problems);
        T::check(ctx, &generation, &whole, &hidden, &mut problems);
    }
    AppError::check(&mut problems)?;
    // Runs before the stored values are merged into the record: a number that is valid only for this request may
    // belong to another code there.
    let (details, stored) = consulted.finalise(ctx, registry, details).await?;
    let details = hidden.retained(&before.details, details, &mut problems);
    let mut details = written::keep(&before.details, details, &written);
    details.extension = with_undeclared(&generation, &before.details.extension, details.extension);
    let photo = photo.filter(|photo| {
        let has = |details: &Fields<T>| has_photo(details, photo.reference());
        has(&details) && !has(&before.details)
    });
    let targets = records::references(T::KIND, &details.identifiers);
    let entry = audit::entry(ctx, AuditAction::Update, AuditOutcome::Allowed, targets);
    write::<T>(ctx, registry, (&before, details, fields), (photo, stored), entry).await
}

/// Adds the relationships of a draft that a record does not have yet, and nothing else of it. Returns false if the
/// record has all of them. The actor is the administrator, who reads and writes every field. A dry run compares no
/// relationships with each other: those of the record may have been replaced in it.
///
/// # Errors
/// As [`change`].
pub(crate) async fn add_relationships<T: Editable>(
    ctx: &OpContext,
    registry: &Registry,
    (id, condition): (RecordId, &VersionCondition),
    draft: &Fields<T, CodeUri, IdentifierKey>,
    is_dry_run: bool,
) -> Result<bool, AppError>
where
    Fields<T>: Details + Into<RecordDetails>,
{
    let attempt = || add_relationships_once::<T>(ctx, registry, (id, condition), draft, is_dry_run);
    let refusal = || {
        let targets = records::references(T::KIND, &draft.identifiers);
        audit::entry(ctx, AuditAction::Update, AuditOutcome::Refused, targets)
    };
    records::changed(ctx, registry, condition, refusal, attempt).await
}

async fn add_relationships_once<T: Editable>(
    ctx: &OpContext,
    registry: &Registry,
    (id, condition): (RecordId, &VersionCondition),
    draft: &Fields<T, CodeUri, IdentifierKey>,
    is_dry_run: bool,
) -> Result<bool, AppError>
where
    Fields<T>: Details + Into<RecordDetails>,
{
    let before = records::by_id::<Fields<T>>(&*registry.store, id).await?;
    records::check_version(condition, before.meta.version)?;
    let written = written::named(T::KIND.resource(), ["relationship"]);
    let present = Seen { record: Arc::clone(&before), fields: FieldSet::All };
    let present = T::present(ctx, registry, LanguagePreference::none(), present, &written).await?;
    let known = (&T::shown(&present, &FieldSet::All), &Held::of::<T>(&before.details));
    let (listed, stored) = resolve_relationships(ctx, registry, draft, known, Some(id)).await?;
    let tag = T::RELATIONSHIP.tag();
    let present = list_items(&before.details, tag);
    let new = list_items(&listed, tag).iter().filter(|item| !present.contains(item));
    let all: Vec<Value> = present.iter().chain(new).cloned().collect();
    if all.len() == present.len() {
        return Ok(false);
    }
    if is_dry_run {
        return Ok(true);
    }
    let mut problems = Vec::new();
    check_items_max::<T>(tag, all.len(), &mut problems);
    let mut details = before.details.clone();
    details.put(tag, Some(Value::List(all)));
    check_relationships(&details, (T::KIND, T::RELATIONSHIP), &Hidden::default(), &mut problems);
    for problem in &mut problems {
        // Positions in the record are not those of the draft.
        "relationship".clone_into(&mut problem.field);
    }
    AppError::check(&mut problems)?;
    let targets = records::references(T::KIND, &details.identifiers);
    let entry = audit::entry(ctx, AuditAction::Update, AuditOutcome::Allowed, targets);
    write::<T>(ctx, registry, (&before, details, FieldSet::All), (None, stored), entry).await?;
    Ok(true)
}

/// Resolves the relationships of a draft, and nothing else of it. The record has the `held` codes, and displays the
/// `shown` records; `own` is its key, if it exists.
///
/// # Errors
/// As [`create`].
pub(crate) async fn resolve_relationships<T: Editable>(
    ctx: &OpContext,
    registry: &Registry,
    draft: &Fields<T, CodeUri, IdentifierKey>,
    (shown, held): (&Shown, &Held),
    own: Option<RecordId>,
) -> Result<(Fields<T>, Option<open_vocabulary::NumberedCodes>), AppError> {
    let tag = T::RELATIONSHIP.tag();
    let mut listed = Values::default();
    listed.put(tag, draft.value(tag).cloned());
    let draft = Fields::<T, CodeUri, IdentifierKey>::new(draft.identifiers.clone(), listed, Extension::default());
    let consulted =
        open_vocabulary::resolve(registry, registry.vocabularies.current(), || codes::of_draft(&draft)).await?;
    let generation = Arc::clone(&consulted.generation);
    let found = Found::of(ctx, registry, shown, &draft).await?;
    let mut problems = Vec::new();
    let listed = resolve(&generation, held, Some((&found, own)), draft, &mut problems);
    AppError::check(&mut problems)?;
    consulted.finalise(ctx, registry, listed).await
}

fn list_items<T: RecordType>(details: &Fields<T>, tag: Tag) -> &[Value] {
    if let Some(Value::List(items)) = details.value(tag) { items } else { &[] }
}

/// Adds a problem if a list has more items than its field may have.
fn check_items_max<T: RecordType>(tag: Tag, count: usize, problems: &mut Vec<FieldProblem>) {
    if let Some(Field { name, kind: Kind::List { items_max, .. }, .. }) = schema::row(Fields::<T>::schema(), tag)
        && count > *items_max
    {
        let message = format!("`{name}` has at most {items_max} items, those that have ended included");
        problems.push(FieldProblem::new(*name, "too_many", message));
    }
}

/// Writes the new content of a record if the record is unchanged since it was read, with a new photo and the numbers
/// assigned to its codes. Returns those fields of the record.
pub(crate) async fn write<T: Editable>(
    ctx: &OpContext,
    registry: &Registry,
    (before, details, fields): (&Record<Fields<T>>, Fields<T>, FieldSet),
    (photo, stored): (Option<Photo>, Option<open_vocabulary::NumberedCodes>),
    entry: AuditEntry,
) -> Result<Seen<Fields<T>>, AppError>
where
    Fields<T>: Details + Into<RecordDetails>,
{
    let entry = audit::with_changes(ctx, entry, written::changed_fields(Some(&before.details), &details));
    let operations = std::iter::once(Operation::update(before.id, before.meta.version, details))
        .chain(photo.map(Operation::PutPhoto))
        .chain(stored.as_ref().and_then(open_vocabulary::NumberedCodes::operation));
    let write = records::write(ctx, operations.collect(), entry);
    let record = open_vocabulary::commit(registry, write, stored).await?;
    Ok(Seen { record, fields })
}

fn check_identifiers<T: RecordType>(
    ctx: &OpContext,
    generation: &Generation,
    before: &Fields<T>,
    draft: &Fields<T, CodeUri, IdentifierKey>,
    problems: &mut Vec<FieldProblem>,
) -> Result<(), AppError> {
    let (before, now) = (&before.identifiers, &draft.identifiers);
    written::check_identifiers(ctx, T::KIND.resource(), before, now)?;
    identifiers::check((generation, utc_day(ctx.now)), T::KIND, before, now, problems);
    identifiers::check_retained(before, now, problems);
    Ok(())
}

fn has_photo<T>(details: &Fields<T>, reference: PhotoReference) -> bool {
    details.iter().any(|(_, value)| matches!(value, Value::Photo(photo) if **photo == reference))
}

/// The other records that a record has a relationship to.
pub(crate) fn relationship_targets(details: &Values, relationship: Key<List<Part>>) -> Vec<RecordId> {
    let targets = details.items(relationship).filter_map(|relationship| relationship.get(RELATIONSHIP_TARGET));
    targets.map(|target| target.id).collect()
}

/// Rejects duplicate relationships: the same other record of the same kind, with the same role, at the same time.
/// Problems use the positions that are visible to the client.
pub(crate) fn check_relationships(
    details: &Values,
    (kind, relationship): (RecordKind, Key<List<Part>>),
    hidden: &Hidden,
    problems: &mut Vec<FieldProblem>,
) {
    type Relationship = (RecordId, Option<CodedValue>, Period);
    let all = details.items(relationship).filter_map(|relationship| {
        let target = relationship.get(RELATIONSHIP_TARGET)?.id;
        let period = relationship.get(RELATIONSHIP_PERIOD).unwrap_or_default();
        Some((target, relationship.get(RELATIONSHIP_TYPE).copied(), period))
    });
    let all: Vec<Relationship> = all.filter(|(target, ..)| !hidden.holds(kind, *target)).collect();
    for (at, (target, kind, period)) in all.iter().enumerate() {
        let is_same = |earlier: &Relationship| {
            earlier.0 == *target && earlier.1 == *kind && earlier.2.overlaps(period) && *target != UNRESOLVED
        };
        if let Some(earlier) = all.iter().take(at).position(is_same) {
            problems.push(FieldProblem::new(
                format!("relationship[{at}]"),
                "duplicate",
                format!("the same relationship is relationship[{earlier}] already"),
            ));
        }
    }
}

/// The referenced records that are not visible to the client. The parts of a record that refer to them stay unchanged,
/// even if the client changes the record.
#[derive(Debug, Default)]
pub struct Hidden(HashSet<Reference>);

impl Hidden {
    /// Finds the hidden references of a stored record.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn of<T: RecordType>(
        ctx: &OpContext,
        registry: &Registry,
        details: &Fields<T>,
    ) -> Result<Self, AppError> {
        let mut by_kind: BTreeMap<RecordKind, Vec<RecordId>> = BTreeMap::new();
        for Reference { kind, id } in details.references() {
            by_kind.entry(*kind).or_default().push(*id);
        }
        let mut hidden = HashSet::new();
        for (kind, ids) in by_kind {
            let there = visibility::there(ctx, registry, kind, &ids).await?;
            let absent = ids.into_iter().filter(|id| !there.contains(id));
            hidden.extend(absent.map(|id| Reference { kind, id }));
        }
        Ok(Self(hidden))
    }

    /// True if every referenced record is visible.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if a record is not visible.
    pub(crate) fn holds(&self, kind: RecordKind, id: RecordId) -> bool {
        self.0.contains(&Reference { kind, id })
    }

    /// True if a value refers to a record that is not visible.
    pub(crate) fn is_in(&self, value: &Value) -> bool {
        value.references().into_iter().any(|reference| self.0.contains(reference))
    }

    /// A record without its hidden parts.
    pub(crate) fn without<'d, T: RecordType>(&self, details: &'d Fields<T>) -> Cow<'d, Fields<T>> {
        if self.is_empty() {
            return Cow::Borrowed(details);
        }
        let mut seen = details.clone();
        for (tag, value) in details.iter().filter(|(_, value)| self.is_in(value)) {
            let rest = if let Value::List(items) = value { items.as_slice() } else { &[] };
            let rest: Vec<Value> = rest.iter().filter(|item| !self.is_in(item)).cloned().collect();
            seen.put(tag, matches!(value, Value::List(_)).then_some(Value::List(rest)));
        }
        Cow::Owned(seen)
    }

    /// The record that a client requested, with hidden values unchanged at their positions. Of hidden items only the
    /// members of a group count towards the maximum: a rejection would reveal the number of others.
    pub(crate) fn retained<T: RecordType>(
        &self,
        before: &Fields<T>,
        mut now: Fields<T>,
        problems: &mut Vec<FieldProblem>,
    ) -> Fields<T> {
        for (tag, value) in before.iter().filter(|(_, value)| self.is_in(value)) {
            let Value::List(items) = value else {
                now.put(tag, Some(value.clone()));
                continue;
            };
            let wanted = if let Some(Value::List(wanted)) = now.take(tag) { wanted } else { Vec::new() };
            let merged = self.merged(items, wanted);
            if T::KIND == RecordKind::Group && tag == MEMBER.tag() {
                check_items_max::<T>(tag, merged.len(), problems);
            }
            now.put(tag, Some(Value::List(merged)));
        }
        now
    }

    /// Merges the requested items of a list with its hidden items, which stay at their positions.
    fn merged(&self, before: &[Value], wanted: Vec<Value>) -> Vec<Value> {
        let mut wanted = wanted.into_iter();
        let mut all = Vec::new();
        for item in before {
            if self.is_in(item) {
                all.push(item.clone());
            } else {
                all.extend(wanted.next());
            }
        }
        all.extend(wanted);
        all
    }

    /// The position of a list item among the visible items, as the client numbers them.
    pub(crate) fn shown_place<T: RecordType>(&self, details: &Fields<T>, list: Tag, at: usize) -> usize {
        let Some(Value::List(items)) = details.value(list) else { return at };
        items.iter().take(at).filter(|item| !self.is_in(item)).count()
    }
}

/// Replaces an invalid code until the record is rejected, a few statements later; never stored.
const REFUSED: CodedValue = CodedValue { number: CodeNumber(u32::MAX), edition: EditionNumber(u32::MAX) };

/// Replaces an unresolved reference in the same way; no record has that key.
pub(crate) const UNRESOLVED: RecordId = RecordId(u64::MAX);

/// Current display of the records that a record refers to.
#[derive(Debug, Default)]
pub struct Shown(HashMap<Reference<IdentifierKey>, Option<RecordId>>);

impl Shown {
    /// Builds the display of the records with these identifiers.
    pub(crate) fn of<'a>(others: impl Iterator<Item = (Reference, &'a [Identifier])>) -> Self {
        let mut shown: HashMap<Reference<IdentifierKey>, Option<RecordId>> = HashMap::new();
        for (Reference { kind, id }, identifiers) in others {
            let Some(called) = records::called(identifiers) else { continue };
            let called = Reference { kind, id: called.clone() };
            // Two records with the same display cannot be distinguished.
            shown.entry(called).and_modify(|one| *one = None).or_insert(Some(id));
        }
        Self(shown)
    }

    /// The record with that display.
    pub(crate) fn find(&self, reference: &Reference<IdentifierKey>) -> Option<RecordId> {
        self.0.get(reference).copied().flatten()
    }
}

/// Replaces each reference by the key of its record, by kind.
pub(crate) struct To<F>(pub F);

impl<I, F: FnMut(RecordKind) -> RecordId> Translate<CodedValue, I> for To<F> {
    type Code = CodedValue;
    type Id = RecordId;

    fn code(&mut self, _: CodePlace<'_>, _: &str, code: CodedValue) -> CodedValue {
        code
    }

    fn reference(&mut self, _: &str, reference: Reference<I>) -> Reference {
        Reference { kind: reference.kind, id: (self.0)(reference.kind) }
    }
}

/// The records that the references of a draft resolve to, or the causes of failed resolutions.
pub(crate) struct Found(HashMap<Reference<IdentifierKey>, Result<RecordId, FieldProblem>>);

impl Found {
    /// Resolves references that are not displayed already.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn of<T: RecordType>(
        ctx: &OpContext,
        registry: &Registry,
        shown: &Shown,
        draft: &Fields<T, CodeUri, IdentifierKey>,
    ) -> Result<Self, AppError> {
        let mut found = HashMap::new();
        for reference in draft.references() {
            if found.contains_key(reference) {
                continue;
            }
            let meant = match shown.find(reference) {
                Some(present) => Ok(present),
                None => match visibility::find(ctx, registry, reference.kind, &reference.id).await {
                    Ok((id, _)) => Ok(id),
                    Err(error) => Err(subjects::leads_nowhere("", error)?),
                },
            };
            found.insert(reference.clone(), meant);
        }
        Ok(Self(found))
    }
}

/// Checks every code of a draft against the vocabularies of its field, except the codes of the stored record, and
/// replaces references by the records found. `references` contains these records and the record that is changed; it is
/// absent if only codes are checked. Returns no record if problems were added.
pub(crate) fn resolve<T: RecordType>(
    generation: &Generation,
    held: &Held,
    references: Option<(&Found, Option<RecordId>)>,
    draft: Fields<T, CodeUri, IdentifierKey>,
    problems: &mut Vec<FieldProblem>,
) -> Fields<T> {
    let own = draft.identifiers.iter().filter(|identifier| identifier.is_open());
    let own = own.map(|identifier| Reference { kind: T::KIND, id: identifier.key.clone() }).collect();
    let of_references = Vec::new();
    let mut resolving = Resolving { generation, held, references, kind: T::KIND, own, problems, of_references };
    let details = draft.translate(&mut resolving);
    let Resolving { problems, of_references, .. } = resolving;
    problems.extend(of_references);
    details
}

struct Resolving<'r, 'p> {
    generation: &'r Generation,
    held: &'r Held,
    references: Option<(&'r Found, Option<RecordId>)>,
    kind: RecordKind,
    /// References to the record itself.
    own: Vec<Reference<IdentifierKey>>,
    problems: &'p mut Vec<FieldProblem>,
    /// Reported after the problems of codes.
    of_references: Vec<FieldProblem>,
}

impl Translate<CodeUri, IdentifierKey> for Resolving<'_, '_> {
    type Code = CodedValue;
    type Id = RecordId;

    fn code(&mut self, place: CodePlace<'_>, path: &str, code: CodeUri) -> CodedValue {
        resolve_at(self.generation, self.held, (place, path), &code, self.problems).unwrap_or(REFUSED)
    }

    fn reference(&mut self, path: &str, reference: Reference<IdentifierKey>) -> Reference {
        let id = self.meant(path, &reference).unwrap_or(UNRESOLVED);
        Reference { kind: reference.kind, id }
    }
}

impl Resolving<'_, '_> {
    fn meant(&mut self, path: &str, reference: &Reference<IdentifierKey>) -> Option<RecordId> {
        let (found, own) = self.references?;
        let found = found.0.get(reference)?;
        // Inside a part, a reference is an object.
        let field = if path.contains('.') { format!("{path}.reference") } else { path.to_owned() };
        let is_own = |id: RecordId| reference.kind == self.kind && own == Some(id);
        match found {
            Ok(id) if !is_own(*id) && !self.own.contains(reference) => return Some(*id),
            Err(problem) if !self.own.contains(reference) => {
                self.of_references.push(FieldProblem { field, ..problem.clone() });
            }
            Ok(_) | Err(_) => {
                let message = "a record has no relationship to itself".to_owned();
                self.of_references.push(FieldProblem::new(field, "self_reference", message));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::group::{GroupDetails, MEMBERS_MAX, Member};

    fn details(members: Option<&[u64]>) -> GroupDetails {
        let place = |id: &u64| Member { individual: RecordId(*id), role: None, period: None, is_inactive: false };
        GroupDetails::default().with(MEMBER, members.map(|ids| ids.iter().map(place).collect::<Vec<Member>>()))
    }

    fn hidden(individuals: &[u64]) -> Hidden {
        let person = |id: &u64| Reference { kind: RecordKind::Individual, id: RecordId(*id) };
        Hidden(individuals.iter().map(person).collect())
    }

    #[test]
    fn hidden_members_stay_in_their_places() {
        let hidden = hidden(&[8, 9]);
        for (before, wanted, after) in [
            (&[8, 1, 9, 2][..], Some(&[3, 1][..]), Some(&[8, 3, 9, 1][..])),
            (&[8, 1, 9, 2], Some(&[1, 2, 3]), Some(&[8, 1, 9, 2, 3])),
            (&[1, 8, 2], Some(&[2]), Some(&[2, 8])),
            (&[8], None, Some(&[8])),
            (&[1, 9], Some(&[]), Some(&[9])),
            (&[1], None, None),
            (&[1], Some(&[]), Some(&[])),
        ] {
            let mut problems = Vec::new();
            let merged = hidden.retained(&details(Some(before)), details(wanted), &mut problems);
            assert_eq!(merged.get(MEMBER), details(after).get(MEMBER), "{before:?} {wanted:?}");
            assert!(problems.is_empty());
        }
        let group = details(Some(&[8, 1, 9, 2]));
        assert_eq!(hidden.shown_place(&group, MEMBER.tag(), 3), 1);
        assert_eq!(hidden.without(&group).get(MEMBER), details(Some(&[1, 2])).get(MEMBER));
    }

    #[test]
    fn hidden_members_count_towards_the_most_there_can_be() {
        let hidden = hidden(&[1_000]);
        let wanted: Vec<u64> = (0..MEMBERS_MAX as u64).collect();
        for (count, is_refused) in [(MEMBERS_MAX - 1, false), (MEMBERS_MAX, true)] {
            let mut problems = Vec::new();
            let wanted = details(Some(&wanted[..count]));
            drop(hidden.retained(&details(Some(&[1_000])), wanted, &mut problems));
            assert_eq!(!problems.is_empty(), is_refused, "{count}");
        }
    }
}
