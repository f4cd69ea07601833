//! Stores the counters of the rate limits.

use std::sync::Arc;

use futures_util::future::try_join_all;
use jiff::civil::Date;

use daftar_auth::limits::common::CommonCounts;
use daftar_auth::limits::day::DayCounts;
use daftar_domain::call_counts::{OfDay, OfMinute, OfWindow, Wanted};
use daftar_domain::code::{Code, Namespace};
use daftar_domain::error::Cause;
use daftar_domain::manifest::PluginName;
use daftar_sandbox::{Blame, FaultKind, InstalledPlugin, PluginHost, PluginLibrary, ResolveError};
use daftar_store::Store;
use daftar_store::shared::Shared;
use daftar_vocabulary::{CallingThread, OpenFailure, OpenPacks, PackOrigin, ResolvedConcept};

/// Prefix of the names of these counters.
const PREFIX: &str = "limit/";

/// Maximum number of counters that one write removes: the store is locked in the meantime.
const REMOVED_AT_ONCE: usize = 64;

/// Day counts as counters of the store: `limit/<day>/<name>`.
pub struct StoredDayCounts(pub Arc<dyn Store>);

fn counter(day: Date, name: &str) -> String {
    // Ends in a slash, so that no name is a prefix of another.
    format!("{PREFIX}{day}/{name}/")
}

#[async_trait::async_trait]
impl DayCounts for StoredDayCounts {
    async fn load(&self, day: Date, name: &str) -> Result<u64, Cause> {
        Ok(self.0.counter(&counter(day, name)).await?.unwrap_or(0))
    }

    async fn reserve(&self, day: Date, name: &str, up_to: u64) -> Result<(), Cause> {
        Ok(self.0.raise_counter(&counter(day, name), up_to).await?)
    }

    async fn forget_before(&self, day: Date) -> Result<(), Cause> {
        let oldest_stored = format!("{PREFIX}{day}/");
        // The text order of the formatted days equals their order in time.
        let names = self.0.counters(PREFIX).await?.into_iter().map(|(name, _)| name);
        let old: Vec<String> = names.filter(|name| *name < oldest_stored).collect();
        // Concurrent removals share one write to the disk: a day may have a million addresses.
        for names in old.chunks(REMOVED_AT_ONCE) {
            try_join_all(names.iter().map(|name| self.0.remove_counters(name))).await?;
        }
        Ok(())
    }
}

/// Counters that several processes share: days as counters of the store as above, minutes in addition.
pub struct CommonStoredCounts {
    /// Reserves and returns quota.
    pub shared: Arc<dyn Shared>,
    /// Stores the counters.
    pub days: StoredDayCounts,
}

#[async_trait::async_trait]
impl CommonCounts for CommonStoredCounts {
    async fn take_of_day(&self, day: Date, name: &str, wanted: Wanted, limit: u32) -> Result<OfDay, Cause> {
        Ok(self.shared.take(&counter(day, name), wanted, limit).await?)
    }

    async fn give_back(&self, day: Date, name: &str, calls: u32) -> Result<(), Cause> {
        Ok(self.shared.give_back(&counter(day, name), calls).await?)
    }

    async fn take_of_minute(&self, name: &str, wanted: Wanted, limit: u32) -> Result<OfMinute, Cause> {
        Ok(self.shared.lease(name, wanted, limit).await?)
    }

    async fn take_of_window(&self, name: &str, calls: u32, limit: u32) -> Result<OfWindow, Cause> {
        Ok(self.shared.window(name, calls, limit).await?)
    }

    async fn forget_before(&self, day: Date) -> Result<(), Cause> {
        self.shared.forget_full_minutes().await?;
        self.days.forget_before(day).await
    }
}

/// Queries the installed pack of a vocabulary, and no other version of it.
pub struct InstalledPacks {
    /// Runs the pack.
    pub host: Arc<PluginHost>,
    /// Provides the installed pack.
    pub library: Arc<PluginLibrary>,
}

impl OpenPacks for InstalledPacks {
    fn resolve(
        &self,
        pack: &PackOrigin,
        namespace: &Namespace,
        codes: &[Code],
        thread: CallingThread,
    ) -> Result<Vec<ResolvedConcept>, OpenFailure> {
        let installed = &self.installed(pack).ok_or_else(|| OpenFailure {
            reason: format!("`{}` was replaced or removed in the meantime", pack.plugin),
            is_lasting: false,
        })?;
        let responses = match thread {
            CallingThread::MayWait => self.host.resolve_codes(installed.loaded(), namespace, codes),
            CallingThread::Sandbox => self.host.resolve_codes_here(installed, namespace, codes),
        };
        responses.map_err(|error| {
            // The duration of a call depends on the load of the machine; everything else depends on the plugin and its
            // input.
            let is_lasting = match &error {
                ResolveError::Fault(fault) => fault.kind.blame() == Blame::Guest && fault.kind != FaultKind::Timeout,
                ResolveError::Busy | ResolveError::NoPack | ResolveError::Suspended { .. } => false,
            };
            OpenFailure { reason: error.to_string(), is_lasting }
        })
    }

    fn record_invalid(&self, pack: &PackOrigin) {
        if let Some(installed) = self.installed(pack) {
            installed.loaded().record_invalid();
        }
    }
}

impl InstalledPacks {
    fn installed(&self, pack: &PackOrigin) -> Option<InstalledPlugin> {
        let name = PluginName::parse(&pack.plugin).ok()?;
        let current = self.library.current();
        let installed = current.get(&name).filter(|installed| installed.loaded().digest().to_string() == pack.digest);
        installed.cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::calendar::parse_date;
    use daftar_store_sled::SledStore;

    #[tokio::test]
    async fn keeps_counts_by_day_and_forgets_old_days() {
        let counts = StoredDayCounts(Arc::new(SledStore::temporary()));
        let (old, new) = (parse_date("2026-01-01").unwrap(), parse_date("2026-01-02").unwrap());
        counts.reserve(old, "client/a", 16).await.unwrap();
        for number in 0..3 * REMOVED_AT_ONCE {
            counts.reserve(old, &format!("unauthenticated/{number}"), 16).await.unwrap();
        }
        counts.reserve(new, "client/a", 32).await.unwrap();
        counts.reserve(new, "client/ab", 48).await.unwrap();
        assert_eq!(counts.load(new, "client/a").await.unwrap(), 32);
        assert_eq!(counts.load(new, "client/b").await.unwrap(), 0);
        counts.forget_before(new).await.unwrap();
        assert_eq!(counts.load(old, "client/a").await.unwrap(), 0);
        assert_eq!(counts.load(new, "client/ab").await.unwrap(), 48);
        let names = counts.0.counters(PREFIX).await.unwrap().into_iter().map(|(name, _)| name);
        assert_eq!(names.collect::<Vec<_>>(), ["limit/2026-01-02/client/a/", "limit/2026-01-02/client/ab/"]);
    }

    #[tokio::test]
    async fn counts_of_several_processes_are_stored_by_day_and_by_minute() {
        let store = daftar_store_sled::testing::shared_store();
        let counts = || CommonStoredCounts { shared: store.clone(), days: StoredDayCounts(store.clone()) };
        let (one, other, day) = (counts(), counts(), parse_date("2026-01-01").unwrap());
        let wanted = |least, most| Wanted { least, most };
        assert_eq!(one.take_of_day(day, "client/a", wanted(1, 16), 20).await.unwrap(), OfDay { taken: 16, count: 16 });
        assert_eq!(other.take_of_day(day, "client/a", wanted(5, 16), 20).await.unwrap(), OfDay { taken: 0, count: 16 });
        one.give_back(day, "client/a", 3).await.unwrap();
        assert_eq!(other.take_of_day(day, "client/a", wanted(5, 16), 20).await.unwrap(), OfDay { taken: 7, count: 20 });
        assert_eq!(one.take_of_minute("client/a", wanted(1, 40), 60).await.unwrap().taken, 40);
        assert_eq!(other.take_of_minute("client/a", wanted(21, 40), 60).await.unwrap().taken, 0);
        assert_eq!(other.take_of_minute("client/a", wanted(1, 40), 60).await.unwrap().taken, 20);
        other.forget_before(parse_date("2026-01-02").unwrap()).await.unwrap();
        assert_eq!(one.days.load(day, "client/a").await.unwrap(), 0);
    }
}
