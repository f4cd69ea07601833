//! What the metrics page tells of tokens, keys and secrets.

use super::{MetricsSnapshot, number};
use daftar_http::state::StateParts;

impl MetricsSnapshot {
    pub(super) fn access(&mut self, app: &StateParts) {
        self.describe_access();
        let tokens = app.token_cache.usage();
        self.counter("daftar_token_cache_lookups_total", &[("outcome", "hit")], tokens.hits);
        self.counter("daftar_token_cache_lookups_total", &[("outcome", "miss")], tokens.misses);
        self.counter("daftar_token_cache_dropped_total", &[], tokens.dropped);
        self.gauge("daftar_token_cache_entries", &[], number(tokens.entries as u64));
        self.gauge("daftar_token_cache_bytes", &[], number(tokens.bytes as u64));
        let failed = app.failed_sign_ins.usage();
        self.counter("daftar_token_failures_total", &[], failed.failures);
        self.counter("daftar_token_slowed_total", &[], failed.slowed);
        self.counter("daftar_token_turned_away_total", &[], failed.turned_away);
        self.gauge("daftar_token_answers_held", &[], number(failed.held as u64));
        let (keys, now) = (app.signing_keys.list(), app.clock.now());
        self.gauge("daftar_signing_keys", &[], number(keys.len() as u64));
        if let Some(signs) = keys.first() {
            let age = now.duration_since(signs.created_at).as_secs_f64();
            self.gauge("daftar_signing_key_age_seconds", &[], age.max(0.0));
        }
        if let Some(days) = app.config.token.secret_age_warning() {
            let clients = app.clients.list();
            let overdue = clients.iter().filter(|client| client.has_overdue_secret(now, days)).count();
            self.gauge("daftar_clients_with_old_secrets", &[], number(overdue as u64));
        }
    }

    fn describe_access(&mut self) {
        let gauges = [
            ("daftar_token_cache_entries", "Verified tokens that are kept."),
            ("daftar_token_cache_bytes", "Memory of verified tokens that are kept."),
            ("daftar_token_answers_held", "Answers to failed requests for tokens that are held back."),
            ("daftar_signing_keys", "Keys whose tokens are accepted."),
            ("daftar_signing_key_age_seconds", "Age of the key that signs tokens."),
            ("daftar_clients_with_old_secrets", "Active clients whose secret is older than the settings want."),
        ];
        let counters = [
            ("daftar_token_cache_lookups_total", "Tokens that came, by whether they were verified before."),
            ("daftar_token_cache_dropped_total", "Verified tokens that made room for others."),
            ("daftar_token_failures_total", "Requests for tokens with a wrong client id or secret."),
            ("daftar_token_slowed_total", "How often answers for one client id began to be held back."),
            ("daftar_token_turned_away_total", "Failed requests for tokens that were turned away unheld."),
        ];
        self.describe_all(&gauges, &counters);
    }
}
