//! The clients in memory, so that every request sees what the administrator changed last.
//!
//! **Invariant:** whoever puts a changed client here has it on disk already; whoever reads sees it on the very next
//! look.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::domain::client::{Client, ClientId};

/// Every registered client, by id. Reading takes no lock; a change copies the map of pointers.
#[derive(Debug, Default)]
pub struct ClientDirectory {
    clients: ArcSwap<HashMap<ClientId, Arc<Client>>>,
}

impl ClientDirectory {
    /// A directory of those clients.
    #[must_use]
    pub fn new(clients: impl IntoIterator<Item = Client>) -> Self {
        let clients = clients.into_iter().map(|client| (client.id.clone(), Arc::new(client))).collect();
        Self { clients: ArcSwap::from_pointee(clients) }
    }

    /// The client of that id, as it is now.
    #[must_use]
    pub fn find(&self, id: &ClientId) -> Option<Arc<Client>> {
        self.clients.load().get(id).cloned()
    }

    /// Adds a client or replaces the one of the same id. One that was changed earlier than the one that is here is left
    /// out: two changes may be written in one order and arrive here in the other.
    pub fn put(&self, client: Arc<Client>) {
        self.clients.rcu(|clients| {
            let is_outdated = clients.get(&client.id).is_some_and(|present| client.updated_at < present.updated_at);
            let mut changed = HashMap::clone(clients);
            if !is_outdated {
                changed.insert(client.id.clone(), Arc::clone(&client));
            }
            changed
        });
    }

    /// Every client, by id.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Client>> {
        let mut clients: Vec<_> = self.clients.load().values().cloned().collect();
        clients.sort_by(|one, other| one.id.cmp(&other.id));
        clients
    }

    /// How many clients there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.clients.load().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::fixtures::{at, client};
    use crate::domain::client::ClientStatus;

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
