//! `/plugins/{name}`: one plugin, with what it used.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};

use super::client::unreadable;
use super::plugin::PluginBody;
use crate::api::error::{ApiError, Problem};
use crate::api::extract::query::NoParameters;
use crate::state::AppState;
use daftar_domain::error::AppError;
use daftar_domain::manifest::PluginName;

/// Shows one installed plugin.
pub async fn show(
    _: NoParameters,
    State(app): State<AppState>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<PluginBody>, ApiError> {
    let Path(name) = name.map_err(unreadable)?;
    let name = PluginName::parse(&name).map_err(|error| Problem::malformed(error.to_string()))?;
    let installed = app.plugins.list().into_iter().find(|plugin| plugin.manifest().name == name);
    let installed = installed.ok_or_else(|| AppError::UnknownPlugin(name.to_string()))?;
    Ok(Json(PluginBody::from(&installed)))
}
