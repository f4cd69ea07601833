//! The clients in memory, so that every request sees the administrator's latest change.
//!
//! **Invariant:** a changed client is on disk before it is put here; every read sees it from then on.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;

use daftar_domain::client::{Client, ClientId};

/// Every registered client, by id. Reads are lock-free; a change copies the map of pointers.
#[derive(Debug, Default)]
pub struct ClientDirectory {
    clients: ArcSwap<Clients>,
    /// True if other processes authenticate these clients too.
    is_shared: AtomicBool,
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

/// The client that a secret is checked against.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// The client with the claimed id, or a substitute if there is none.
    pub client: Arc<Client>,
    /// True if `client` has the claimed id.
    pub is_known: bool,
}

impl ClientDirectory {
    /// Creates a directory of these clients.
    #[must_use]
    pub fn new(clients: impl IntoIterator<Item = Client>) -> Self {
        let mut all = Clients::default();
        clients.into_iter().for_each(|client| all.put(Arc::new(client)));
        Self { clients: ArcSwap::from_pointee(all), is_shared: AtomicBool::default() }
    }

    /// States that other processes authenticate these clients too.
    pub fn share(&self) {
        self.is_shared.store(true, Ordering::Release);
    }

    /// Returns true if other processes authenticate these clients too: they use the previous version of a client until
    /// its change is committed.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Acquire)
    }

    /// Returns the current version of the client with this id.
    #[must_use]
    pub fn find(&self, id: &ClientId) -> Option<Arc<Client>> {
        self.clients.load().find(id).cloned()
    }

    /// Returns the client with this id, or a substitute found with the same work: the time of a failed sign-in must not
    /// reveal which ids exist, not even through the processor's cache. `None` if there are no clients.
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

    /// Adds a client or replaces the one with the same id. A version older than the present one is ignored: two changes
    /// may be written in one order and arrive here in the other.
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

    /// Applies the clients on disk, where another process may have changed them. A client whose version here is the
    /// same or newer stays: a change of it may be in progress.
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

    /// Replaces all clients by those on disk, which may be an earlier state than the one known here, as after a
    /// database was restored: clients missing there are removed. A client that is the same stays: a change of it may be
    /// in progress.
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

    /// Returns every client, by id.
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
    fn a_change_is_visible_on_the_next_read() {
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
    fn an_unknown_client_is_replaced_by_a_substitute() {
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
        assert!(others.len() > 10, "not always the same one, which would be in the processor's cache: {others:?}");
    }

    #[test]
    fn synchronize_applies_changes_of_another_process_and_keeps_newer_versions() {
        let directory = ClientDirectory::new([client("a"), client("b")]);
        let changed = |id: &str, at_s| Client { status: ClientStatus::Disabled, updated_at: at(at_s), ..client(id) };
        directory.put(Arc::new(Client { updated_at: at(3), ..client("b") }));
        directory.synchronize([changed("a", 1), changed("b", 2), changed("c", 1)]);
        let is_active = |id: &str| directory.find(&ClientId::parse(id).unwrap()).unwrap().is_active();
        assert!(!is_active("a") && is_active("b") && !is_active("c"));
        directory.put(Arc::new(Client { updated_at: at(1), ..client("a") }));
        directory.synchronize([changed("a", 1)]);
        assert!(is_active("a"), "a change in progress is not undone by an older version");
    }

    #[test]
    fn a_restored_state_replaces_everything() {
        let changed = |id: &str, at_s| Client { status: ClientStatus::Disabled, updated_at: at(at_s), ..client(id) };
        let directory = ClientDirectory::new([client("a"), client("b"), client("lost")]);
        directory.put(Arc::new(changed("a", 5)));
        let without_secrets = Client { status: ClientStatus::Disabled, ..client("b") };
        directory.put(Arc::new(without_secrets));
        directory.go_back_to([client("a"), client("b"), client("c")]);
        let is_active = |id: &str| directory.find(&ClientId::parse(id).unwrap()).map(|client| client.is_active());
        assert_eq!(is_active("a"), Some(true), "its change was lost in the restore");
        assert_eq!(is_active("b"), Some(false), "a change of it may be in progress");
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
