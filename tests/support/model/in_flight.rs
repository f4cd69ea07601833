//! Kills of a server while requests with idempotency keys are in flight. Each of them is repeated with its key, and is
//! completed exactly once.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::plan::Plan;
use super::run::{Repeated, Run};
use super::step::Step;
use super::world::World;
use crate::support::http::Response;

/// Identifiers and keys of requests in flight begin here: no other operation uses them.
pub(super) const FIRST_NEW: u8 = 100;
/// Number of identifiers and keys for one kill.
const NEW: u8 = 4;
/// The unit of the pause before a kill.
const PAUSE: Duration = Duration::from_micros(100);

impl<W: World> Run<W> {
    /// Kills the server while it handles writes of several connections, repeats those without a response, starts the
    /// server, and repeats all of them.
    pub(super) fn kill(&mut self, group: u8, value: u8, pause: u8) -> Result<(), String> {
        let (at, flying) = (self.at, self.flying(group, value));
        let mut sending: Vec<JoinHandle<Option<Response>>> = Vec::new();
        for (step, plan) in &flying {
            let request = self.request(*step, plan, at);
            sending.push(thread::spawn(move || request.try_send()));
        }
        let until = Instant::now() + PAUSE * u32::from(pause);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        self.world.kill(at);
        self.summary.kills += 1;
        self.stopped(at);
        let (mut steps, mut unanswered) = (Vec::new(), Vec::new());
        for ((step, plan), sending) in flying.into_iter().zip(sending) {
            steps.push(step);
            match sending.join().map_err(|_| format!("{step:?}: an invalid response to a request in flight"))? {
                Some(response) => self.receive(step, plan, &response, (at, Repeated::No))?,
                None => unanswered.push((step, plan)),
            }
        }
        // Another server gets the repetitions while the database may still end the transactions of the killed one.
        let other = (at + 1) % self.world.servers();
        if other == at {
            self.world.start(at);
        }
        for (step, plan) in unanswered {
            self.summary.unanswered += 1;
            let response = self.request(step, &plan, other).send();
            self.receive(step, plan, &response, (other, Repeated::Perhaps))
                .map_err(|problem| format!("{step:?}, repeated after a kill: {problem}"))?;
        }
        if other != at {
            self.world.start(at);
        }
        for step in steps {
            let plan = self.register.plan(step).filter(|plan| plan.replayed.is_some());
            let plan = plan.ok_or_else(|| format!("{step:?} is not stored under its key"))?;
            self.send(step, plan).map_err(|problem| format!("{step:?}, repeated after a kill: {problem}"))?;
        }
        Ok(())
    }

    /// Writes that succeed in any order.
    fn flying(&mut self, group: u8, value: u8) -> Vec<(Step, Plan)> {
        let first = self.next_new;
        // A sequence with so many kills continues without requests in flight.
        let Some(next) = first.checked_add(NEW) else { return Vec::new() };
        self.next_new = next;
        let [key, transaction, enrol, add] = [0, 1, 2, 3].map(|number| Some(first + number));
        let steps = [
            Step::Register { value: first, born: 1, key },
            Step::Transaction { first: first + 1, second: first + 2, key: transaction },
            Step::Enrol { value, key: enrol },
            Step::AddMember { group, value, is_head: false, key: add },
        ];
        let planned = steps.into_iter().filter_map(|step| Some((step, self.register.plan(step)?)));
        planned.filter(|(_, plan)| plan.is_change()).collect()
    }
}
