//! Which previews there may be at once, and which of them evaluates next: fair scheduling between clients.
//!
//! **Invariant:** a turn, which is a time slice, is for a bounded number of subjects and a bounded time, and is held by work on a plugin
//! thread and by nothing else: however many previews a client has, the preview of another one waits for one turn of it at a time.
//!
//! **Invariant:** the number of previews at once is bounded, in all and of one client.

use std::sync::Arc;

use daftar_domain::audit::Actor;
use daftar_domain::error::AppError;
use daftar_domain::fair::{FairSemaphore, Slot};

/// The most previews at once, those that wait included.
pub const PREVIEWS_MAX: usize = 256;
/// The most previews of one client at once.
pub const PREVIEWS_OF_CLIENT_MAX: usize = PREVIEWS_MAX / 4;

/// The slot of one preview.
pub type Place = Slot<Actor>;
/// A time slice.
pub type Turn = Slot<Actor>;

/// Schedules previews.
#[derive(Debug)]
pub struct PreviewDesk {
    previews: Arc<FairSemaphore<Actor>>,
    turns: Arc<FairSemaphore<Actor>>,
}

/// What the metrics page shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeskUsage {
    /// Previews that have begun and not ended.
    pub previews: usize,
    /// Turns that are held.
    pub turns: usize,
    /// Turns that are waited for.
    pub waiting: usize,
}

impl PreviewDesk {
    /// Schedules so many turns at once.
    #[must_use]
    pub fn new(turns_max: usize) -> Self {
        let previews = FairSemaphore::new(PREVIEWS_MAX, PREVIEWS_OF_CLIENT_MAX);
        Self { previews, turns: FairSemaphore::new(turns_max, turns_max) }
    }

    /// How many turns there are at once.
    #[must_use]
    pub fn turns_max(&self) -> usize {
        self.turns.slots()
    }

    /// How many previews there are, how many turns are held, and how many are waited for.
    #[must_use]
    pub fn usage(&self) -> DeskUsage {
        let (previews, turns) = (self.previews.usage(), self.turns.usage());
        DeskUsage { previews: previews.held, turns: turns.held, waiting: turns.waiting }
    }

    /// Gives a slot to a preview.
    ///
    /// # Errors
    /// [`AppError::Busy`] when there are as many as may be.
    pub fn enter(&self, actor: &Actor) -> Result<Place, AppError> {
        self.previews.try_acquire(actor).ok_or(AppError::Busy)
    }

    /// Waits for a turn.
    pub async fn turn(&self, actor: &Actor) -> Turn {
        self.turns.acquire(actor).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::client::ClientId;

    fn client(name: &str) -> Actor {
        Actor::Client(ClientId::parse(name).unwrap())
    }

    fn busy(place: Result<Place, AppError>) -> bool {
        matches!(place, Err(AppError::Busy))
    }

    #[test]
    fn one_client_has_a_quarter_of_the_previews_and_all_have_no_more_than_there_may_be() {
        let desk = PreviewDesk::new(1);
        let one = client("client_one");
        let mut places: Vec<Place> = (0..PREVIEWS_MAX / 4).map(|_| desk.enter(&one).unwrap()).collect();
        assert!(busy(desk.enter(&one)));
        for number in 0..PREVIEWS_MAX - PREVIEWS_OF_CLIENT_MAX {
            places.push(desk.enter(&client(&format!("client_{number}"))).unwrap());
        }
        assert!(busy(desk.enter(&client("client_late"))));
        drop(places.remove(0));
        assert!(!busy(desk.enter(&one)), "a slot is free again");
        assert_eq!(desk.usage().previews, PREVIEWS_MAX - 1);
    }
}
