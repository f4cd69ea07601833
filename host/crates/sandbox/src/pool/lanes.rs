//! Jobs that wait, by plugin and by client.
//!
//! **Invariant:** one plugin holds at most half of the places, and of these one client at most half.
//! **Invariant:** plugins are served by turns, and within a plugin its clients (`fair`): a slow plugin delays its own callers, and a client
//! with many requests its own.
//! **Invariant:** where the places of a plugin are all taken, a client with fewer jobs than another takes the place of that one's newest:
//! clients that fill the queue keep no other out of it.

use std::collections::VecDeque;

use super::{Busy, Job, Owner};
use daftar_domain::audit::Actor;
use daftar_domain::fair::FairQueue;
use daftar_domain::manifest::PluginName;

/// The jobs that wait for one plugin, by client.
type OfPlugin = FairQueue<Actor, VecDeque<Job>>;

/// Waiting jobs of one priority.
pub(super) struct Lanes {
    places: usize,
    plugins: FairQueue<PluginName, OfPlugin>,
}

/// How many jobs wait, of one plugin or one client.
fn waiting<'j>(jobs: impl Iterator<Item = (&'j Actor, &'j VecDeque<Job>)>) -> usize {
    jobs.map(|(_, jobs)| jobs.len()).sum()
}

impl Lanes {
    /// Room for so many jobs.
    pub fn new(places: usize) -> Self {
        Self { places, plugins: FairQueue::default() }
    }

    /// How many jobs wait.
    pub fn waiting(&self) -> usize {
        self.plugins.iter().map(|(_, clients)| waiting(clients.iter())).sum()
    }

    /// Puts a job behind the others of its client. Gives the jobs that were dropped for it, which are to be dropped elsewhere.
    ///
    /// # Errors
    /// There is no place, or the plugin or the client holds its share already.
    pub fn push(&mut self, owner: &Owner, job: Job) -> Result<Vec<Job>, Busy> {
        let mut dropped = Vec::new();
        if !self.has_place(owner) {
            dropped = self.take_cancelled();
        }
        if !self.has_place(owner) {
            dropped.push(self.take_newest_of_greediest(owner).ok_or(Busy)?);
        }
        self.plugins.update(&owner.plugin, |clients| clients.update(&owner.actor, |jobs| jobs.push_back(job)));
        Ok(dropped)
    }

    /// Takes the next job, of the clients that `may_run`. Its end is told by [`Self::ended`].
    pub fn pop(&mut self, may_run: impl Fn(&Actor) -> bool) -> Option<(Owner, Job)> {
        let (plugin, (actor, job)) = self.plugins.next(
            |_, clients, _| clients.has_next(|actor, _, _| may_run(actor)),
            |clients| clients.next(|actor, _, _| may_run(actor), VecDeque::pop_front),
        )?;
        Some((Owner { plugin, actor }, job))
    }

    /// A job of that owner has ended.
    pub fn ended(&mut self, owner: &Owner) {
        self.plugins.ended(&owner.plugin, |clients| clients.ended(&owner.actor, |_| ()));
    }

    /// Takes everything that waits.
    pub fn drain(&mut self) -> Vec<Job> {
        self.take(|_| true)
    }

    /// How many jobs one plugin may have waiting.
    fn share_of_plugin(&self) -> usize {
        self.places.div_ceil(2)
    }

    /// How many jobs one client may have waiting for one plugin.
    fn share_of_client(&self) -> usize {
        self.share_of_plugin().div_ceil(2)
    }

    fn waiting_of(&self, owner: &Owner) -> usize {
        let clients = self.plugins.get(&owner.plugin);
        clients.and_then(|clients| clients.get(&owner.actor)).map_or(0, VecDeque::len)
    }

    fn has_place(&self, owner: &Owner) -> bool {
        let of_plugin = self.plugins.get(&owner.plugin).map_or(0, |clients| waiting(clients.iter()));
        self.waiting() < self.places
            && of_plugin < self.share_of_plugin()
            && self.waiting_of(owner) < self.share_of_client()
    }

    fn take_cancelled(&mut self) -> Vec<Job> {
        self.take(|job| job.cancellation.is_cancelled())
    }

    /// Takes the newest job of the client of that plugin that has the most of them, if these are at least two more than the owner has.
    fn take_newest_of_greediest(&mut self, owner: &Owner) -> Option<Job> {
        let own = self.waiting_of(owner);
        let (_, clients) = self.plugins.iter_mut().find(|(plugin, _)| **plugin == owner.plugin)?;
        let (_, jobs) = clients.iter_mut().max_by_key(|(_, jobs)| jobs.len())?;
        if jobs.len() < own.saturating_add(2) { None } else { jobs.pop_back() }
    }

    fn take(&mut self, is_taken: impl Fn(&Job) -> bool) -> Vec<Job> {
        let mut taken = Vec::new();
        for (_, clients) in self.plugins.iter_mut() {
            for (_, jobs) in clients.iter_mut() {
                let (these, others) = std::mem::take(jobs).into_iter().partition(&is_taken);
                *jobs = others;
                taken.extend::<VecDeque<Job>>(these);
            }
            clients.forget_idle();
        }
        self.plugins.forget_idle();
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::client::ClientId;
    use daftar_domain::context::Cancellation;

    fn of(plugin: &str, client: &str) -> Owner {
        let actor = Actor::Client(ClientId::parse(&format!("client_{client}")).unwrap());
        Owner { plugin: PluginName::parse(plugin).unwrap(), actor }
    }

    fn job() -> Job {
        Job { work: Box::new(|| ()), cancellation: Cancellation::default() }
    }

    fn is_taken(lanes: &mut Lanes, owner: &Owner) -> bool {
        lanes.push(owner, job()).is_ok()
    }

    /// The order in which everything is served by one thread.
    fn served(lanes: &mut Lanes) -> Vec<Owner> {
        let next = || {
            let (owner, _) = lanes.pop(|_| true)?;
            lanes.ended(&owner);
            Some(owner)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn one_plugin_holds_at_most_half_of_the_places_and_one_client_half_of_these() {
        let mut lanes = Lanes::new(8);
        let taken = [0; 3].map(|_| is_taken(&mut lanes, &of("chatty", "one")));
        assert_eq!(taken, [true, true, false]);
        let taken = [0; 3].map(|_| is_taken(&mut lanes, &of("chatty", "two")));
        assert_eq!(taken, [true, true, false]);
        assert!(["one", "one", "two", "two"].iter().all(|client| is_taken(&mut lanes, &of("quiet", client))));
        assert_eq!((is_taken(&mut lanes, &of("third", "one")), lanes.waiting()), (false, 8));
    }

    #[test]
    fn plugins_are_served_by_turns_however_much_one_of_them_has_to_do() {
        let mut lanes = Lanes::new(16);
        for plugin in ["a", "a", "a", "a", "b", "b"] {
            lanes.push(&of(plugin, "one"), job()).unwrap();
        }
        let order: Vec<String> = served(&mut lanes).iter().map(|owner| owner.plugin.to_string()).collect();
        assert_eq!(order, ["a", "b", "a", "b", "a", "a"]);
    }

    #[test]
    fn clients_of_a_plugin_are_served_by_turns_however_much_one_of_them_asks() {
        let mut lanes = Lanes::new(16);
        let (greedy, modest) = (of("a", "greedy"), of("a", "modest"));
        for owner in [&greedy, &greedy, &greedy, &greedy, &modest, &modest] {
            lanes.push(owner, job()).unwrap();
        }
        let order: Vec<bool> = served(&mut lanes).iter().map(|owner| *owner == modest).collect();
        assert_eq!(order, [false, true, false, true, false, false]);
    }

    #[test]
    fn clients_that_fill_the_queue_keep_no_other_out() {
        let mut lanes = Lanes::new(16);
        let [one, two, late] = ["one", "two", "late"].map(|client| of("a", client));
        for owner in [&one, &one, &one, &one, &two, &two, &two, &two] {
            assert!(lanes.push(owner, job()).unwrap().is_empty());
        }
        for _ in 0..2 {
            assert_eq!(lanes.push(&late, job()).unwrap().len(), 1, "another one gives its place");
        }
        assert_eq!(lanes.waiting(), 8);
        assert!(!is_taken(&mut lanes, &late), "it would have as many as they have now");
        assert!(!is_taken(&mut lanes, &one));
    }

    #[test]
    fn a_job_whose_request_was_given_up_takes_no_place() {
        let mut lanes = Lanes::new(4);
        let owner = of("a", "one");
        let cancellation = Cancellation::default();
        lanes.push(&owner, Job { cancellation: cancellation.clone(), ..job() }).unwrap();
        assert!(!is_taken(&mut lanes, &owner));
        drop(cancellation.guard());
        assert_eq!(lanes.push(&owner, job()).unwrap().len(), 1);
    }

    #[test]
    fn who_occupies_no_thread_comes_before_who_does() {
        let mut lanes = Lanes::new(16);
        for plugin in ["slow", "slow", "slow"] {
            lanes.push(&of(plugin, "one"), job()).unwrap();
        }
        drop(lanes.pop(|_| true).unwrap());
        drop(lanes.pop(|_| true).unwrap());
        lanes.push(&of("quick", "one"), job()).unwrap();
        assert_eq!(lanes.pop(|_| true).unwrap().0, of("quick", "one"));
    }

    #[test]
    fn a_client_that_may_not_run_is_passed_over() {
        let mut lanes = Lanes::new(16);
        for owner in [of("a", "greedy"), of("a", "modest"), of("b", "greedy")] {
            lanes.push(&owner, job()).unwrap();
        }
        let may_run = |actor: &Actor| *actor != of("a", "greedy").actor;
        assert_eq!(lanes.pop(may_run).map(|(owner, _)| owner), Some(of("a", "modest")));
        assert!(lanes.pop(may_run).is_none());
        assert_eq!(lanes.waiting(), 2);
    }

    #[test]
    fn a_plugin_without_jobs_is_forgotten() {
        let mut lanes = Lanes::new(16);
        for number in 0..1_000 {
            let owner = of(&format!("p{number}"), "one");
            lanes.push(&owner, job()).unwrap();
            drop(lanes.pop(|_| true).unwrap());
            lanes.ended(&owner);
        }
        assert_eq!(lanes.plugins.iter().count(), 0);
    }
}
