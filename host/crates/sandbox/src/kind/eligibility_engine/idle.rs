//! Sessions between two tasks of one preview: a preview that is evaluated in many time slices compiles its rules once for
//! each thread, not once for each slice.
//!
//! **Invariant:** a session is used again only for the preview that compiled its rules, so no instance ever has data of
//! two clients.
//!
//! **Invariant:** the number of idle sessions is bounded. The sessions of a preview are dropped with its last reference.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::rule::RuleSession;
use crate::install::LoadedPlugin;

/// The idle sessions of all previews.
pub struct IdleSessions {
    max: usize,
    /// The number of the next preview.
    next: AtomicU64,
    /// The sessions with the numbers of their previews, the oldest first.
    sessions: Mutex<Vec<(u64, RuleSession)>>,
}

impl IdleSessions {
    /// Creates an empty list of up to `max` sessions.
    #[must_use]
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, next: AtomicU64::new(0), sessions: Mutex::default() })
    }

    /// Returns the list of the sessions of a rule, or of two that are compared, for one client.
    #[must_use]
    pub fn of_rule(self: &Arc<Self>) -> IdleOfRule {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        IdleOfRule(Arc::new(OfRule { all: Arc::clone(self), number }))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, RuleSession)>> {
        // Every change leaves the list valid.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for IdleSessions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sessions = self.lock().len();
        formatter.debug_struct("IdleSessions").field("max", &self.max).field("sessions", &sessions).finish()
    }
}

/// The idle sessions of one preview. With its last clone they are dropped.
#[derive(Debug, Clone)]
pub struct IdleOfRule(Arc<OfRule>);

#[derive(Debug)]
struct OfRule {
    all: Arc<IdleSessions>,
    number: u64,
}

impl IdleOfRule {
    /// Takes an idle session of this plugin. Sessions of a replaced plugin are dropped.
    pub(super) fn take(&self, plugin: &Arc<LoadedPlugin>) -> Option<RuleSession> {
        let OfRule { all, number } = &*self.0;
        let mut outdated = Vec::new();
        let mut sessions = all.lock();
        let found = loop {
            let Some(at) = sessions.iter().rposition(|(of, _)| of == number) else { break None };
            let (_, session) = sessions.remove(at);
            if session.is_of(plugin) {
                break Some(session);
            }
            outdated.push(session);
        };
        drop(sessions);
        drop(outdated);
        found
    }

    /// Adds a session after its task. If there are too many sessions, the oldest one is dropped.
    pub(super) fn put(&self, session: RuleSession) {
        if !session.is_reusable() {
            return;
        }
        let OfRule { all, number } = &*self.0;
        let mut sessions = all.lock();
        sessions.push((*number, session));
        let oldest = if sessions.len() > all.max { Some(sessions.remove(0)) } else { None };
        drop(sessions);
        drop(oldest);
    }
}

impl Drop for OfRule {
    fn drop(&mut self) {
        let mut sessions = self.all.lock();
        let of_rule: Vec<_> = sessions.extract_if(.., |(of, _)| *of == self.number).collect();
        drop(sessions);
        drop(of_rule);
    }
}
