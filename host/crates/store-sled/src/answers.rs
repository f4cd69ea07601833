//! The answers of a group, held back until it is on disk.

use daftar_store::StoreError;

use super::health::Health;
use super::writer::Answer;

/// Gives one answer, when told how the group went.
type Held = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// Answers that wait, in the order of the jobs.
#[derive(Default)]
pub(super) struct Answers {
    waiting: Vec<Held>,
}

impl Answers {
    /// Holds an answer back. It is given as it is when the group is on disk; otherwise the group's failure is.
    pub(super) fn add<T: Send + 'static>(&mut self, answer: Answer<T>, outcome: Result<T, StoreError>) {
        self.waiting.push(Box::new(move |group| {
            // Whoever asked may have stopped waiting; what was written stays written.
            let _ = answer.send(group.and(outcome));
        }));
    }

    /// Gives the answers.
    pub(super) fn send(self) {
        for answer in self.waiting {
            answer(Ok(()));
        }
    }

    /// Answers everybody with the failure.
    pub(super) fn fail(self, health: &Health, failure: StoreError) {
        let mut failure = Some(failure);
        for answer in self.waiting {
            let failure = failure.take().map_or_else(|| health.check(), Err);
            answer(failure);
        }
    }
}
