//! `/plugins` and `/plugin-reports`

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{delete, get, post};

use crate::admin::resource::{Administrator, KeyPath, Routes, show};
use crate::api::error::{ApiResult, Problem};
use crate::api::extract::body::read_bounded;
use crate::api::extract::query::{NoParameters, Parameters};
use crate::state::AppState;
use daftar_api_types::admin::plugin::{
    BreakerBody, ChangedOutcomeBody, EarlierPluginBody, FaultsBody, FieldCodeBody, FuelUseBody, LastFaultBody,
    LimitsUseBody, LogLinesBody, PluginBody, PluginLimitsBody, PluginsBody, ReportedRuleBody, ReviewBody,
    ReviewedProgramBody, SuccessorBody, TouchedCodeBody, TouchedRecordBody, UnloadedPluginBody, UnresolvedCodeBody,
    UpgradeReportBody, UseBody, VocabularyChangeBody,
};
use daftar_domain::calendar::format_instant;
use daftar_domain::error::AppError;
use daftar_domain::manifest::{PluginName, PluginVersion};
use daftar_service::plugin::{
    ChangedOutcome, CodeChange, DECISIONS_DEFAULT, DECISIONS_MAX, Downgrade, InstalledPlugin, Loss, PACKAGE_BYTES_MAX,
    PluginOffer, RECORDS_REPORTED_MAX, RecordedPlugin, Review, ReviewedProgram, SIGNATURE_BYTES_MAX, TouchedCode,
    TouchedRecord, UnloadedPlugin, UnresolvedCode, UnsignedPlugins, UpgradeReport, VocabularyChange,
};
use daftar_service::program::log_broken_rules;

/// The paths of plugins.
pub fn routes() -> Routes {
    vec![
        ("/plugins", get(list).post(install)),
        ("/plugins/{name}", show(installed).merge(delete(remove))),
        ("/plugins/{name}/rollback", post(roll_back)),
        ("/plugin-reports", post(report)),
        ("/plugin-reviews", post(review)),
    ]
}

/// Lists the installed plugins with their resource usage, and those that are not active.
async fn list(_: NoParameters, State(app): State<AppState>) -> Json<PluginsBody> {
    let data = app.plugins.list().iter().map(|plugin| plugin_body(&app, plugin)).collect();
    Json(PluginsBody { data, unloaded: app.plugins.unloaded().into_iter().map(unloaded_body).collect() })
}

/// Shows one installed plugin.
async fn installed(app: AppState, name: PluginName) -> Result<PluginBody, AppError> {
    let installed = app.plugins.list().into_iter().find(|plugin| plugin.manifest().name == name);
    let installed = installed.ok_or_else(|| AppError::UnknownPlugin(name.to_string()))?;
    Ok(plugin_body(&app, &installed))
}

/// The header with the line of the plugin's `.sig` file.
pub const SIGNATURE_HEADER: &str = "daftar-plugin-signature";

/// Installs the component in the body, with the signature in the header. `allow_unsigned=true` allows an unsigned
/// plugin, `allow_downgrade=true` an older version than the installed one, `accept_loss=true` a version that lacks
/// extension fields or concept groups of the installed one.
async fn install(
    call: Administrator,
    parameters: Parameters,
    request: Request,
) -> ApiResult<(StatusCode, Json<PluginBody>)> {
    parameters.expect_only(&["allow_unsigned", "allow_downgrade", "accept_loss"])?;
    let is_allowed = |name| -> ApiResult<bool> { Ok(parameters.boolean(name)?.unwrap_or(false)) };
    let unsigned = if is_allowed("allow_unsigned")? { UnsignedPlugins::Allowed } else { UnsignedPlugins::Refused };
    let downgrade = if is_allowed("allow_downgrade")? { Downgrade::Allowed } else { Downgrade::Refused };
    let loss = if is_allowed("accept_loss")? { Loss::Accepted } else { Loss::Refused };
    let signature = signature_of(request.headers())?;
    let bytes = read_bounded(request, PACKAGE_BYTES_MAX).await?;
    let offer = PluginOffer { bytes, signature, unsigned, downgrade, loss };
    let installed = call.app.plugins.install(&call.ctx, offer).await?;
    log_broken_rules(&call.ctx, &call.app.registry, &call.app.engine).await;
    Ok((StatusCode::CREATED, Json(plugin_body(&call.app, &installed))))
}

/// Installs again a version that the installed one replaced: the latest one, or that of `version`. `accept_loss` is as
/// for an install.
async fn roll_back(
    call: Administrator,
    KeyPath(name): KeyPath<PluginName>,
    parameters: Parameters,
) -> ApiResult<Json<PluginBody>> {
    parameters.expect_only(&["version", "accept_loss"])?;
    let version = parameters.one("version")?.map(PluginVersion::parse).transpose();
    let version = version.map_err(|error| Problem::malformed(format!("`version`: {error}")))?;
    let loss = if parameters.boolean("accept_loss")?.unwrap_or(false) { Loss::Accepted } else { Loss::Refused };
    let installed = call.app.plugins.roll_back(&call.ctx, &name, version, loss).await?;
    log_broken_rules(&call.ctx, &call.app.registry, &call.app.engine).await;
    Ok(Json(plugin_body(&call.app, &installed)))
}

/// Returns the signature sent with the plugin, if any.
fn signature_of(headers: &HeaderMap) -> ApiResult<Option<String>> {
    let mut values = headers.get_all(SIGNATURE_HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| text.len() <= SIGNATURE_BYTES_MAX && values.next().is_none());
    let detail = "the header `Daftar-Plugin-Signature` is not one line of a `.sig` file";
    text.map(|text| Some(text.to_owned())).ok_or_else(|| Problem::malformed(detail.to_owned()).into())
}

/// Removes a plugin; `force=true` also when records use its codes or programs name it.
async fn remove(
    call: Administrator,
    KeyPath(name): KeyPath<PluginName>,
    parameters: Parameters,
) -> ApiResult<StatusCode> {
    parameters.expect_only(&["force"])?;
    let is_forced = parameters.boolean("force")?.unwrap_or(false);
    call.app.plugins.remove(&call.ctx, &name, is_forced).await?;
    log_broken_rules(&call.ctx, &call.app.registry, &call.app.engine).await;
    Ok(StatusCode::NO_CONTENT)
}

/// Reports the changes that installing the component in the body would make; changes nothing. `records` is the maximum
/// number of affected records that the report names.
async fn report(call: Administrator, parameters: Parameters, request: Request) -> ApiResult<Json<UpgradeReportBody>> {
    parameters.expect_only(&["records"])?;
    let records = match parameters.one("records")? {
        None => 0,
        Some(text) => records_wanted(text)?,
    };
    let signature = signature_of(request.headers())?;
    let bytes = read_bounded(request, PACKAGE_BYTES_MAX).await?;
    // Nothing is installed, so no signature is required; an invalid one is reported all the same.
    let (unsigned, downgrade, loss) = (UnsignedPlugins::Allowed, Downgrade::Allowed, Loss::Accepted);
    let offer = PluginOffer { bytes, signature, unsigned, downgrade, loss };
    Ok(Json(report_body(call.app.plugins.report(&call.ctx, offer, records).await?)))
}

/// Compares the outcomes of programs' rules with the active plugins and with the component in the body; changes nothing.
/// `decisions` is the number of subjects.
async fn review(call: Administrator, parameters: Parameters, request: Request) -> ApiResult<Json<ReviewBody>> {
    parameters.expect_only(&["decisions"])?;
    let decisions = match parameters.one("decisions")? {
        None => DECISIONS_DEFAULT,
        Some(text) => text.parse().ok().filter(|count| (1..=DECISIONS_MAX).contains(count)).ok_or_else(|| {
            Problem::malformed(format!("`decisions` must be a whole number from 1 to {DECISIONS_MAX}"))
        })?,
    };
    let signature = signature_of(request.headers())?;
    let bytes = read_bounded(request, PACKAGE_BYTES_MAX).await?;
    // As for a report.
    let (unsigned, downgrade, loss) = (UnsignedPlugins::Allowed, Downgrade::Allowed, Loss::Accepted);
    let offer = PluginOffer { bytes, signature, unsigned, downgrade, loss };
    let Review { plugin, from, to, refusal, programs } = call.app.plugins.review(&call.ctx, offer, decisions).await?;
    let change = |ChangedOutcome { before, after, subjects, examples }: ChangedOutcome| ChangedOutcomeBody {
        before: before.name().to_owned(),
        after: after.name().to_owned(),
        subjects,
        examples,
    };
    let program = |ReviewedProgram { program, compared, changes, problem }: ReviewedProgram| ReviewedProgramBody {
        program,
        compared,
        changes: changes.into_iter().map(change).collect(),
        problem,
    };
    let programs = programs.into_iter().map(program).collect();
    Ok(Json(ReviewBody { plugin, from, to, refused: refusal, programs }))
}

fn records_wanted(text: &str) -> ApiResult<usize> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let count = text.parse().ok().filter(|count| is_number && *count <= RECORDS_REPORTED_MAX);
    count.ok_or_else(|| {
        Problem::malformed(format!("`records` must be a whole number from 0 to {RECORDS_REPORTED_MAX}")).into()
    })
}

fn plugin_body(app: &AppState, plugin: &InstalledPlugin) -> PluginBody {
    let (manifest, loaded) = (plugin.manifest(), plugin.loaded());
    let (usage, limits) = (loaded.usage(), loaded.limits());
    let failed = usage.faults.iter().filter(|(_, count)| *count > 0);
    let faults: Vec<FaultsBody> =
        failed.map(|(kind, count)| FaultsBody { kind: kind.name().to_owned(), count: *count }).collect();
    let of = |peak: u64, limit: usize| UseBody { peak: peak as f64, limit: limit as f64 };
    PluginBody {
        name: manifest.name.to_string(),
        version: manifest.version.to_string(),
        kind: manifest.kind.name().to_owned(),
        interface: manifest.interface.to_string(),
        digest: loaded.digest().to_string(),
        signer: plugin.signer.to_string(),
        size_bytes: loaded.size_bytes,
        compiled_bytes: loaded.compiled_bytes,
        installed_at: format_instant(plugin.installed_at),
        earlier: app
            .plugins
            .recorded(&manifest.name)
            .map_or_else(Vec::new, |recorded| recorded.earlier.iter().map(earlier_body).collect()),
        licence: manifest.licence.clone(),
        attribution: manifest.attribution.clone(),
        limits: PluginLimitsBody {
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
        r#use: LimitsUseBody {
            memory_bytes: of(usage.peak_memory_bytes, limits.memory_bytes),
            call_ms: UseBody { peak: milliseconds(usage.peak_time), limit: limits.call_ms as f64 },
            fuel: FuelUseBody {
                peak: usage.peak_fuel,
                peak_share: usage.peak_fuel_share,
                base: limits.fuel_base,
                per_row: limits.fuel_per_row,
            },
            input_bytes: of(usage.peak_input_bytes, limits.input_bytes),
            output_bytes: of(usage.peak_output_bytes, limits.output_bytes),
            concurrent_requests: of(usage.peak_requests, limits.concurrent_requests),
        },
        rejected: usage.rejected,
        log_lines: LogLinesBody { written: usage.log_lines, suppressed: usage.log_lines_suppressed },
        breaker: BreakerBody { state: usage.breaker.name().to_owned(), suspensions: usage.suspensions },
        last_fault: usage
            .last_fault
            .map(|last| LastFaultBody { kind: last.kind.name().to_owned(), at: format_instant(last.at) }),
    }
}

fn earlier_body(earlier: &RecordedPlugin) -> EarlierPluginBody {
    EarlierPluginBody {
        version: earlier.version.to_string(),
        digest: earlier.digest.to_string(),
        signer: earlier.signer.to_string(),
        installed_at: format_instant(earlier.installed_at),
    }
}

/// A time in milliseconds, to the microsecond.
fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1_000.0
}

fn unloaded_body(plugin: UnloadedPlugin) -> UnloadedPluginBody {
    let UnloadedPlugin { name, reason, recorded } = plugin;
    let unknown = UnloadedPluginBody { name: name.to_string(), reason, ..UnloadedPluginBody::default() };
    let Some(recorded) = recorded else { return unknown };
    UnloadedPluginBody {
        version: Some(recorded.version.to_string()),
        kind: Some(recorded.kind.name().to_owned()),
        digest: Some(recorded.digest.to_string()),
        signer: Some(recorded.signer.to_string()),
        installed_at: Some(format_instant(recorded.installed_at)),
        ..unknown
    }
}

fn report_body(report: UpgradeReport) -> UpgradeReportBody {
    UpgradeReportBody {
        plugin: report.plugin,
        from: report.from,
        to: report.to,
        refused: report.refusal,
        removed_fields: report.gone.fields,
        removed_concept_groups: report.gone.concept_groups,
        broken_rules: report
            .broken_rules
            .into_iter()
            .map(|(program, message)| ReportedRuleBody { program, message })
            .collect(),
        unresolved_codes: report.unresolved.into_iter().map(unresolved_body).collect(),
        vocabularies: report.vocabularies.into_iter().map(vocabulary_body).collect(),
        records: report.records.into_iter().map(record_body).collect(),
    }
}

fn unresolved_body(UnresolvedCode { uri, records, reason }: UnresolvedCode) -> UnresolvedCodeBody {
    UnresolvedCodeBody { uri, records, reason }
}

fn vocabulary_body(change: VocabularyChange) -> VocabularyChangeBody {
    VocabularyChangeBody {
        namespace: change.namespace,
        from: change.from,
        to: change.to,
        codes_added: change.added,
        removed_codes: change.gone,
        codes_retired: change.retired,
        codes_relabelled: change.relabelled,
        records_touched: change.records,
        codes: change.touched.into_iter().map(code_body).collect(),
        codes_not_named: change.unreported,
        unused_codes: change.unused,
        local_codes: change.local_codes,
    }
}

fn code_body(code: TouchedCode) -> TouchedCodeBody {
    let (change, new_display) = match code.change {
        CodeChange::Gone => ("gone", None),
        CodeChange::Retired => ("retired", None),
        CodeChange::Relabelled { display } => ("relabelled", Some(display)),
    };
    TouchedCodeBody {
        uri: code.uri,
        display: code.display,
        change: change.to_owned(),
        new_display,
        records: code.records,
        successor: code.successor.map(|(uri, display)| SuccessorBody { uri, display }),
    }
}

fn record_body(record: TouchedRecord) -> TouchedRecordBody {
    let codes = record.codes.into_iter().map(|(field, uri)| FieldCodeBody { field, uri }).collect();
    TouchedRecordBody { reference: record.reference, codes }
}
