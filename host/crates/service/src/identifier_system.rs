//! What the administrator does with systems of identifiers.
//!
//! **Invariant:** identifiers that records carry stay right, whatever becomes of their system: it only says which new ones may
//! be given.

use crate::vocabulary_publisher::{Decision, VocabularyPublisher};
use daftar_domain::code::CodeUri;
use daftar_domain::context::OpContext;
use daftar_domain::deployment::{Deployment, Setting, SettingKey};
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::error_code::ErrorCode;
use daftar_domain::identifier::SystemUri;
use daftar_domain::identifier::{IDENTIFIER_SYSTEMS_MAX, IdentifierSystem};
use daftar_domain::vocabulary::ID_TYPE_NAMESPACE;
use daftar_vocabulary::Generation;

/// Registers a system.
///
/// # Errors
/// [`AppError::Invalid`] for a code of the ID types, [`AppError::Conflict`] when it is registered already or there is no room, or
/// when the store fails.
pub async fn add(
    ctx: &OpContext,
    publisher: &VocabularyPublisher,
    uri: SystemUri,
) -> Result<IdentifierSystem, AppError> {
    let system = IdentifierSystem { uri, created_at: ctx.now };
    let (target, new) = (system.uri.to_string(), system.clone());
    let decide = move |deployment: &Deployment, _: &Generation| {
        let is_id_type = CodeUri::parse(new.uri.as_str()).is_ok_and(|uri| uri.namespace.as_str() == ID_TYPE_NAMESPACE);
        if is_id_type || new.uri.as_str() == ID_TYPE_NAMESPACE {
            let message = format!(
                "codes of `{ID_TYPE_NAMESPACE}` are systems by themselves; add one of your own with `daftar code add`"
            );
            return Err(AppError::invalid("uri", "id_type", message));
        }
        if deployment.identifier_system(&new.uri).is_some() {
            let message = format!("the identifier system `{}` is registered already", new.uri);
            return Err(AppError::Conflict(ErrorCode::AlreadyExists, message));
        }
        if deployment.identifier_systems().len() >= IDENTIFIER_SYSTEMS_MAX {
            let message = format!("there are {IDENTIFIER_SYSTEMS_MAX} identifier systems, and no more are kept");
            return Err(AppError::Conflict(ErrorCode::LimitReached, message));
        }
        Ok(Decision::Put(Box::new(Setting::IdentifierSystem(new))))
    };
    publisher.decide(ctx, target, "identifier system added", decide).await?;
    Ok(system)
}

/// Takes a system out: no new identifiers may be of it; those that records carry stay.
///
/// # Errors
/// [`AppError::NotThere`] when it is not registered, or when the store fails.
pub async fn remove(ctx: &OpContext, publisher: &VocabularyPublisher, uri: &SystemUri) -> Result<(), AppError> {
    let of = uri.clone();
    let decide = move |deployment: &Deployment, _: &Generation| {
        if deployment.identifier_system(&of).is_none() {
            let message = format!(
                "no identifier system `{of}` is registered; `daftar identifier-system list` shows which ones are"
            );
            let field = "uri".to_owned();
            return Err(AppError::NotThere(FieldProblem { field, code: "unknown_system", message }));
        }
        Ok(Decision::Remove(SettingKey::IdentifierSystem(of)))
    };
    publisher.decide(ctx, uri.to_string(), "identifier system removed", decide).await
}

/// The registered systems, by URI.
#[must_use]
pub fn list(publisher: &VocabularyPublisher) -> Vec<IdentifierSystem> {
    publisher.deployment().identifier_systems().cloned().collect()
}
