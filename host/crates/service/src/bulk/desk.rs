//! One import at a time.
//!
//! **Invariant:** an import that waits for its next part keeps its turn for [`KEPT_FOR`]: parts of two imports never mix.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

use super::ImportId;
use crate::audit::AuditLog;
use crate::registry::Registry;
use daftar_domain::context::Clock;
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;
use daftar_store::Store;
use daftar_store::overlay::Overlay;

/// How long an import may be silent before another one may begin.
pub const KEPT_FOR: SignedDuration = SignedDuration::from_secs(30);

/// How a refusal begins that says that it is another's turn.
pub const TAKEN: &str = "another import, or another part of this one, is being written";

/// Whose turn it is.
pub struct ImportDesk {
    clock: Arc<dyn Clock>,
    current: Mutex<Option<Current>>,
}

struct Current {
    id: ImportId,
    is_running: bool,
    since: Timestamp,
    dry_run: Option<Arc<Overlay>>,
}

/// The turn of one request; ends when it is dropped.
pub struct Turn {
    desk: Arc<ImportDesk>,
}

impl ImportDesk {
    /// Nobody's turn yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, current: Mutex::new(None) }
    }

    /// Takes the turn for a part of an import.
    ///
    /// # Errors
    /// [`AppError::Conflict`] while it is another's, or while a part of the same import is being written.
    pub fn begin(self: &Arc<Self>, id: &ImportId) -> Result<Turn, AppError> {
        let now = self.clock.now();
        let mut current = self.lock();
        let is_taken = current.as_ref().is_some_and(|current| {
            current.is_running || (current.id != *id && now.duration_since(current.since).abs() < KEPT_FOR)
        });
        if is_taken {
            let detail = format!(
                "{TAKEN}: one at a time; retry when it has ended, or {} seconds after it was interrupted",
                KEPT_FOR.as_secs()
            );
            return Err(AppError::conflict(ErrorCode::OperationInProgress, detail));
        }
        let dry_run = current.take().filter(|current| current.id == *id).and_then(|current| current.dry_run);
        *current = Some(Current { id: id.clone(), is_running: true, since: now, dry_run });
        Ok(Turn { desk: Arc::clone(self) })
    }

    /// Since when an import that has not ended was silent, if it was for so long that it was broken off.
    #[must_use]
    pub fn interrupted(&self, now: Timestamp) -> Option<Timestamp> {
        let current = self.lock();
        let silent = current.as_ref().filter(|current| !current.is_running && current.dry_run.is_none())?;
        (now.duration_since(silent.since) >= KEPT_FOR).then_some(silent.since)
    }

    /// Says that an import has ended: another may begin at once.
    pub fn end(&self, id: &ImportId) {
        let mut current = self.lock();
        if current.as_ref().is_some_and(|current| current.id == *id && !current.is_running) {
            *current = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Current>> {
        // Each change is one assignment.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// The register as an import meets it that is only checked: the same for all its parts.
    #[must_use]
    pub fn rehearsed(&self, registry: &Registry) -> Registry {
        let mut current = self.desk.lock();
        let made = || Arc::new(Overlay::dry_run(Arc::clone(&registry.store)));
        let dry_run = match current.as_mut() {
            Some(current) => Arc::clone(current.dry_run.get_or_insert_with(made)),
            None => made(),
        };
        drop(current);
        let store: Arc<dyn Store> = dry_run;
        Registry { audit: AuditLog::new(Arc::clone(&store)), store, bodies: Arc::default(), ..registry.clone() }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let now = self.desk.clock.now();
        if let Some(current) = self.desk.lock().as_mut() {
            current.is_running = false;
            current.since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::context::FakeClock;

    #[test]
    fn one_import_has_the_turn_until_it_ends_or_is_silent() {
        let clock = FakeClock::new("2026-03-01T12:00:00Z".parse().unwrap());
        let desk = Arc::new(ImportDesk::new(Arc::new(clock.clone())));
        let [one, two] = ["import-one", "import-two"].map(|id| ImportId::parse(id).unwrap());
        let turn = desk.begin(&one).unwrap();
        assert!(desk.begin(&one).is_err() && desk.begin(&two).is_err());
        clock.advance(SignedDuration::from_secs(60));
        assert_eq!(desk.interrupted(clock.now()), None, "a part of it is being written");
        drop(turn);
        drop(desk.begin(&one).unwrap());
        clock.advance(KEPT_FOR - SignedDuration::from_millis(1));
        assert!(desk.begin(&two).is_err());
        clock.advance(SignedDuration::from_millis(1));
        drop(desk.begin(&two).unwrap());
        desk.end(&one);
        assert!(desk.begin(&one).is_err(), "it is the turn of the other one");
        desk.end(&two);
        assert!(desk.begin(&one).is_ok());
    }

    #[test]
    fn an_import_that_was_silent_for_long_and_has_not_ended_was_broken_off() {
        let clock = FakeClock::new("2026-03-01T12:00:00Z".parse().unwrap());
        let desk = Arc::new(ImportDesk::new(Arc::new(clock.clone())));
        let id = ImportId::parse("import-one").unwrap();
        drop(desk.begin(&id).unwrap());
        let silent_since = clock.now();
        clock.advance(KEPT_FOR - SignedDuration::from_secs(1));
        assert_eq!(desk.interrupted(clock.now()), None);
        clock.advance(SignedDuration::from_secs(1));
        assert_eq!(desk.interrupted(clock.now()), Some(silent_since));
        desk.end(&id);
        assert_eq!(desk.interrupted(clock.now()), None);
    }
}
