//! The metrics of the embedded store.

use super::SledStore;
use daftar_store::meters::{StoreRecorders, StoreUsage};

impl SledStore {
    /// Records durations from now on.
    pub fn record_with(&self, recorders: StoreRecorders) {
        self.meters.record_with(recorders);
    }

    /// Returns the metrics. Checks the sizes of the files.
    #[must_use]
    pub fn usage(&self) -> StoreUsage {
        StoreUsage {
            is_sound: self.reader.health.check().is_ok(),
            disk_bytes: self.reader.database.size_on_disk().ok(),
            ..self.meters.usage(&self.audit, &self.last_sequence, self.queue_writes_max)
        }
    }
}
