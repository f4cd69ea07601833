//! What the metrics page tells of bodies that are kept.

use super::{MetricsSnapshot, number};
use daftar_service::bodies::BodiesUsage;

impl MetricsSnapshot {
    pub(super) fn bodies(&mut self, usage: BodiesUsage) {
        let gauges = [
            ("daftar_bodies_entries", "Bodies of people that are kept."),
            ("daftar_bodies_bytes", "Memory of bodies that are kept."),
        ];
        let lookups = "daftar_bodies_lookups_total";
        self.describe_all(&gauges, &[(lookups, "Bodies of people that were asked for, by whether they were kept.")]);
        self.counter(lookups, &[("outcome", "hit")], usage.hits);
        self.counter(lookups, &[("outcome", "miss")], usage.misses);
        self.gauge("daftar_bodies_entries", &[], number(usage.entries as u64));
        self.gauge("daftar_bodies_bytes", &[], number(usage.bytes));
    }
}
