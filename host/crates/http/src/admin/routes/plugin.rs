//! `/plugins`

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use serde::Serialize;

use super::client::unreadable;
use crate::admin::access::Administrator;
use crate::admin::dto::plugin_use::{PluginUseBody, milliseconds};
use crate::api::error::{ApiError, Problem};
use crate::api::extract::body::read_bounded;
use crate::api::extract::query::{NoParameters, Parameters, RawQuery};
use crate::state::AppState;
use daftar_domain::calendar::format_instant;
use daftar_domain::manifest::PluginName;
use daftar_service::plugin::{
    Downgrade, InstalledPlugin, PACKAGE_BYTES_MAX, PluginOffer, RecordedPlugin, SIGNATURE_BYTES_MAX, UnloadedPlugin,
    UnsignedPlugins,
};
use daftar_service::program::rules;

/// A plugin as the administrator sees it.
#[derive(Debug, Serialize)]
pub struct PluginBody {
    name: String,
    version: String,
    kind: &'static str,
    interface: String,
    digest: String,
    signer: String,
    size_bytes: usize,
    compiled_bytes: usize,
    installed_at: String,
    licence: String,
    attribution: String,
    limits: LimitsBody,
    calls: u64,
    faults: u64,
    faults_by_kind: Vec<FaultBody>,
    peak_memory_bytes: u64,
    peak_fuel: u64,
    peak_time_ms: f64,
    #[serde(flatten)]
    plugin_use: PluginUseBody,
}

/// What a plugin may use at most.
#[derive(Debug, Serialize)]
struct LimitsBody {
    memory_bytes: usize,
    table_elements: usize,
    core_instances: usize,
    call_ms: u64,
    fuel_base: u64,
    fuel_per_row: u64,
    input_bytes: usize,
    output_bytes: usize,
    host_calls: u64,
    host_call_bytes: usize,
    concurrent_requests: usize,
}

#[derive(Debug, Serialize)]
struct FaultBody {
    kind: &'static str,
    count: u64,
}

impl From<&InstalledPlugin> for PluginBody {
    fn from(plugin: &InstalledPlugin) -> Self {
        let (manifest, loaded) = (plugin.manifest(), plugin.loaded());
        let (usage, limits) = (loaded.usage(), loaded.limits());
        let faults: Vec<FaultBody> = usage
            .faults
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(kind, count)| FaultBody { kind: kind.name(), count: *count })
            .collect();
        Self {
            name: manifest.name.to_string(),
            version: manifest.version.to_string(),
            kind: manifest.kind.as_str(),
            interface: manifest.interface.to_string(),
            digest: loaded.digest().to_string(),
            signer: plugin.signer().to_string(),
            size_bytes: loaded.size_bytes(),
            compiled_bytes: loaded.compiled_bytes(),
            installed_at: format_instant(plugin.installed_at()),
            licence: manifest.licence.clone(),
            attribution: manifest.attribution.clone(),
            limits: LimitsBody {
                memory_bytes: limits.memory_bytes,
                table_elements: limits.table_elements,
                core_instances: limits.core_instances,
                call_ms: limits.call_ms,
                fuel_base: limits.fuel_base,
                fuel_per_row: limits.fuel_per_row,
                input_bytes: limits.input_bytes,
                output_bytes: limits.output_bytes,
                host_calls: limits.host_calls,
                host_call_bytes: limits.host_call_bytes,
                concurrent_requests: limits.concurrent_requests,
            },
            calls: usage.calls,
            faults: faults.iter().map(|fault| fault.count).sum(),
            faults_by_kind: faults,
            peak_memory_bytes: usage.peak_memory_bytes,
            peak_fuel: usage.peak_fuel,
            peak_time_ms: milliseconds(usage.peak_time),
            plugin_use: PluginUseBody::from(plugin),
        }
    }
}

/// What is installed, and what of it is not in force.
#[derive(Debug, Serialize)]
pub struct PluginsBody {
    data: Vec<PluginBody>,
    unloaded: Vec<UnloadedBody>,
}

/// An installed plugin that is not in force, with the reason. One that could be loaded is among the others too.
#[derive(Debug, Serialize)]
struct UnloadedBody {
    name: String,
    reason: String,
    #[serde(flatten)]
    recorded: Option<RecordedBody>,
}

/// What the list of installed plugins says of one that is not in force.
#[derive(Debug, Serialize)]
struct RecordedBody {
    version: String,
    kind: &'static str,
    digest: String,
    signer: String,
    installed_at: String,
}

impl From<RecordedPlugin> for RecordedBody {
    fn from(recorded: RecordedPlugin) -> Self {
        Self {
            version: recorded.version.to_string(),
            kind: recorded.kind.as_str(),
            digest: recorded.digest.to_string(),
            signer: recorded.signer.to_string(),
            installed_at: format_instant(recorded.installed_at),
        }
    }
}

impl From<UnloadedPlugin> for UnloadedBody {
    fn from(plugin: UnloadedPlugin) -> Self {
        let UnloadedPlugin { name, reason, recorded } = plugin;
        Self { name: name.to_string(), reason, recorded: recorded.map(RecordedBody::from) }
    }
}

/// Lists what is installed, with what it used of its limits, and what of it is not in force.
pub async fn list(_: NoParameters, State(app): State<AppState>) -> Json<PluginsBody> {
    let data = app.plugins.list().iter().map(PluginBody::from).collect();
    Json(PluginsBody { data, unloaded: app.plugins.unloaded().into_iter().map(UnloadedBody::from).collect() })
}

/// The header with the line of the plugin's `.sig` file.
pub const SIGNATURE_HEADER: &str = "daftar-plugin-signature";

/// Installs the component that is the body, with the signature that is in the header; `allow_unsigned=true` also when nobody
/// vouches for it, `allow_downgrade=true` also when a newer version is installed.
pub async fn install(
    Administrator(ctx): Administrator,
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<(StatusCode, Json<PluginBody>), ApiError> {
    let parameters = Parameters::parse(&query)?;
    parameters.expect_only(&["allow_unsigned", "allow_downgrade"])?;
    let unsigned = match parameters.boolean("allow_unsigned")? {
        Some(true) => UnsignedPlugins::Allowed,
        Some(false) | None => UnsignedPlugins::Refused,
    };
    let downgrade = match parameters.boolean("allow_downgrade")? {
        Some(true) => Downgrade::Allowed,
        Some(false) | None => Downgrade::Refused,
    };
    let signature = signature_of(request.headers())?;
    let bytes = read_bounded(request, PACKAGE_BYTES_MAX).await?;
    let installed = app.plugins.install(&ctx, PluginOffer { bytes, signature, unsigned, downgrade }).await?;
    rules::tell_broken(&ctx, &app.registry, &app.engine).await;
    Ok((StatusCode::CREATED, Json(PluginBody::from(&installed))))
}

/// The signature that came with the plugin, if one did.
pub(super) fn signature_of(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut values = headers.get_all(SIGNATURE_HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| text.len() <= SIGNATURE_BYTES_MAX && values.next().is_none());
    let detail = "the header `Daftar-Plugin-Signature` is not one line of a `.sig` file";
    text.map(|text| Some(text.to_owned())).ok_or_else(|| Problem::malformed(detail.to_owned()).into())
}

/// Removes a plugin; `force=true` also when records use its codes.
pub async fn remove(
    Administrator(ctx): Administrator,
    State(app): State<AppState>,
    name: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Result<StatusCode, ApiError> {
    let Path(name) = name.map_err(unreadable)?;
    let parameters = Parameters::parse(&query)?;
    parameters.expect_only(&["force"])?;
    let is_forced = parameters.boolean("force")?.unwrap_or(false);
    let name = PluginName::parse(&name).map_err(|error| Problem::malformed(error.to_string()))?;
    app.plugins.remove(&ctx, &name, is_forced).await?;
    rules::tell_broken(&ctx, &app.registry, &app.engine).await;
    Ok(StatusCode::NO_CONTENT)
}
