//! Checks of a running server, in addition to its files.

use jiff::Timestamp;

use super::{CheckedBy, Patient, SECONDS_OF_A_DAY, age, examine};
use crate::app::Upkeep;
use daftar_domain::audit::AuditOutcome;
use daftar_domain::audit::query::{AuditPosition, AuditQuery};
use daftar_domain::checkup::{Check, CheckArea};
use daftar_domain::error::AppError;
use daftar_http::state::StateParts;
use daftar_sandbox::BreakerState;
use daftar_service::backup::TARGET as BACKUP;
use daftar_service::follow::ClockDifference;
use daftar_service::plugin::InstalledPlugin;
use daftar_service::program::broken_rules;
use daftar_store::shared::{OtherReaders, ReportViews};

/// Maximum number of clients that a message names.
const NAMED_MAX: usize = 20;
/// Maximum number of audit entries about backups that are checked.
const BACKUP_LINES: usize = 20;
/// Age of the last backup above which a warning is reported.
const BACKUP_DAYS_MAX: i64 = 7;

/// Checks the set-up and the state of this server.
///
/// # Errors
/// If the audit log cannot be read.
pub(in crate::app) async fn checkup(app: &StateParts, upkeep: &Upkeep) -> Result<Vec<Check>, AppError> {
    let now = app.clock.now();
    // The caller of the report may use another working folder than the server.
    let data_dir = std::fs::canonicalize(&app.data_dir).unwrap_or_else(|_| app.data_dir.clone());
    let patient = Patient {
        config: app.config.clone(),
        data_dir: data_dir.clone(),
        now,
        built_from: upkeep.built_from,
        pinned: upkeep.pinned.clone(),
        checked_by: CheckedBy::Server,
    };
    let data_dir = data_dir.display().to_string();
    let looked = tokio::task::spawn_blocking(move || examine(&patient)).await;
    let mut checks = looked.map_err(AppError::of_task)?;
    checks.push(match app.readiness() {
        Ok(degraded) if degraded.is_empty() => Check::ok(CheckArea::DataFolder, "ready", "the server is ready"),
        Ok(degraded) => {
            let message = format!("the server is ready, and degraded: {}", degraded.join("; "));
            let remedy = "`daftar plugin list` shows the state of each plugin";
            Check::warning(CheckArea::DataFolder, "ready", message, remedy)
        }
        Err(reason) => {
            let message = format!("the server is not ready: {reason}");
            let remedy = "if the store has stopped, fix the cause in its log (space, disk) and restart the server";
            Check::problem(CheckArea::DataFolder, "ready", message, remedy)
        }
    });
    checks.extend(following(app));
    checks.extend(app.clock_difference().map(clocks));
    if let Some(follower) = &app.follower {
        checks.push(readers(&follower.other_readers().await?));
        checks.push(views(&follower.report_views().await?));
    }
    if app.transport.usage().certificate_is_stale {
        let message = "the files hold another certificate than the one in use, and it cannot be used";
        let remedy = "put certificate and key that belong together into the files; the server takes them by itself";
        checks.push(Check::problem(CheckArea::Certificate, "in_use", message, remedy));
    }
    let compiling = app.plugins.compiling();
    for unloaded in app.plugins.unloaded() {
        if compiling.contains(&unloaded.name) {
            let message = format!("the plugin `{}` is being compiled since the server started", unloaded.name);
            checks.push(Check::warning(CheckArea::Plugins, "active", message, "wait some seconds"));
            continue;
        }
        let message = format!("the plugin `{}` is installed and not active: {}", unloaded.name, unloaded.reason);
        // Without `--force` it is rejected: uses of a vocabulary that is not loaded cannot be counted.
        let remedy = format!(
            "install a version that goes with the others, or `daftar plugin remove {} --force --data-dir {data_dir}`",
            unloaded.name
        );
        checks.push(Check::problem(CheckArea::Plugins, "active", message, remedy));
    }
    checks.extend(app.plugins.list().iter().flat_map(|plugin| plugin_checks(plugin, &data_dir)));
    checks.extend(rules(app).await?);
    checks.extend(secrets(app, now, &data_dir));
    checks.push(last_backup(app, now, &data_dir).await?);
    checks.push(match app.imports.interrupted(now) {
        None => Check::ok(CheckArea::Imports, "interrupted", "no import was interrupted since the server started"),
        Some(since) => {
            let message = format!("an import was last heard of {} and has not ended", age(now, since));
            let remedy =
                format!("resume it: `daftar import FILE --resume --data-dir {data_dir}`, with the same other options");
            Check::warning(CheckArea::Imports, "interrupted", message, remedy)
        }
    });
    Ok(checks)
}

/// Checks the rules of programs, which a change of packs, concept groups or the engine may have invalidated; `None`
/// without an active engine.
async fn rules(app: &StateParts) -> Result<Option<Check>, AppError> {
    let broken = match broken_rules(&app.system_context(), &app.registry, &app.engine).await {
        Ok(broken) => broken,
        Err(AppError::NoEngine | AppError::EngineCompiling(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let named: Vec<String> = broken.iter().take(NAMED_MAX).map(|rule| format!("`{}`", rule.program)).collect();
    Ok(Some(match named.as_slice() {
        [] => Check::ok(CheckArea::Plugins, "rules", "the rules of all programs are valid"),
        named => {
            let message = format!("{} programs have rules that are not valid: {}", broken.len(), named.join(", "));
            let remedy =
                "`daftar program check` shows the errors; correct the rules, or go back with `daftar plugin rollback`";
            Check::problem(CheckArea::Plugins, "rules", message, remedy)
        }
    }))
}

/// Checks that this server receives the changes of other processes.
fn following(app: &StateParts) -> Option<Check> {
    let usage = app.follower.as_ref()?.usage();
    let area = CheckArea::DataFolder;
    if usage.is_listening && !usage.is_behind {
        return Some(Check::ok(area, "others", "changes by other processes are heard of as they are made"));
    }
    let message = if usage.is_behind {
        "changes by other processes cannot be applied at the moment"
    } else {
        "changes by other processes are not heard of at the moment; each request asks the database for them"
    };
    let remedy = "see that the database answers and takes one more connection from this server; its log says more";
    Some(Check::warning(area, "others", message, remedy))
}

fn secrets(app: &StateParts, now: Timestamp, data_dir: &str) -> Vec<Check> {
    let area = CheckArea::Secrets;
    let Some(days) = app.config.token.secret_age_warning() else {
        return vec![Check::ok(area, "age", "ages of secrets are not checked (`token.secret_age_warning_days` is 0)")];
    };
    let clients = app.clients.directory.all();
    let overdue: Vec<_> = clients.iter().filter(|client| client.has_overdue_secret(now, days)).collect();
    if overdue.is_empty() {
        let count = clients.len();
        return vec![Check::ok(
            area,
            "age",
            format_args!("no secret of the {count} clients is older than {days} days"),
        )];
    }
    let mut checks: Vec<Check> = overdue
        .iter()
        .take(NAMED_MAX)
        .map(|client| {
            let age_days = client.secrets.iter().map(|secret| secret.age_days(now)).max().unwrap_or_default();
            let message = format!("the client `{}` has a secret of {age_days} days", client.id);
            let remedy = format!("`daftar client rotate-secret {} --overlap 24h --data-dir {data_dir}`", client.id);
            Check::warning(area, "age", message, remedy)
        })
        .collect();
    if let Some(more) = overdue.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        let remedy = format!("`daftar client list --data-dir {data_dir}` shows them");
        checks.push(Check::warning(area, "age", format_args!("{more} more clients have old secrets"), remedy));
    }
    checks
}

/// Checks the time of the last backup, according to the audit log.
async fn last_backup(app: &StateParts, now: Timestamp, data_dir: &str) -> Result<Check, AppError> {
    let area = CheckArea::Backup;
    let query = AuditQuery { target: Some(BACKUP.to_owned()), ..AuditQuery::default() };
    let page = app.audit.look(query, AuditPosition::END, BACKUP_LINES).await?;
    let failed = |at: Timestamp| {
        // An interrupted operation has a second entry with the time of the same request.
        page.entries.iter().any(|line| line.outcome == AuditOutcome::Failed && line.at == at)
    };
    let made = page.entries.iter().filter(|line| line.outcome == AuditOutcome::Allowed).map(|line| line.at);
    let last = made.filter(|at| !failed(*at)).max();
    let remedy = format!("`daftar backup FILE --data-dir {data_dir}`, and let something do so every night");
    Ok(match last {
        Some(at) if now.duration_since(at).as_secs() > BACKUP_DAYS_MAX * SECONDS_OF_A_DAY => {
            Check::warning(area, "age", format_args!("the last backup was made {}", age(now, at)), remedy)
        }
        Some(at) => Check::ok(area, "age", format_args!("the last backup was made {}", age(now, at))),
        None => Check::warning(area, "age", "the audit log knows of no backup", remedy),
    })
}

/// Compares this server's clock with the database's clock, and so with those of the other servers.
fn clocks(difference: ClockDifference) -> Check {
    let (seconds, within) = (difference.seconds(), difference.within.as_secs_f64());
    let shown = format!("{seconds:+.1} s from the database's, to {within:.1} s");
    if difference.is_large() {
        let message = format!(
            "the clock of this server is {shown}: tokens of other servers may be refused here, and those of this one there"
        );
        let remedy =
            "keep the clocks of the database and of every server right by NTP: `timedatectl set-ntp true`, or chrony";
        return Check::problem(CheckArea::Clock, "database", message, remedy);
    }
    Check::ok(CheckArea::Clock, "database", format_args!("the clock of this server is {shown}"))
}

/// Checks for other roles with read access to the database.
fn readers(OtherReaders { of_tables, of_reports }: &OtherReaders) -> Check {
    let (area, name) = (CheckArea::Database, "readers");
    let listed = |roles: &[String]| roles.iter().map(|role| format!("`{role}`")).collect::<Vec<_>>().join(", ");
    let past = "what they read by SQL goes past consent, field limits and the audit log";
    if !of_tables.is_empty() {
        let message =
            format!("other roles may read or change the tables of the register: {}; {past}", listed(of_tables));
        let remedy = "take the rights away, `REVOKE ALL ON ALL TABLES IN SCHEMA daftar FROM …`, or the membership in a role that has them; people who report get `daftar_reader` (host/docs/POSTGRESQL.md)";
        return Check::warning(area, name, message, remedy);
    }
    if of_reports.is_empty() {
        return Check::ok(area, name, "no other role may read the database, but its owner and superusers");
    }
    let message = format!("other roles may read the schema `reporting`: {}; {past}", listed(of_reports));
    Check::ok(area, name, message)
}

/// Checks the views for reports by SQL.
fn views(state: &ReportViews) -> Check {
    let (area, name) = (CheckArea::Database, "views");
    let message = match state {
        ReportViews::Current => {
            return Check::ok(area, name, "the views of the schema `reporting` are those of this release, or of a newer one");
        }
        ReportViews::Outdated => {
            "the views of the schema `reporting` are those of another release: reports by SQL lack the changes of this one"
                .to_owned()
        }
        ReportViews::Missing(names) => {
            let named: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            format!("the schema `reporting` lacks views or functions for reports by SQL: {}", named.join(", "))
        }
    };
    let remedy = "`daftar migrate prepare --url-file FILE`, with the URL of the role that owns the tables (host/docs/POSTGRESQL.md)";
    Check::warning(area, name, message, remedy)
}

/// Checks a plugin; empty without findings.
fn plugin_checks(plugin: &InstalledPlugin, data_dir: &str) -> Vec<Check> {
    let (name, usage) = (&plugin.manifest().name, plugin.loaded().usage());
    let show = format!("`daftar plugin show {name} --data-dir {data_dir}` shows its faults; install a fixed version");
    let mut checks = Vec::new();
    match usage.breaker {
        BreakerState::Closed => {}
        BreakerState::Open { retry_after_s } => {
            let message = format!(
                "the plugin `{name}` is suspended after repeated faults; it is tried again in {retry_after_s} s"
            );
            checks.push(Check::problem(CheckArea::Plugins, "breaker", message, &show));
        }
        BreakerState::HalfOpen => {
            let message = format!("the plugin `{name}` kept failing and is being tried again");
            checks.push(Check::warning(CheckArea::Plugins, "breaker", message, &show));
        }
    }
    // Exhausted budgets of expressions are caused by the clients.
    let own: Vec<String> = usage
        .faults
        .iter()
        .filter(|(kind, count)| *count > 0 && plugin.loaded().is_own_fault(*kind))
        .map(|(kind, count)| format!("{count} × {}", kind.name()))
        .collect();
    if !own.is_empty() {
        let message = format!("the plugin `{name}` did not answer {} since it was loaded", own.join(", "));
        checks.push(Check::warning(CheckArea::Plugins, "faults", message, &show));
    }
    checks
}
