//! Operations on consents. The administrator records and withdraws them; the organization that received a consent
//! reads it and may withdraw it.
//!
//! **Invariant:** the only change of a consent is its withdrawal, which is permanent. A changed consent of a subject
//! is a new consent.
//!
//! **Invariant:** for a client, a consent to an organization other than its own does not exist.

use std::sync::Arc;

use crate::edit::To;
use crate::registry::Registry;
use crate::{audit, identifiers, records, subjects, visibility};
use daftar_domain::audit::{Actor, AuditAction, AuditOutcome};
use daftar_domain::calendar::utc_day;
use daftar_domain::consent::{Consent, ConsentDetails, ConsentId, ConsentStatus, SUBJECT, WITHDRAWN};
use daftar_domain::context::{IdSource, OpContext};
use daftar_domain::error::AppError;
use daftar_domain::field::FieldSet;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::organization::Organization;
use daftar_domain::record::{RecordKind, VersionCondition};
use daftar_domain::search::{ConsentTerm, Page};
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_store::Operation;

/// A consent as a request contains it: the subject by identifier.
pub type ConsentDraft = ConsentDetails<IdentifierKey>;

/// A consent with its current state.
pub struct ConsentView {
    /// The consent.
    pub consent: Arc<Consent>,
    /// `Individual/<system>|<value>` or `Group/<system>|<value>`
    pub subject: String,
    /// Its position.
    pub status: ConsentStatus,
    /// Its visible fields.
    pub fields: FieldSet,
}

/// Generates the id of a consent.
///
/// # Errors
/// If the source of ids returns a value that is not a UUID.
pub fn new_id(ids: &dyn IdSource) -> Result<ConsentId, AppError> {
    ConsentId::parse(&ids.next_id()).map_err(|error| AppError::internal(error.to_string()))
}

/// Records a consent.
///
/// # Errors
/// [`AppError::Invalid`] if the subject does not resolve.
pub async fn create(ctx: &OpContext, registry: &Registry, draft: ConsentDraft) -> Result<ConsentView, AppError> {
    let given = draft.get(SUBJECT).cloned().and_then(SubjectReference::of);
    let given = given.ok_or_else(|| AppError::internal("a consent was read without its subject"))?;
    let kind = given.kind.record_kind();
    let found = visibility::find(ctx, registry, kind, &given.id).await;
    let (subject, _) = found.map_err(|error| subjects::invalid("subject", error))?;
    let details = draft.translate(&mut To(|_: RecordKind| subject));
    let targets = vec![details.id().reference(), records::reference(kind, &given.id)];
    let operation = Operation::create(details);
    let entry = audit::entry(ctx, AuditAction::Create, AuditOutcome::Allowed, targets);
    view(ctx, registry, records::commit(registry, records::write(ctx, vec![operation], entry)).await?).await
}

/// Reads a consent.
///
/// # Errors
/// [`AppError::NotFound`] if it does not exist, or is not visible to the caller.
pub async fn read(ctx: &OpContext, registry: &Registry, id: ConsentId) -> Result<ConsentView, AppError> {
    let found = match find(ctx, registry, id).await {
        Ok(consent) => view(ctx, registry, consent).await,
        Err(error) => Err(error),
    };
    let mut targets = vec![id.reference()];
    targets.extend(found.as_ref().ok().map(|view| view.subject.clone()));
    registry.audit.record_read(ctx, &found, targets, None).await?;
    found
}

/// Withdraws a consent; a withdrawn consent stays unchanged.
///
/// # Errors
/// As [`read`], and [`AppError::VersionMismatch`] if the condition is not met.
pub async fn withdraw(
    ctx: &OpContext,
    registry: &Registry,
    id: ConsentId,
    condition: &VersionCondition,
) -> Result<ConsentView, AppError> {
    let refusal = || audit::entry(ctx, AuditAction::Update, AuditOutcome::Refused, vec![id.reference()]);
    records::changed(ctx, registry, condition, refusal, || withdraw_once(ctx, registry, id, condition)).await
}

async fn withdraw_once(
    ctx: &OpContext,
    registry: &Registry,
    id: ConsentId,
    condition: &VersionCondition,
) -> Result<ConsentView, AppError> {
    let before = find(ctx, registry, id).await?;
    records::check_version(condition, before.meta.version)?;
    let subject = subjects::called(&*registry.store, before.details.subject()).await?;
    let mut entry = audit::entry(ctx, AuditAction::Update, AuditOutcome::Allowed, vec![id.reference(), subject]);
    if before.details.is_withdrawn() {
        entry.note = Some("was withdrawn already".to_owned());
        registry.audit.record(ctx, entry).await?;
        return view(ctx, registry, before).await;
    }
    entry.note = Some("withdrawn".to_owned());
    let details = before.details.clone().with(WITHDRAWN, true);
    let operation = Operation::update(before.id, before.meta.version, details);
    view(ctx, registry, records::commit(registry, records::write(ctx, vec![operation], entry)).await?).await
}

/// The consent with that id, if it is visible to the caller.
async fn find(ctx: &OpContext, registry: &Registry, id: ConsentId) -> Result<Arc<Consent>, AppError> {
    let consent = records::find::<ConsentDetails>(&*registry.store, &id.key()).await?;
    let is_seen = match &ctx.actor {
        Actor::Client(_) => ctx.organization.as_ref().map(Organization::as_str) == Some(consent.details.grantee()),
        Actor::Administrator | Actor::System => true,
        Actor::Unknown => false,
    };
    if is_seen { Ok(consent) } else { Err(AppError::NotFound(RecordKind::Consent)) }
}

/// Conditions on consents, all of which must hold. Empty: every consent.
#[derive(Debug, Default)]
pub struct ConsentQuery {
    /// Subjects of a consent, of these kinds.
    pub subjects: Vec<(Vec<Subject>, IdentifierKey)>,
    /// The organization.
    pub grantee: Option<Organization>,
}

/// Result of a search.
pub struct ConsentPage {
    /// Total number.
    pub total: u64,
    /// The consents of the page, in the order of registration.
    pub consents: Vec<ConsentView>,
}

/// Searches consents, for the administrator.
///
/// # Errors
/// [`AppError::Invalid`] when the system of an identifier is not known; when the store fails.
pub async fn search(
    ctx: &OpContext,
    registry: &Registry,
    query: ConsentQuery,
    page: Page,
) -> Result<ConsentPage, AppError> {
    let mut conditions = Vec::new();
    for (kinds, key) in &query.subjects {
        let carriers = subjects::carriers(&*registry.store, kinds, key).await?;
        identifiers::check_filter(registry, "subject", key, !carriers.is_empty())?;
        conditions.push(carriers.into_iter().map(ConsentTerm::Subject).collect());
    }
    conditions.extend(query.grantee.map(|grantee| vec![ConsentTerm::Grantee(grantee)]));
    let found = registry.index.current().await.consents(&conditions, page).await?;
    let mut consents = Vec::with_capacity(found.ids.len());
    for id in found.ids {
        consents.push(view(ctx, registry, records::by_id(&*registry.store, id).await?).await?);
    }
    let targets = consents.iter().map(|view| view.subject.clone()).collect();
    registry.audit.record_search(ctx, targets, "searched consents").await?;
    Ok(ConsentPage { total: found.total, consents })
}

async fn view(ctx: &OpContext, registry: &Registry, consent: Arc<Consent>) -> Result<ConsentView, AppError> {
    let subject = subjects::called(&*registry.store, consent.details.subject()).await?;
    let status = consent.details.status(utc_day(ctx.now));
    let fields = visibility::of(ctx, registry, RecordKind::Consent, consent.id).await?;
    let fields = fields.ok_or(AppError::NotFound(RecordKind::Consent))?;
    Ok(ConsentView { consent, subject, status, fields })
}
