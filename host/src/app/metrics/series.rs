//! The gauges and counters of the server. `host/docs/METRICS.md` lists them.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::MetricsSnapshot;
use crate::app::Upkeep;
use crate::app::open::MIB;
use crate::telemetry::Telemetry;
use daftar_http::state::StateParts;
use daftar_sandbox::{BreakerState, PluginLimits, PluginUsage};
use daftar_service::follow::FollowerUsage;
use daftar_service::plugin::InstalledPlugin;
use daftar_store_postgres::PostgresUsage;

/// Adds series to a snapshot: `name [labels] = value`. Their documentation is the description that the page and a collector show.
macro_rules! series {
    ($snapshot:ident.$kind:ident: $(#[doc = $text:literal] $name:literal $([$($label:expr),+])? = $value:expr;)+) => {
        $($snapshot.$kind($name, $text.trim_ascii_start(), &[$($($label),+)?], $value);)+
    };
}

/// The gauges and counters as they are now.
pub(in crate::app) fn snapshot(app: &StateParts, upkeep: &Upkeep) -> MetricsSnapshot {
    let mut now = MetricsSnapshot::default();
    series! { now.gauge:
        /// The version that runs.
        "daftar_build_info" [("version", env!("CARGO_PKG_VERSION"))] = 1.0;
        /// 1 while requests can be served, as `/health/ready` says.
        "daftar_ready" = flag(app.readiness().is_ok());
    }
    now.process();
    now.limits(app);
    now.store(app, upkeep);
    now.follower(app);
    now.telemetry(&upkeep.telemetry);
    now.access(app);
    now.previews(app);
    now.transport(app);
    now.plugins(app);
    for plugin in app.plugins.list() {
        now.plugin(&plugin);
    }
    now
}

impl MetricsSnapshot {
    fn process(&mut self) {
        if let Some(bytes) = resident_bytes() {
            series! { self.gauge:
                /// Resident memory of the process.
                "process_resident_memory_bytes" = bytes;
            }
        }
        if let Some(started) = started_s() {
            series! { self.gauge:
                /// When the process started.
                "process_start_time_seconds" = started;
            }
        }
        if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
            // Looking opens one as well.
            series! { self.gauge:
                /// Files and connections that the process has open.
                "process_open_fds" = number(files.count().saturating_sub(1));
            }
        }
        if let Some(most) = getrlimit(Resource::Nofile).current {
            series! { self.gauge:
                /// How many it may.
                "process_max_fds" = number(most);
            }
        }
        let used = clock_gettime(ClockId::ProcessCPUTime);
        series! { self.counter:
            /// Processor time that the process took.
            "process_cpu_seconds_total" = u64::try_from(used.tv_sec).unwrap_or(0);
        }
    }

    fn limits(&mut self, app: &StateParts) {
        for bucket in app.limits.usage() {
            let of = ("bucket", bucket.bucket);
            series! { self.gauge:
                /// Clients or addresses that a bucket of the rate limits keeps.
                "daftar_limit_keys" [of] = number(bucket.keys);
                /// How many it may.
                "daftar_limit_keys_limit" [of] = number(bucket.keys_max);
            }
            for (reason, count) in bucket.refused {
                series! { self.counter:
                    /// Calls that were answered 429, by bucket and reason.
                    "daftar_limit_refusals_total" [of, ("reason", reason)] = count;
                }
            }
        }
    }

    fn store(&mut self, app: &StateParts, upkeep: &Upkeep) {
        let usage = upkeep.keeper.usage();
        for (outcome, count) in usage.writes {
            series! { self.counter:
                /// Writes of use cases, by how they ended.
                "daftar_store_writes_total" [("outcome", outcome)] = count;
            }
        }
        series! { self.counter:
            /// Writes of records in the register's whole life.
            "daftar_store_sequence_total" = usage.sequence;
        }
        series! { self.gauge:
            /// 1 while the store works; 0 after a failure, until the next start.
            "daftar_store_up" = flag(usage.is_sound);
            /// Jobs that wait for the store's writer or are being written.
            "daftar_store_writes_waiting" = number(usage.waiting);
            /// How many may; one more is answered 503.
            "daftar_store_writes_waiting_limit" = number(usage.waiting_max);
            /// Lines of the audit log that wait to be written.
            "daftar_audit_lines_waiting" = number(usage.audit_lines);
            /// How many may; one more is answered 503.
            "daftar_audit_lines_waiting_limit" = number(usage.audit_lines_max);
            /// Memory of the lines that wait.
            "daftar_audit_lines_waiting_bytes" = number(usage.audit_bytes);
            /// Requests of one client that are remembered by their Idempotency-Key, at most.
            "daftar_requests_remembered_limit" = number(app.config.server.idempotency_keys_max);
        }
        if let Some(bytes) = usage.disk_bytes {
            series! { self.gauge:
                /// What the files of the store take on disk.
                "daftar_store_disk_bytes" = number(bytes);
            }
        }
        self.disk("data", &app.data_dir);
        match upkeep.keeper.database() {
            Some(usage) => self.database(app, &usage),
            None => self.embedded(app),
        }
        let bodies = app.registry.bodies.usage();
        series! { self.counter:
            /// Bodies of people that were asked for, by whether they were kept.
            "daftar_bodies_lookups_total" [("outcome", "hit")] = bodies.hits;
            /// Bodies of people that were asked for, by whether they were kept.
            "daftar_bodies_lookups_total" [("outcome", "miss")] = bodies.misses;
        }
        series! { self.gauge:
            /// Bodies of people that are kept.
            "daftar_bodies_entries" = number(bodies.entries);
            /// Memory of bodies that are kept.
            "daftar_bodies_bytes" = number(bodies.bytes);
        }
        if let Some(usage) = upkeep.checkpoints.as_ref().map(|checkpoints| checkpoints.usage()) {
            if let Some(age) = usage.age {
                series! { self.gauge:
                    /// How long ago the last checkpoint was written, or read at the start.
                    "daftar_checkpoint_age_seconds" = age.as_secs_f64();
                }
            }
            series! { self.gauge:
                /// Writes that the last checkpoint does not show.
                "daftar_checkpoint_writes_behind" = number(usage.writes_behind);
                /// 1 where the last try to write a checkpoint failed.
                "daftar_checkpoint_failed" = flag(usage.has_failed);
            }
        }
        if let Some(last) = app.backups.last() {
            series! { self.gauge:
                /// As of when the last whole backup was.
                "daftar_backup_last_timestamp_seconds" = last.as_second() as f64;
            }
        }
    }

    fn disk(&mut self, folder: &str, path: &Path) {
        let Ok(disk) = rustix::fs::statvfs(path) else { return };
        series! { self.gauge:
            /// Room that is left on the disk of a folder.
            "daftar_disk_free_bytes" [("folder", folder)] = number(disk.f_bavail.saturating_mul(disk.f_frsize));
            /// Room that the disk of a folder has in all.
            "daftar_disk_size_bytes" [("folder", folder)] = number(disk.f_blocks.saturating_mul(disk.f_frsize));
        }
    }

    fn embedded(&mut self, app: &StateParts) {
        series! { self.gauge:
            /// Memory that the store's cache may take.
            "daftar_store_cache_limit_bytes" = number(app.config.store.cache_mib.saturating_mul(MIB));
        }
        self.disk("store", &app.config.store.folder(&app.data_dir));
        let snapshot = app.registry.columns.snapshot();
        for (kind, count) in [("individual", snapshot.individual_count()), ("group", snapshot.group_count())] {
            series! { self.gauge:
                /// Records in the register, ended ones included.
                "daftar_records" [("kind", kind)] = number(count);
            }
        }
    }

    fn database(&mut self, app: &StateParts, usage: &PostgresUsage) {
        let in_use = usage.connections.saturating_sub(usage.connections_idle);
        for (state, count) in [("idle", usage.connections_idle), ("in_use", in_use)] {
            series! { self.gauge:
                /// Connections for reads, by whether somebody uses them.
                "daftar_database_connections" [("state", state)] = number(count);
            }
        }
        series! { self.gauge:
            /// How many there may be.
            "daftar_database_connections_limit" = number(usage.connections_max);
            /// Reads that wait for one.
            "daftar_database_connections_waited_for" = number(usage.connections_waited_for);
        }
        if let Some(kept) = app.registry.parted.as_ref().map(|parted| parted.usage()) {
            series! { self.gauge:
                /// Partitions of the register that are in memory for previews.
                "daftar_partitions" = number(kept.partitions);
                /// What they take.
                "daftar_partitions_bytes" = number(kept.bytes);
            }
        }
        series! { self.counter:
            /// Connections that were made since the start.
            "daftar_database_connections_made_total" = usage.connections_made;
            /// Reads and groups of writes that were tried again.
            "daftar_database_retries_total" = usage.retries;
            /// Commits whose end was not heard and had to be found out.
            "daftar_database_unknown_commits_total" = usage.unknown_commits;
        }
    }

    /// Series about other processes; a server that has no others is notified of everything.
    fn follower(&mut self, app: &StateParts) {
        // 0 without a database; absent until the clocks were compared.
        let difference = app.clock_difference().map(|difference| difference.seconds());
        if let Some(seconds) = difference.or_else(|| app.follower.is_none().then_some(0.0)) {
            series! { self.gauge:
                /// How far the clock of this server is ahead of the database's; below zero where it is behind.
                "daftar_clock_difference_seconds" = seconds;
            }
        }
        let usage = app.follower.as_ref().map_or(FollowerUsage::ALONE, |follower| follower.usage());
        series! { self.gauge:
            /// 1 while changes by other processes are heard of as they are made.
            "daftar_follower_listening" = flag(usage.is_listening);
            /// 1 where the last try to take up changes by other processes failed.
            "daftar_follower_behind" = flag(usage.is_behind);
            /// Plugins that other processes installed and that cannot run here.
            "daftar_plugins_not_taken_up" = number(app.plugins.not_taken_up());
        }
        series! { self.counter:
            /// How often clients or settings were taken up that other processes changed.
            "daftar_follower_changes_total" = usage.taken_up;
            /// How often the database was asked whether anything changed.
            "daftar_follower_questions_total" = usage.compared;
            /// How often changes by other processes could not be taken up.
            "daftar_follower_failures_total" = usage.failed;
        }
    }

    /// Series about the collector are absent where nothing is sent.
    fn telemetry(&mut self, telemetry: &Telemetry) {
        series! { self.counter:
            /// Log lines that found no room in the buffer of the log's writer.
            "daftar_log_lines_dropped_total" = telemetry.dropped_lines();
        }
        let Some(usage) = telemetry.usage() else { return };
        series! { self.gauge:
            /// Spans that wait for the collector.
            "daftar_otlp_spans_queued" = number(usage.queued);
            /// How many may; one more is dropped.
            "daftar_otlp_spans_queued_limit" = number(usage.queue_max);
        }
        for (outcome, count) in usage.spans {
            series! { self.counter:
                /// Spans by what became of them; all but `sent` were dropped.
                "daftar_otlp_spans_total" [("outcome", outcome)] = count;
            }
        }
        for (signal, taken, failed) in usage.requests {
            for (outcome, count) in [("taken", taken), ("failed", failed)] {
                series! { self.counter:
                    /// Requests to the collector.
                    "daftar_otlp_requests_total" [("signal", signal), ("outcome", outcome)] = count;
                }
            }
        }
    }

    fn access(&mut self, app: &StateParts) {
        let (tokens, failed) = (app.token_cache.usage(), app.failed_sign_ins.usage());
        series! { self.counter:
            /// Tokens that came, by whether they were verified before.
            "daftar_token_cache_lookups_total" [("outcome", "hit")] = tokens.hits;
            /// Tokens that came, by whether they were verified before.
            "daftar_token_cache_lookups_total" [("outcome", "miss")] = tokens.misses;
            /// Verified tokens that made room for others.
            "daftar_token_cache_dropped_total" = tokens.dropped;
            /// Requests for tokens with a wrong client id or secret.
            "daftar_token_failures_total" = failed.failures;
            /// How often answers for one client id began to be held back.
            "daftar_token_slowed_total" = failed.slowed;
            /// Failed requests for tokens that were turned away unheld.
            "daftar_token_turned_away_total" = failed.turned_away;
        }
        let (keys, now) = (app.signing_keys.list(), app.clock.now());
        series! { self.gauge:
            /// Verified tokens that are kept.
            "daftar_token_cache_entries" = number(tokens.entries);
            /// Memory of verified tokens that are kept.
            "daftar_token_cache_bytes" = number(tokens.bytes);
            /// Answers to failed requests for tokens that are held back.
            "daftar_token_answers_held" = number(failed.held);
            /// Keys whose tokens are accepted.
            "daftar_signing_keys" = number(keys.len());
        }
        if let Some(signs) = keys.first() {
            series! { self.gauge:
                /// Age of the key that signs tokens.
                "daftar_signing_key_age_seconds" = now.duration_since(signs.created_at).as_secs_f64().max(0.0);
            }
        }
        if let Some(days) = app.config.token.secret_age_warning() {
            let clients = app.clients.list();
            let overdue = clients.iter().filter(|client| client.has_overdue_secret(now, days)).count();
            series! { self.gauge:
                /// Active clients whose secret is older than the settings want.
                "daftar_clients_with_old_secrets" = number(overdue);
            }
        }
    }

    fn previews(&mut self, app: &StateParts) {
        let (usage, (memory, file)) = (app.previews.usage(), app.spools.usage());
        let kept = usage.kept;
        series! { self.gauge:
            /// Previews of rules that have begun and not ended.
            "daftar_previews" = number(usage.previews);
            /// Turns of previews that are held or waited for.
            "daftar_preview_turns" [("state", "running")] = number(usage.slices);
            /// Turns of previews that are held or waited for.
            "daftar_preview_turns" [("state", "waiting")] = number(usage.waiting);
            /// Memory of fields that previews read of records and that are kept.
            "daftar_rule_columns_bytes" = number(kept.bytes);
            /// Lines of responses that were not read yet.
            "daftar_spool_bytes" [("space", "memory")] = number(memory);
            /// Lines of responses that were not read yet.
            "daftar_spool_bytes" [("space", "file")] = number(file);
        }
        series! { self.counter:
            /// Parts of fields that previews asked for, by where they came from.
            "daftar_rule_columns_parts_total" [("from", "memory")] = kept.found;
            /// Parts of fields that previews asked for, by where they came from.
            "daftar_rule_columns_parts_total" [("from", "records")] = kept.read;
            /// Kept fields that went because there was no room.
            "daftar_rule_columns_dropped_total" = kept.dropped;
        }
    }

    fn transport(&mut self, app: &StateParts) {
        let (usage, memory) = (app.transport.usage(), app.response_memory.usage());
        series! { self.gauge:
            /// Connections that are open, of all listeners.
            "daftar_connections" = number(usage.connections);
            /// How many connections the public listener may have open.
            "daftar_connections_limit" = number(app.config.server.connections.max);
            /// Requests of the public listener that are worked on.
            "daftar_http_requests_in_flight" = number(usage.requests);
            /// How many may be.
            "daftar_http_requests_in_flight_limit" = number(usage.requests_max);
            /// Memory of finished responses that wait for their clients.
            "daftar_responses_waiting_bytes" = number(memory.bytes);
            /// How much memory they may take.
            "daftar_responses_waiting_bytes_limit" = number(memory.bytes_max);
            /// Clients and addresses for which finished responses wait.
            "daftar_responses_waiting_clients" = number(memory.clients);
        }
        series! { self.counter:
            /// Requests that were answered 503 since too many were worked on.
            "daftar_http_requests_refused_total" = usage.requests_refused;
        }
        for (reason, count) in usage.cut {
            series! { self.counter:
                /// Connections that the server ended or did not serve, by reason.
                "daftar_connections_cut_total" [("reason", reason)] = count;
            }
        }
        for (bound, count) in memory.refused {
            series! { self.counter:
                /// Requests and responses that were 503 since too much waited, by bound.
                "daftar_responses_refused_total" [("bound", bound)] = count;
            }
        }
        let Some(expires_s) = usage.certificate_expires_s else { return };
        series! { self.gauge:
            /// When the certificate in use expires.
            "daftar_tls_certificate_expiry_timestamp_seconds" = expires_s as f64;
            /// 1 where the files hold another certificate, which cannot be used.
            "daftar_tls_certificate_stale" = flag(usage.certificate_is_stale);
        }
        series! { self.counter:
            /// Certificates that were taken from the files since the start.
            "daftar_tls_certificates_taken_total" = usage.certificates_taken;
        }
    }

    fn plugins(&mut self, app: &StateParts) {
        let pool = app.plugins.pool_usage();
        series! { self.gauge:
            /// Threads that plugins run on.
            "daftar_plugin_threads" = number(pool.threads);
            /// 1 while an eligibility engine is active; without one, calls that evaluate an expression are 503.
            "daftar_eligibility_engine_active" = flag(app.engine.engine_name().is_some());
            /// Installed plugins that cannot be loaded; the log says why.
            "daftar_plugins_not_loaded" = number(app.plugins.unloaded().len());
        }
        for (priority, waiting, most) in [
            ("interactive", pool.interactive_waiting, pool.interactive_waiting_max),
            ("background", pool.background_waiting, pool.background_waiting_max),
        ] {
            series! { self.gauge:
                /// Work that waits for a plugin thread.
                "daftar_plugin_queue_waiting" [("priority", priority)] = number(waiting);
                /// How much may wait; one more is refused.
                "daftar_plugin_queue_limit" [("priority", priority)] = number(most);
            }
        }
    }

    fn plugin(&mut self, plugin: &InstalledPlugin) {
        let (manifest, loaded) = (plugin.manifest(), plugin.loaded());
        let (name, version, usage) = (manifest.name.to_string(), manifest.version.to_string(), loaded.usage());
        let of = ("plugin", name.as_str());
        series! { self.gauge:
            /// The installed version of each plugin.
            "daftar_plugin_info" [of, ("version", version.as_str()), ("kind", manifest.kind.as_str())] = 1.0;
            /// The most that a call burnt of its fuel; 1 is all of it.
            "daftar_plugin_fuel_peak_ratio" [of] = usage.peak_fuel_share;
            /// Requests that wait for a plugin or run in it.
            "daftar_plugin_requests" [of] = number(usage.requests);
            /// Instances of a plugin that are alive.
            "daftar_plugin_instances" [of] = number(usage.instances);
        }
        series! { self.counter:
            /// Calls into a plugin.
            "daftar_plugin_calls_total" [of] = usage.calls;
            /// Fuel burnt.
            "daftar_plugin_fuel_total" [of] = usage.fuel;
            /// Requests refused because too much waited or the plugin was set aside.
            "daftar_plugin_rejected_total" [of] = usage.rejected;
            /// How often a plugin was set aside.
            "daftar_plugin_set_aside_total" [of] = usage.set_aside;
            /// Log lines of a plugin, written or suppressed.
            "daftar_plugin_log_lines_total" [of, ("outcome", "written")] = usage.log_lines;
            /// Log lines of a plugin, written or suppressed.
            "daftar_plugin_log_lines_total" [of, ("outcome", "suppressed")] = usage.log_lines_suppressed;
        }
        for (kind, count) in &usage.faults {
            series! { self.counter:
                /// Calls that a plugin did not answer, by kind.
                "daftar_plugin_faults_total" [of, ("kind", kind.name())] = *count;
            }
        }
        for state in [BreakerState::Closed, BreakerState::Open { retry_after_s: 0 }, BreakerState::HalfOpen] {
            series! { self.gauge:
                /// 1 for the state that a plugin's breaker is in.
                "daftar_plugin_breaker_state" [of, ("state", state.name())] = flag(state.name() == usage.breaker.name());
            }
        }
        for (limit, allowed, peak) in against_limits(loaded.limits(), &usage) {
            series! { self.gauge:
                /// What one call, instance or plugin may use at most.
                "daftar_plugin_limit" [of, ("limit", limit)] = allowed;
                /// The most that was used of a limit since the plugin was loaded.
                "daftar_plugin_limit_peak" [of, ("limit", limit)] = peak;
            }
        }
    }
}

/// Name, limit and the most that was used of it.
fn against_limits(limits: &PluginLimits, usage: &PluginUsage) -> [(&'static str, f64, f64); 5] {
    [
        ("memory_bytes", number(limits.memory_bytes), number(usage.peak_memory_bytes)),
        ("call_ms", number(limits.call_ms), usage.peak_time.as_secs_f64() * 1_000.0),
        ("input_bytes", number(limits.input_bytes), number(usage.peak_input_bytes)),
        ("output_bytes", number(limits.output_bytes), number(usage.peak_output_bytes)),
        ("concurrent_requests", number(limits.concurrent_requests), number(usage.peak_requests)),
    ]
}

/// A count as the page writes it; exact far beyond anything that is counted here.
fn number(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}

fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}

/// Resident memory of this process, where the system tells it.
fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(number(kibibytes.saturating_mul(1_024)))
}

/// When this process started, in seconds since 1970: its folder in `/proc` is as old as it is.
fn started_s() -> Option<f64> {
    let started: SystemTime = std::fs::metadata("/proc/self").ok()?.modified().ok()?;
    Some(started.duration_since(UNIX_EPOCH).ok()?.as_secs_f64().floor())
}
