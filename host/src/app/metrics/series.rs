//! The gauges and counters of the server. `host/docs/METRICS.md` lists them.

use std::path::Path;

use jiff::Timestamp;
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

/// Adds series to a snapshot: `kind name [labels] = value`, absent if the value is `None`; or `kind name [labels] by
/// label = values`, one series for each value of that label. The doc comment of a series is its description on the page
/// and in the collector.
macro_rules! series {
    (@add $snapshot:ident.$kind:ident($name:literal, $text:expr, $labels:ident) = $value:expr) => {
        if let Some(value) = Option::<_>::from($value) {
            $snapshot.$kind($name, $text, $labels, value);
        }
    };
    (@add $snapshot:ident.$kind:ident($name:literal, $text:expr, $labels:ident) by $by:literal = $values:expr) => {
        for (label, value) in $values {
            $snapshot.$kind($name, $text, &[$labels, &[($by, label)]].concat(), value);
        }
    };
    ($snapshot:ident:
        $(#[doc = $text:literal] $kind:ident $name:literal $([$($label:expr),+])? $(by $by:literal)? = $value:expr;)+
    ) => {$({
        let labels: &[(&'static str, &str)] = &[$($($label),+)?];
        series!(@add $snapshot.$kind($name, $text.trim_ascii_start(), labels) $(by $by)? = $value);
    })+};
}

/// Returns the current gauges and counters.
pub(in crate::app) fn snapshot(app: &StateParts, upkeep: &Upkeep) -> MetricsSnapshot {
    let mut now = MetricsSnapshot::default();
    series! { now:
        /// The running version.
        gauge "daftar_build_info" [("version", env!("CARGO_PKG_VERSION"))] = 1.0;
        /// 1 while the server is ready, as `/health/ready` reports.
        gauge "daftar_ready" = flag(app.readiness().is_ok());
    }
    now.process(upkeep.metrics.started);
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
    fn process(&mut self, started: Timestamp) {
        // Reading the folder opens one file descriptor as well.
        let files = std::fs::read_dir("/proc/self/fd").ok().map(|files| number(files.count().saturating_sub(1)));
        let used = clock_gettime(ClockId::ProcessCPUTime);
        series! { self:
            /// Resident memory of the process.
            gauge "process_resident_memory_bytes" = resident_bytes();
            /// Start time of the process.
            gauge "process_start_time_seconds" = number(started.as_second());
            /// Open file descriptors of the process.
            gauge "process_open_fds" = files;
            /// Its maximum.
            gauge "process_max_fds" = getrlimit(Resource::Nofile).current.map(number);
            /// Processor time of the process.
            counter "process_cpu_seconds_total" = u64::try_from(used.tv_sec).unwrap_or(0);
        }
    }

    fn limits(&mut self, app: &StateParts) {
        for bucket in app.limits.usage() {
            let of = ("bucket", bucket.bucket);
            series! { self:
                /// Clients or addresses in a bucket of the rate limits.
                gauge "daftar_rate_limit_keys" [of] = number(bucket.keys);
                /// Its maximum.
                gauge "daftar_rate_limit_keys_limit" [of] = number(bucket.keys_max);
                /// Requests rejected with 429, by bucket and reason.
                counter "daftar_rate_limit_rejections_total" [of] by "reason" = bucket.refused;
            }
        }
    }

    fn store(&mut self, app: &StateParts, upkeep: &Upkeep) {
        let (usage, bodies) = (upkeep.keeper.usage(), app.registry.bodies.usage());
        let checkpoints = upkeep.checkpoints.as_ref().map(|checkpoints| checkpoints.usage());
        let checkpoints = checkpoints.as_ref();
        series! { self:
            /// Writes, by result.
            counter "daftar_store_writes_total" by "outcome" = usage.writes;
            /// Writes of records since the register was created.
            counter "daftar_store_sequence_total" = usage.sequence;
            /// 1 while the store accepts writes; 0 after a failure, until the next start.
            gauge "daftar_store_up" = flag(usage.is_sound);
            /// Jobs queued for the store's writer, including those in progress.
            gauge "daftar_store_writes_waiting" = number(usage.waiting);
            /// Their maximum; further ones get 503.
            gauge "daftar_store_writes_waiting_limit" = number(usage.waiting_max);
            /// Audit entries that are not written yet.
            gauge "daftar_audit_entries_waiting" = number(usage.audit_lines);
            /// Their maximum; further ones get 503.
            gauge "daftar_audit_entries_waiting_limit" = number(usage.audit_lines_max);
            /// Memory of these entries.
            gauge "daftar_audit_entries_waiting_bytes" = number(usage.audit_bytes);
            /// Maximum number of stored idempotency keys per client.
            gauge "daftar_idempotency_keys_limit" = number(app.config.server.idempotency_keys_max);
            /// Size of the store's files on disk.
            gauge "daftar_store_disk_bytes" = usage.disk_bytes.map(number);
            /// Lookups in the response cache, by result.
            counter "daftar_response_cache_lookups_total" by "outcome" = [("hit", bodies.hits), ("miss", bodies.misses)];
            /// Cached responses.
            gauge "daftar_response_cache_entries" = number(bodies.entries);
            /// Memory of the response cache.
            gauge "daftar_response_cache_bytes" = number(bodies.bytes);
            /// Age of the last checkpoint, written or read at the start.
            gauge "daftar_checkpoint_age_seconds" = checkpoints.and_then(|usage| usage.age).map(|age| age.as_secs_f64());
            /// Writes since the last checkpoint.
            gauge "daftar_checkpoint_lag_writes" = checkpoints.map(|usage| number(usage.writes_behind));
            /// 1 if the last attempt to write a checkpoint failed.
            gauge "daftar_checkpoint_failed" = checkpoints.map(|usage| flag(usage.has_failed));
            /// Time of the last complete backup.
            gauge "daftar_backup_last_timestamp_seconds" = app.backups.last().map(|last| last.as_second() as f64);
        }
        self.disk("data", &app.data_dir);
        match upkeep.keeper.database() {
            Some(usage) => self.database(app, &usage),
            None => self.embedded(app),
        }
    }

    fn disk(&mut self, folder: &str, path: &Path) {
        let Ok(disk) = rustix::fs::statvfs(path) else { return };
        series! { self:
            /// Free space on the file system of a folder.
            gauge "daftar_disk_free_bytes" [("folder", folder)] = number(disk.f_bavail.saturating_mul(disk.f_frsize));
            /// Size of the file system of a folder.
            gauge "daftar_disk_size_bytes" [("folder", folder)] = number(disk.f_blocks.saturating_mul(disk.f_frsize));
        }
    }

    fn embedded(&mut self, app: &StateParts) {
        let snapshot = app.registry.columns.snapshot();
        let records = [("individual", snapshot.individual_count()), ("group", snapshot.group_count())];
        series! { self:
            /// Maximum memory of the store's cache.
            gauge "daftar_store_cache_limit_bytes" = number(app.config.store.cache_mib.saturating_mul(MIB));
            /// Records in the register, including ended ones.
            gauge "daftar_records" by "kind" = records.map(|(kind, count)| (kind, number(count)));
        }
        self.disk("store", &app.config.store.folder(&app.data_dir));
    }

    fn database(&mut self, app: &StateParts, usage: &PostgresUsage) {
        let in_use = usage.connections.saturating_sub(usage.connections_idle);
        let partitions = app.registry.parted.as_ref().map(|parted| parted.usage());
        let partitions = partitions.as_ref();
        series! { self:
            /// Connections for reads, by use.
            gauge "daftar_database_connections" by "state" =
                [("idle", number(usage.connections_idle)), ("in_use", number(in_use))];
            /// Their maximum.
            gauge "daftar_database_connections_limit" = number(usage.connections_max);
            /// Reads that wait for a connection.
            gauge "daftar_database_connection_requests_waiting" = number(usage.connections_waited_for);
            /// Partitions of the register cached for previews.
            gauge "daftar_partitions" = partitions.map(|stored| number(stored.partitions));
            /// Memory of these partitions.
            gauge "daftar_partitions_bytes" = partitions.map(|stored| number(stored.bytes));
            /// Connections opened since the start.
            counter "daftar_database_connections_opened_total" = usage.connections_made;
            /// Retried reads and groups of writes.
            counter "daftar_database_retries_total" = usage.retries;
            /// Commits whose result was unknown after a lost connection and was queried.
            counter "daftar_database_unknown_commits_total" = usage.unknown_commits;
        }
        let Some(index) = app.registry.shared_index.as_ref().map(|index| index.usage()) else { return };
        series! { self:
            /// Writes that are not yet in the in-memory index.
            gauge "daftar_index_lag_writes" = number(index.writes_behind);
            /// Time since the in-memory index was current.
            gauge "daftar_index_lag_seconds" = index.behind.as_secs_f64();
            /// Approximate memory of the in-memory index.
            gauge "daftar_index_bytes" = number(index.bytes);
            /// Unreadable records that the in-memory index omits.
            gauge "daftar_index_unreadable_records" = number(index.unreadable);
            /// Builds of the in-memory index from all records.
            counter "daftar_index_rebuilds_total" = index.rebuilds;
            /// Searches served by the database because the in-memory index was behind.
            counter "daftar_index_fallbacks_total" = index.fallbacks;
        }
    }

    /// Adds series about other processes; a server without other processes is notified of all changes.
    fn follower(&mut self, app: &StateParts) {
        // 0 without a database; absent until the clocks were compared.
        let difference = app.clock_difference().map(|difference| difference.seconds());
        let usage = app.follower.as_ref().map_or(FollowerUsage::ALONE, |follower| follower.usage());
        series! { self:
            /// Offset of this server's clock to that of the database; negative if it is behind.
            gauge "daftar_clock_difference_seconds" = difference.or_else(|| app.follower.is_none().then_some(0.0));
            /// 1 while the server receives notifications of changes by other processes.
            gauge "daftar_change_feed_up" = flag(usage.is_listening);
            /// 1 if the last attempt to apply changes by other processes failed.
            gauge "daftar_change_feed_lagging" = flag(usage.is_behind);
            /// Plugins installed by other processes that cannot run in this one.
            gauge "daftar_plugins_not_synchronized" = number(app.plugins.pending_changes());
            /// Applied changes of clients or settings by other processes.
            counter "daftar_change_feed_changes_total" = usage.taken_up;
            /// Polls of the database for changes.
            counter "daftar_change_feed_polls_total" = usage.compared;
            /// Changes by other processes that could not be applied.
            counter "daftar_change_feed_failures_total" = usage.failed;
        }
    }

    /// Adds series about the collector, which are absent if nothing is sent.
    fn telemetry(&mut self, telemetry: &Telemetry) {
        series! { self:
            /// Log entries dropped because the buffer was full.
            counter "daftar_log_lines_dropped_total" = telemetry.dropped_lines();
        }
        let Some(usage) = telemetry.usage() else { return };
        series! { self:
            /// Spans queued for the collector.
            gauge "daftar_otlp_spans_queued" = number(usage.queued);
            /// Their maximum; further ones are dropped.
            gauge "daftar_otlp_spans_queued_limit" = number(usage.queue_max);
            /// Spans, by result; all except `sent` were dropped.
            counter "daftar_otlp_spans_total" by "outcome" = usage.spans;
        }
        for (signal, taken, failed) in usage.requests {
            series! { self:
                /// Requests to the collector.
                counter "daftar_otlp_requests_total" [("signal", signal)] by "outcome" = [("accepted", taken), ("failed", failed)];
            }
        }
    }

    fn access(&mut self, app: &StateParts) {
        let (tokens, failed) = (app.token_cache.usage(), app.failed_sign_ins.usage());
        let (keys, now) = (app.signing_keys.list(), app.clock.now());
        let key_age = keys.first().map(|signs| now.duration_since(signs.created_at).as_secs_f64().max(0.0));
        let overdue = app.config.token.secret_age_warning().map(|days| {
            let clients = app.clients.list();
            number(clients.iter().filter(|client| client.has_overdue_secret(now, days)).count())
        });
        series! { self:
            /// Received tokens, by cache result.
            counter "daftar_token_cache_lookups_total" by "outcome" = [("hit", tokens.hits), ("miss", tokens.misses)];
            /// Verified tokens evicted from the cache.
            counter "daftar_token_cache_evictions_total" = tokens.dropped;
            /// Requests for tokens with a wrong client id or secret.
            counter "daftar_token_failures_total" = failed.failures;
            /// Starts of delayed responses for a client id after failed attempts.
            counter "daftar_token_throttled_total" = failed.slowed;
            /// Failed token requests rejected without delay.
            counter "daftar_token_rejected_total" = failed.turned_away;
            /// Verified tokens in the cache.
            gauge "daftar_token_cache_entries" = number(tokens.entries);
            /// Memory of verified tokens in the cache.
            gauge "daftar_token_cache_bytes" = number(tokens.bytes);
            /// Delayed responses to failed token requests.
            gauge "daftar_token_responses_delayed" = number(failed.held);
            /// Keys whose tokens are accepted.
            gauge "daftar_signing_keys" = number(keys.len());
            /// Age of the key that signs tokens.
            gauge "daftar_signing_key_age_seconds" = key_age;
            /// Active clients whose secret exceeds the configured age.
            gauge "daftar_clients_with_old_secrets" = overdue;
        }
    }

    fn previews(&mut self, app: &StateParts) {
        let (usage, (memory, file)) = (app.previews.usage(), app.spools.usage());
        let stored = usage.cached;
        series! { self:
            /// Running previews.
            gauge "daftar_previews" = number(usage.previews);
            /// Time slices of previews, in use or requested.
            gauge "daftar_preview_time_slices" by "state" = [("running", number(usage.slices)), ("waiting", number(usage.waiting))];
            /// Memory of the preview cache.
            gauge "daftar_preview_cache_bytes" = number(stored.bytes);
            /// Response lines not yet read by clients.
            gauge "daftar_spool_bytes" by "space" = [("memory", number(memory)), ("file", number(file))];
            /// Field segments read by previews, by source.
            counter "daftar_preview_cache_lookups_total" by "from" = [("memory", stored.found), ("records", stored.read)];
            /// Cached fields evicted for lack of space.
            counter "daftar_preview_cache_evictions_total" = stored.dropped;
        }
    }

    fn transport(&mut self, app: &StateParts) {
        let (usage, memory) = (app.transport.usage(), app.response_memory.usage());
        series! { self:
            /// Open connections of all listeners.
            gauge "daftar_connections" = number(usage.connections);
            /// Maximum number of open connections of the public listener.
            gauge "daftar_connections_limit" = number(app.config.server.connections.max);
            /// Requests in progress on the public listener.
            gauge "daftar_http_requests_in_flight" = number(usage.requests);
            /// Their maximum.
            gauge "daftar_http_requests_in_flight_limit" = number(usage.requests_max);
            /// Memory of finished responses not yet read by clients.
            gauge "daftar_responses_waiting_bytes" = number(memory.bytes);
            /// Their maximum memory.
            gauge "daftar_responses_waiting_bytes_limit" = number(memory.bytes_max);
            /// Clients and addresses with finished responses not yet read.
            gauge "daftar_responses_waiting_clients" = number(memory.clients);
            /// Requests rejected with 503 because too many were in progress.
            counter "daftar_http_requests_rejected_total" = usage.requests_refused;
            /// Connections closed or rejected by the server, by reason.
            counter "daftar_connections_closed_total" by "reason" = usage.cut;
            /// Requests rejected with 503 because a queue was full, by limit.
            counter "daftar_responses_rejected_total" by "bound" = memory.refused;
        }
        let Some(expires_s) = usage.certificate_expires_s else { return };
        series! { self:
            /// Expiry time of the certificate in use.
            gauge "daftar_tls_certificate_expiry_timestamp_seconds" = expires_s as f64;
            /// 1 if the certificate files contain a newer certificate that cannot be used.
            gauge "daftar_tls_certificate_stale" = flag(usage.certificate_is_stale);
            /// Certificates loaded from the files since the start.
            counter "daftar_tls_certificate_reloads_total" = usage.certificates_taken;
        }
    }

    fn plugins(&mut self, app: &StateParts) {
        let pool = app.plugins.pool_usage();
        series! { self:
            /// Threads that run plugins.
            gauge "daftar_plugin_threads" = number(pool.threads);
            /// 1 while an eligibility engine is active; without one, requests that evaluate an expression get 503.
            gauge "daftar_eligibility_engine_active" = flag(app.engine.engine_name().is_ok());
            /// Installed plugins that cannot be loaded; the log contains the reason.
            gauge "daftar_plugins_not_loaded" = number(app.plugins.unloaded().len());
        }
        for (priority, waiting, most) in [
            ("interactive", pool.interactive_waiting, pool.interactive_waiting_max),
            ("background", pool.background_waiting, pool.background_waiting_max),
        ] {
            series! { self:
                /// Jobs queued for a plugin thread.
                gauge "daftar_plugin_queue_waiting" [("priority", priority)] = number(waiting);
                /// Maximum number of queued jobs; further ones are rejected.
                gauge "daftar_plugin_queue_limit" [("priority", priority)] = number(most);
            }
        }
    }

    fn plugin(&mut self, plugin: &InstalledPlugin) {
        let (manifest, loaded) = (plugin.manifest(), plugin.loaded());
        let (name, version, usage) = (manifest.name.to_string(), manifest.version.to_string(), loaded.usage());
        let of = ("plugin", name.as_str());
        let states = [BreakerState::Closed, BreakerState::Open { retry_after_s: 0 }, BreakerState::HalfOpen];
        let is_in = |state: BreakerState| (state.name(), flag(state.name() == usage.breaker.name()));
        let limits = against_limits(loaded.limits(), &usage);
        series! { self:
            /// The installed version of each plugin.
            gauge "daftar_plugin_info" [of, ("version", version.as_str()), ("kind", manifest.kind.name())] = 1.0;
            /// Maximum share of its fuel that a call consumed, from 0 to 1.
            gauge "daftar_plugin_fuel_peak_ratio" [of] = usage.peak_fuel_share;
            /// Requests queued for a plugin or running in it.
            gauge "daftar_plugin_requests" [of] = number(usage.requests);
            /// Live instances of a plugin.
            gauge "daftar_plugin_instances" [of] = number(usage.instances);
            /// Calls into a plugin.
            counter "daftar_plugin_calls_total" [of] = usage.calls;
            /// Fuel consumed.
            counter "daftar_plugin_fuel_total" [of] = usage.fuel;
            /// Requests rejected because the queue was full or the plugin was suspended.
            counter "daftar_plugin_rejected_total" [of] = usage.rejected;
            /// Number of suspensions of plugins.
            counter "daftar_plugin_suspensions_total" [of] = usage.suspensions;
            /// Log entries of a plugin, written or suppressed.
            counter "daftar_plugin_log_lines_total" [of] by "outcome" =
                [("written", usage.log_lines), ("suppressed", usage.log_lines_suppressed)];
            /// Failed calls into a plugin, by kind.
            counter "daftar_plugin_faults_total" [of] by "kind" =
                usage.faults.iter().map(|(kind, count)| (kind.name(), *count));
            /// 1 for the current state of a plugin's circuit breaker.
            gauge "daftar_plugin_breaker_state" [of] by "state" = states.map(is_in);
            /// Limits of one call, instance or plugin.
            gauge "daftar_plugin_limit" [of] by "limit" = limits.map(|(limit, allowed, _)| (limit, allowed));
            /// Maximum use of a limit since the plugin was loaded.
            gauge "daftar_plugin_limit_peak" [of] by "limit" = limits.map(|(limit, _, peak)| (limit, peak));
        }
    }
}

/// Returns name, limit and maximum usage of each limit.
fn against_limits(limits: &PluginLimits, usage: &PluginUsage) -> [(&'static str, f64, f64); 5] {
    [
        ("memory_bytes", number(limits.memory_bytes), number(usage.peak_memory_bytes)),
        ("call_ms", number(limits.call_ms), usage.peak_time.as_secs_f64() * 1_000.0),
        ("input_bytes", number(limits.input_bytes), number(usage.peak_input_bytes)),
        ("output_bytes", number(limits.output_bytes), number(usage.peak_output_bytes)),
        ("concurrent_requests", number(limits.concurrent_requests), number(usage.peak_requests)),
    ]
}

/// Converts a count to the number format of the page; exact far beyond any count in the server.
fn number(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}

fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}

/// Returns the resident memory of this process, if the system reports it.
fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(number(kibibytes.saturating_mul(1_024)))
}
