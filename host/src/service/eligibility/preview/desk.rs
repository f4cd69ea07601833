//! Whose turn it is to look at some more of the register: previews take turns, client by client.
//!
//! **Invariant:** a turn is for a bounded number of subjects. When one ends, it is the turn of the client that has the fewest, and among those
//! of the one that was served longest ago: however many previews a client has, another's waits for one turn of it at a time.
//!
//! **Invariant:** turns are held by work on a plugin thread and by nothing else, so that a client that reads slowly holds none.
//!
//! **Invariant:** how many previews there are at once is bounded, in all and of one client.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::domain::audit::Actor;
use crate::error::AppError;

/// The most previews at once, those that wait included.
pub const PREVIEWS_MAX: usize = 256;
/// The most previews of one client at once.
pub const PREVIEWS_OF_CLIENT_MAX: usize = 64;

/// Hands out places and turns.
#[derive(Debug)]
pub struct PreviewDesk {
    turns_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whose previews there are.
    previews: Vec<Actor>,
    /// Which turn, counted up, each of these was given last.
    served: Vec<(Actor, u64)>,
    /// How many turns were given.
    given: u64,
    /// Who has turns now.
    turns: Vec<Actor>,
    /// Who waits for one, the longest first.
    waiting: VecDeque<(Actor, oneshot::Sender<Turn>)>,
}

/// What the metrics page tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeskUsage {
    /// Previews that have begun and not ended.
    pub previews: usize,
    /// Turns that are held.
    pub turns: usize,
    /// Turns that are waited for.
    pub waiting: usize,
}

/// Room for one preview; ends when it is dropped.
#[derive(Debug)]
pub struct Place {
    desk: Arc<PreviewDesk>,
    actor: Actor,
}

/// A turn; ends when it is dropped.
#[derive(Debug)]
pub struct Turn {
    desk: Arc<PreviewDesk>,
    actor: Actor,
}

impl PreviewDesk {
    /// A desk that hands out so many turns at once.
    #[must_use]
    pub fn new(turns_max: usize) -> Self {
        Self { turns_max: turns_max.max(1), state: Mutex::default() }
    }

    /// How many turns there are at once.
    #[must_use]
    pub fn turns_max(&self) -> usize {
        self.turns_max
    }

    /// How many previews there are, how many turns are held, and how many are waited for.
    #[must_use]
    pub fn usage(&self) -> DeskUsage {
        let mut state = self.lock();
        state.waiting.retain(|(_, sender)| !sender.is_closed());
        DeskUsage { previews: state.previews.len(), turns: state.turns.len(), waiting: state.waiting.len() }
    }

    /// Makes room for a preview.
    ///
    /// # Errors
    /// [`AppError::Busy`] when there are as many as may be.
    pub fn enter(self: &Arc<Self>, actor: &Actor) -> Result<Place, AppError> {
        let mut state = self.lock();
        let of_client = state.previews.iter().filter(|other| *other == actor).count();
        if state.previews.len() >= PREVIEWS_MAX || of_client >= PREVIEWS_OF_CLIENT_MAX {
            return Err(AppError::Busy);
        }
        state.previews.push(actor.clone());
        Ok(Place { desk: Arc::clone(self), actor: actor.clone() })
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// [`AppError::Busy`] when the desk is gone.
    pub async fn turn(self: &Arc<Self>, actor: &Actor) -> Result<Turn, AppError> {
        let waits = {
            let mut state = self.lock();
            if state.turns.len() < self.turns_max {
                state.give(actor);
                return Ok(Turn { desk: Arc::clone(self), actor: actor.clone() });
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.push_back((actor.clone(), sender));
            receiver
        };
        waits.await.map_err(|_| AppError::Busy)
    }

    /// Gives a turn that ended to whoever is next.
    fn pass_on(self: &Arc<Self>, actor: &Actor) {
        let mut state = self.lock();
        if let Some(at) = state.turns.iter().position(|other| other == actor) {
            state.turns.swap_remove(at);
        }
        let next = state.next();
        let Some((next, sender)) = next else { return };
        state.give(&next);
        drop(state);
        // Whoever gave up waiting meanwhile sends the turn back here by dropping it.
        drop(sender.send(Turn { desk: Arc::clone(self), actor: next }));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change leaves it sound.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Who is next, of those that still wait.
    fn next(&mut self) -> Option<(Actor, oneshot::Sender<Turn>)> {
        self.waiting.retain(|(_, sender)| !sender.is_closed());
        let held = |actor: &Actor| self.turns.iter().filter(|other| *other == actor).count();
        let served = |actor: &Actor| self.served.iter().find(|(other, _)| other == actor).map_or(0, |(_, at)| *at);
        let waiting = self.waiting.iter().enumerate();
        let (at, _) = waiting.min_by_key(|(_, (actor, _))| (held(actor), served(actor)))?;
        self.waiting.remove(at)
    }

    fn give(&mut self, actor: &Actor) {
        self.turns.push(actor.clone());
        self.given = self.given.saturating_add(1);
        match self.served.iter_mut().find(|(other, _)| other == actor) {
            Some((_, at)) => *at = self.given,
            None => self.served.push((actor.clone(), self.given)),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.desk.lock();
        if let Some(at) = state.previews.iter().position(|other| *other == self.actor) {
            state.previews.swap_remove(at);
        }
        if !state.previews.contains(&self.actor) {
            state.served.retain(|(other, _)| *other != self.actor);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.desk.pass_on(&self.actor);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::domain::client::ClientId;

    fn client(name: &str) -> Actor {
        Actor::Client(ClientId::parse(name).unwrap())
    }

    fn busy(place: Result<Place, AppError>) -> bool {
        matches!(place, Err(AppError::Busy))
    }

    #[test]
    fn one_client_takes_its_share_of_the_places_and_all_take_no_more_than_there_are() {
        let desk = Arc::new(PreviewDesk::new(1));
        let one = client("client_one");
        let mut places: Vec<Place> = (0..PREVIEWS_OF_CLIENT_MAX).map(|_| desk.enter(&one).unwrap()).collect();
        assert!(busy(desk.enter(&one)));
        for number in 0..PREVIEWS_MAX - PREVIEWS_OF_CLIENT_MAX {
            places.push(desk.enter(&client(&format!("client_{number}"))).unwrap());
        }
        assert!(busy(desk.enter(&client("client_late"))));
        drop(places.remove(0));
        assert!(!busy(desk.enter(&one)), "a place is free again");
    }

    #[test]
    fn the_client_with_the_fewest_turns_is_next_and_then_who_waits_longest() {
        let desk = Arc::new(PreviewDesk::new(2));
        let (busy, quiet) = (client("client_busy"), client("client_quiet"));
        let first = desk.turn(&busy).now_or_never().unwrap().unwrap();
        let second = desk.turn(&busy).now_or_never().unwrap().unwrap();
        let mut third = Box::pin(desk.turn(&busy));
        assert!((&mut third).now_or_never().is_none());
        let mut other = Box::pin(desk.turn(&quiet));
        assert!((&mut other).now_or_never().is_none());
        drop(first);
        assert!((&mut third).now_or_never().is_none(), "the client that has none is served first");
        let other = other.now_or_never().unwrap().unwrap();
        drop(second);
        let third = third.now_or_never().unwrap().unwrap();
        drop((third, other));
        assert!(desk.lock().turns.is_empty() && desk.lock().waiting.is_empty());
    }

    #[test]
    fn with_one_turn_at_a_time_clients_alternate_however_much_one_of_them_asks() {
        let desk = Arc::new(PreviewDesk::new(1));
        let (busy, quiet) = (client("client_busy"), client("client_quiet"));
        let mut held = desk.turn(&busy).now_or_never().unwrap().unwrap();
        let mut of_busy: Vec<_> = (0..5).map(|_| Box::pin(desk.turn(&busy))).collect();
        assert!(of_busy.iter_mut().all(|waits| waits.now_or_never().is_none()));
        let mut of_quiet: Vec<_> = (0..2).map(|_| Box::pin(desk.turn(&quiet))).collect();
        assert!(of_quiet.iter_mut().all(|waits| waits.now_or_never().is_none()));
        let mut waiting = of_busy;
        waiting.append(&mut of_quiet);
        let mut order = Vec::new();
        for _ in 0..4 {
            drop(held);
            let polled = waiting.iter_mut().map(FutureExt::now_or_never).enumerate();
            let (at, turn) = polled.filter_map(|(at, turn)| Some((at, turn?))).next().unwrap();
            drop(waiting.remove(at));
            held = turn.unwrap();
            order.push(held.actor == quiet);
        }
        assert_eq!(order, [true, false, true, false]);
    }

    #[test]
    fn who_gives_up_waiting_leaves_the_turn_to_others() {
        let desk = Arc::new(PreviewDesk::new(1));
        let (one, two) = (client("client_one"), client("client_two"));
        let first = desk.turn(&one).now_or_never().unwrap().unwrap();
        let mut gone = Box::pin(desk.turn(&two));
        assert!((&mut gone).now_or_never().is_none());
        let mut late = Box::pin(desk.turn(&one));
        assert!((&mut late).now_or_never().is_none());
        drop(gone);
        drop(first);
        let late = late.now_or_never().unwrap().unwrap();
        // A turn that was given and never taken is passed on as well.
        let mut next = Box::pin(desk.turn(&two));
        assert!((&mut next).now_or_never().is_none());
        drop(late);
        drop(next);
        assert!(desk.turn(&one).now_or_never().is_some());
    }
}
