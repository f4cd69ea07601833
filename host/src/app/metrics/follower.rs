//! What the metrics page tells of following other processes: a server that has no others hears of everything.

use super::{MetricsSnapshot, number};
use daftar_http::state::StateParts;
use daftar_service::follow::FollowerUsage;

impl MetricsSnapshot {
    pub(super) fn follower(&mut self, app: &StateParts) {
        let gauges = [
            ("daftar_follower_listening", "1 while changes by other processes are heard of as they are made."),
            ("daftar_follower_behind", "1 where the last try to take up changes by other processes failed."),
            (
                "daftar_clock_difference_seconds",
                "How far the clock of this server is ahead of the database's; below zero where it is behind.",
            ),
            ("daftar_plugins_not_taken_up", "Plugins that other processes installed and that cannot run here."),
        ];
        let counters = [
            (
                "daftar_follower_changes_total",
                "How often clients or settings were taken up that other processes changed.",
            ),
            ("daftar_follower_questions_total", "How often the database was asked whether anything changed."),
            ("daftar_follower_failures_total", "How often changes by other processes could not be taken up."),
        ];
        self.describe_all(&gauges, &counters);
        // 0 without a database; absent until the clocks were compared.
        let difference = app.clock_difference().map(|difference| difference.seconds());
        if let Some(seconds) = difference.or_else(|| app.follower.is_none().then_some(0.0)) {
            self.gauge("daftar_clock_difference_seconds", &[], seconds);
        }
        let usage = app.follower.as_ref().map_or(FollowerUsage::ALONE, |follower| follower.usage());
        self.gauge("daftar_follower_listening", &[], f64::from(u8::from(usage.is_listening)));
        self.gauge("daftar_follower_behind", &[], f64::from(u8::from(usage.is_behind)));
        self.gauge("daftar_plugins_not_taken_up", &[], number(app.plugins.not_taken_up()));
        self.counter("daftar_follower_changes_total", &[], usage.taken_up);
        self.counter("daftar_follower_questions_total", &[], usage.compared);
        self.counter("daftar_follower_failures_total", &[], usage.failed);
    }
}
