//! The clients in memory, so that every request sees what the administrator changed last.
//!
//! **Invariant:** whoever puts a changed client here has it on disk already; whoever reads sees it on the very next
//! look.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use arc_swap::ArcSwap;

use daftar_domain::client::{Client, ClientId};

/// Every registered client, by id. Reading takes no lock; a change copies the map of pointers.
#[derive(Debug, Default)]
pub struct ClientDirectory {
    clients: ArcSwap<Clients>,
}

#[derive(Debug, Clone, Default)]
struct Clients {
    places: HashMap<ClientId, usize>,
    all: Vec<Arc<Client>>,
}

impl Clients {
    fn find(&self, id: &ClientId) -> Option<&Arc<Client>> {
        self.places.get(id).and_then(|place| self.all.get(*place))
    }

    fn put(&mut self, client: Arc<Client>) {
        let place = *self.places.entry(client.id.clone()).or_insert(self.all.len());
        match self.all.get_mut(place) {
            Some(present) => *present = client,
            None => self.all.push(client),
        }
    }
}

/// Who is looked at when a secret is checked.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// The client of the id that was claimed; where there is none, some other one in its place.
    pub client: Arc<Client>,
    /// Whether it is the one of that id.
    pub is_known: bool,
}

impl ClientDirectory {
    /// A directory of those clients.
    #[must_use]
    pub fn new(clients: impl IntoIterator<Item = Client>) -> Self {
        let mut all = Clients::default();
        clients.into_iter().for_each(|client| all.put(Arc::new(client)));
        Self { clients: ArcSwap::from_pointee(all) }
    }

    /// The client of that id, as it is now.
    #[must_use]
    pub fn find(&self, id: &ClientId) -> Option<Arc<Client>> {
        self.clients.load().find(id).cloned()
    }

    /// The client of that id, or some other one where there is none, found with the same work: whoever measures how long a refusal
    /// takes must not learn which ids there are, not even by what lies in the processor's cache. Nothing where there is no client.
    #[must_use]
    pub fn find_claimed(&self, id: &ClientId) -> Option<Claimed> {
        let clients = self.clients.load();
        let hash = clients.places.hasher().hash_one(id);
        let other = usize::try_from(hash % u64::try_from(clients.all.len().max(1)).ok()?).ok()?;
        let place = clients.places.get(id).copied().unwrap_or(other);
        let client = Arc::clone(clients.all.get(place)?);
        let is_known = client.id == *id;
        Some(Claimed { client, is_known })
    }

    /// Adds a client or replaces the one of the same id. One that was changed earlier than the one that is here is left
    /// out: two changes may be written in one order and arrive here in the other.
    pub fn put(&self, client: Arc<Client>) {
        self.clients.rcu(|clients| {
            let is_outdated = clients.find(&client.id).is_some_and(|present| client.updated_at < present.updated_at);
            let mut changed = Clients::clone(clients);
            if !is_outdated {
                changed.put(Arc::clone(&client));
            }
            changed
        });
    }

    /// Takes up clients as they are on disk, where another process may have changed them. One that is here and was not changed since stays
    /// as it is: it may be about to change.
    pub fn synchronize(&self, stored: impl IntoIterator<Item = Client>) {
        let stored: Vec<_> = stored.into_iter().map(Arc::new).collect();
        self.clients.rcu(|clients| {
            let is_news = |client: &&Arc<Client>| {
                clients.find(&client.id).is_none_or(|present| present.updated_at < client.updated_at)
            };
            let mut changed = Clients::clone(clients);
            stored.iter().filter(is_news).for_each(|client| changed.put(Arc::clone(client)));
            changed
        });
    }

    /// Takes up clients as they are on disk where that may be an earlier state than the one that is known here, as after a database was put
    /// back: who is not there is nobody's any more. One that is the same stays as it is: it may be about to change.
    pub fn go_back_to(&self, stored: impl IntoIterator<Item = Client>) {
        let stored: Vec<_> = stored.into_iter().map(Arc::new).collect();
        self.clients.rcu(|clients| {
            let mut changed = Clients::default();
            for client in &stored {
                let same = clients.find(&client.id).filter(|present| present.updated_at == client.updated_at);
                changed.put(Arc::clone(same.unwrap_or(client)));
            }
            changed
        });
    }

    /// Every client, by id.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Client>> {
        let mut clients: Vec<_> = self.clients.load().all.clone();
        clients.sort_by(|one, other| one.id.cmp(&other.id));
        clients
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fixtures::{at, client};
    use daftar_domain::client::ClientStatus;

    #[test]
    fn a_change_is_seen_on_the_next_look() {
        let directory = ClientDirectory::new([client("a"), client("b")]);
        let mut changed = client("a");
        changed.status = ClientStatus::Disabled;
        changed.updated_at = at(1);
        directory.put(Arc::new(changed));
        assert!(!directory.find(&ClientId::parse("a").unwrap()).unwrap().is_active());
        assert!(directory.find(&ClientId::parse("b").unwrap()).unwrap().is_active());
        assert!(directory.find(&ClientId::parse("c").unwrap()).is_none());
        directory.put(Arc::new(client("c")));
        let ids: Vec<_> = directory.all().iter().map(|client| client.id.to_string()).collect();
        assert_eq!(ids, ["a", "b", "c"]);
    }

    #[test]
    fn somebody_else_is_looked_at_in_place_of_a_client_that_is_not_there() {
        let directory = ClientDirectory::default();
        assert!(directory.find_claimed(&ClientId::parse("a").unwrap()).is_none());
        for number in 0..50 {
            directory.put(Arc::new(client(&format!("client-{number}"))));
        }
        let claimed = |id: &str| directory.find_claimed(&ClientId::parse(id).unwrap()).unwrap();
        for number in 0..50 {
            let id = format!("client-{number}");
            let found = claimed(&id);
            assert!(found.is_known && found.client.id.as_str() == id);
        }
        let others: Vec<_> = (0..50).map(|number| claimed(&format!("unknown-{number}"))).collect();
        assert!(others.iter().all(|other| !other.is_known));
        let others: BTreeSet<_> = others.iter().map(|other| other.client.id.to_string()).collect();
        assert!(others.len() > 10, "not always the same, whose data would be at hand: {others:?}");
    }

    #[test]
    fn what_another_process_wrote_is_taken_up_and_what_is_newer_here_stays() {
        let directory = ClientDirectory::new([client("a"), client("b")]);
        let changed = |id: &str, at_s| Client { status: ClientStatus::Disabled, updated_at: at(at_s), ..client(id) };
        directory.put(Arc::new(Client { updated_at: at(3), ..client("b") }));
        directory.synchronize([changed("a", 1), changed("b", 2), changed("c", 1)]);
        let is_active = |id: &str| directory.find(&ClientId::parse(id).unwrap()).unwrap().is_active();
        assert!(!is_active("a") && is_active("b") && !is_active("c"));
        directory.put(Arc::new(Client { updated_at: at(1), ..client("a") }));
        directory.synchronize([changed("a", 1)]);
        assert!(is_active("a"), "a change that is under way here is not undone by what it began with");
    }

    #[test]
    fn a_state_that_was_put_back_counts_whole() {
        let changed = |id: &str, at_s| Client { status: ClientStatus::Disabled, updated_at: at(at_s), ..client(id) };
        let directory = ClientDirectory::new([client("a"), client("b"), client("lost")]);
        directory.put(Arc::new(changed("a", 5)));
        let without_secrets = Client { status: ClientStatus::Disabled, ..client("b") };
        directory.put(Arc::new(without_secrets));
        directory.go_back_to([client("a"), client("b"), client("c")]);
        let is_active = |id: &str| directory.find(&ClientId::parse(id).unwrap()).map(|client| client.is_active());
        assert_eq!(is_active("a"), Some(true), "its change was lost");
        assert_eq!(is_active("b"), Some(false), "it may be about to change");
        assert_eq!((is_active("c"), is_active("lost")), (Some(true), None));
        assert_eq!(directory.all().len(), 3);
    }

    #[test]
    fn an_older_change_that_arrives_late_does_not_undo_a_newer_one() {
        let directory = ClientDirectory::default();
        let mut disabled = client("a");
        disabled.status = ClientStatus::Disabled;
        disabled.updated_at = at(2);
        let mut earlier = client("a");
        earlier.updated_at = at(1);
        directory.put(Arc::new(disabled));
        directory.put(Arc::new(earlier));
        assert!(!directory.find(&ClientId::parse("a").unwrap()).unwrap().is_active());
    }
}
