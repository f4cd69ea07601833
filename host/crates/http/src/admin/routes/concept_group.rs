//! `/concept-groups`

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};

use super::client::unreadable;
use crate::admin::access::Administrator;
use crate::admin::dto::ListBody;
use crate::admin::dto::concept_group::{ConceptGroupBody, read};
use crate::api::dto::reader::Problems;
use crate::api::error::ApiError;
use crate::api::extract::body::JsonObject;
use crate::api::extract::query::NoParameters;
use crate::state::AppState;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_service::concept_group;
use daftar_service::program::rules;

/// Lists all concept groups, whoever defines them.
pub async fn list(_: NoParameters, State(app): State<AppState>) -> Json<ListBody<ConceptGroupBody>> {
    let generation = app.registry.vocabularies.current();
    Json(ListBody { data: generation.concept_groups().map(ConceptGroupBody::from).collect() })
}

/// Shows one concept group.
pub async fn show(
    _: NoParameters,
    State(app): State<AppState>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<ConceptGroupBody>, ApiError> {
    let Path(name) = name.map_err(unreadable)?;
    Ok(Json(shown(&app, &name)?))
}

/// Defines a concept group for this deployment.
pub async fn set(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    name: Result<Path<String>, PathRejection>,
    JsonObject(members): JsonObject,
) -> Result<Json<ConceptGroupBody>, ApiError> {
    let Path(name) = name.map_err(unreadable)?;
    let mut problems = Problems::default();
    let group = read(name.clone(), members, &mut problems);
    let group = problems.finish(group)?;
    concept_group::set(&ctx, &app.vocabulary_publisher, group).await?;
    rules::tell_broken(&ctx, &app.registry, &app.engine).await;
    Ok(Json(shown(&app, &name)?))
}

/// Takes the deployment's definition back; answers with what counts then, or with nothing when nobody defines it.
pub async fn reset(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<Option<ConceptGroupBody>>, ApiError> {
    let Path(name) = name.map_err(unreadable)?;
    concept_group::reset(&ctx, &app.vocabulary_publisher, &name).await?;
    rules::tell_broken(&ctx, &app.registry, &app.engine).await;
    Ok(Json(shown(&app, &name).ok()))
}

fn shown(app: &AppState, name: &str) -> Result<ConceptGroupBody, ApiError> {
    let generation = app.registry.vocabularies.current();
    let found = generation.concept_group(name).map(ConceptGroupBody::from);
    found.ok_or_else(|| {
        let known: Vec<&str> = generation.concept_groups().map(|group| group.definition().name.as_str()).collect();
        let message = format!("there is no such concept group; there are: {}", known.join(", "));
        AppError::NotThere(FieldProblem { field: "name".to_owned(), code: "unknown_concept_group", message }).into()
    })
}
