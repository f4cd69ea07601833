//! Jobs that wait, by plugin.
//!
//! **Invariant:** one plugin holds at most half of the places, and of the plugins that wait the one with the fewest jobs running
//! is served first: a slow plugin delays its own callers, not those of another.
//! **Invariant:** a plugin without jobs takes no room.

use std::collections::VecDeque;

use super::{Busy, Job};
use crate::domain::manifest::PluginName;

/// Waiting jobs of one priority.
pub(super) struct Lanes {
    places: usize,
    waiting: usize,
    /// The plugins that have jobs, the one served longest ago first.
    lanes: VecDeque<Lane>,
}

struct Lane {
    plugin: PluginName,
    waiting: VecDeque<Job>,
    running: usize,
}

impl Lanes {
    /// Room for so many jobs.
    pub fn new(places: usize) -> Self {
        Self { places, waiting: 0, lanes: VecDeque::new() }
    }

    /// How many jobs wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Puts a job behind the others of its plugin.
    ///
    /// # Errors
    /// There is no place, or the plugin holds its share already.
    pub fn push(&mut self, plugin: &PluginName, job: Job) -> Result<(), Busy> {
        let share = self.places.div_ceil(2);
        let lane = self.lanes.iter_mut().find(|lane| lane.plugin == *plugin);
        if self.waiting >= self.places || lane.as_ref().is_some_and(|lane| lane.waiting.len() >= share) {
            return Err(Busy);
        }
        self.waiting = self.waiting.saturating_add(1);
        match lane {
            Some(lane) => lane.waiting.push_back(job),
            None => {
                self.lanes.push_back(Lane { plugin: plugin.clone(), waiting: VecDeque::from([job]), running: 0 });
            }
        }
        Ok(())
    }

    /// Takes the next job. Its end is told by [`Self::ended`].
    pub fn pop(&mut self) -> Option<(PluginName, Job)> {
        let waiting = self.lanes.iter().enumerate().filter(|(_, lane)| !lane.waiting.is_empty());
        let (index, _) = waiting.min_by_key(|(_, lane)| lane.running)?;
        let mut lane = self.lanes.remove(index)?;
        let job = lane.waiting.pop_front()?;
        let plugin = lane.plugin.clone();
        lane.running = lane.running.saturating_add(1);
        self.lanes.push_back(lane);
        self.waiting = self.waiting.saturating_sub(1);
        Some((plugin, job))
    }

    /// A job of that plugin has ended.
    pub fn ended(&mut self, plugin: &PluginName) {
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.plugin == *plugin) {
            lane.running = lane.running.saturating_sub(1);
        }
        self.lanes.retain(|lane| lane.running > 0 || !lane.waiting.is_empty());
    }

    /// Takes everything that waits.
    pub fn drain(&mut self) -> Vec<Job> {
        self.waiting = 0;
        self.lanes.iter_mut().flat_map(|lane| std::mem::take(&mut lane.waiting)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> PluginName {
        PluginName::parse(text).unwrap()
    }

    fn job() -> Job {
        Box::new(|| ())
    }

    #[test]
    fn one_plugin_holds_at_most_half_of_the_places() {
        let mut lanes = Lanes::new(8);
        let (chatty, quiet) = (name("chatty"), name("quiet"));
        let taken: Vec<bool> = (0..6).map(|_| lanes.push(&chatty, job()).is_ok()).collect();
        assert_eq!(taken, [true, true, true, true, false, false]);
        assert!((0..4).all(|_| lanes.push(&quiet, job()).is_ok()));
        assert_eq!((lanes.push(&name("third"), job()), lanes.waiting()), (Err(Busy), 8));
    }

    #[test]
    fn plugins_take_turns_however_much_one_of_them_has_to_do() {
        let mut lanes = Lanes::new(16);
        for plugin in ["a", "a", "a", "a", "b", "b"] {
            lanes.push(&name(plugin), job()).unwrap();
        }
        let order: Vec<String> = std::iter::from_fn(|| {
            let (plugin, _) = lanes.pop()?;
            lanes.ended(&plugin);
            Some(plugin.to_string())
        })
        .collect();
        assert_eq!(order, ["a", "b", "a", "b", "a", "a"]);
    }

    #[test]
    fn who_occupies_no_thread_comes_before_who_does() {
        let mut lanes = Lanes::new(16);
        for plugin in ["slow", "slow", "slow"] {
            lanes.push(&name(plugin), job()).unwrap();
        }
        drop(lanes.pop().unwrap());
        drop(lanes.pop().unwrap());
        lanes.push(&name("quick"), job()).unwrap();
        assert_eq!(lanes.pop().unwrap().0, name("quick"));
    }

    #[test]
    fn a_plugin_without_jobs_is_forgotten() {
        let mut lanes = Lanes::new(16);
        for number in 0..1_000 {
            let plugin = name(&format!("p{number}"));
            lanes.push(&plugin, job()).unwrap();
            drop(lanes.pop().unwrap());
            lanes.ended(&plugin);
        }
        assert!(lanes.lanes.is_empty());
    }
}
