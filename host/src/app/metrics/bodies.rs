//! What the metrics page tells of bodies that are kept.

use metrics::{Recorder, SharedString};

use super::{Snapshot, number};
use daftar_service::bodies::BodiesUsage;

impl Snapshot {
    pub(super) fn bodies(&self, usage: BodiesUsage) {
        let gauges = [
            ("daftar_bodies_entries", "Bodies of people that are kept."),
            ("daftar_bodies_bytes", "Memory of bodies that are kept."),
        ];
        for (name, text) in gauges {
            self.0.describe_gauge(name.into(), None, SharedString::const_str(text));
        }
        let lookups = "daftar_bodies_lookups_total";
        let text = "Bodies of people that were asked for, by whether they were kept.";
        self.0.describe_counter(lookups.into(), None, SharedString::const_str(text));
        self.counter(lookups, &[("outcome", "hit")], usage.hits);
        self.counter(lookups, &[("outcome", "miss")], usage.misses);
        self.gauge("daftar_bodies_entries", &[], number(usage.entries as u64));
        self.gauge("daftar_bodies_bytes", &[], number(usage.bytes));
    }
}
