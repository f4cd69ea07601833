use std::task::{Context, Waker};

use super::*;
use daftar_domain::audit::Actor;
use daftar_domain::context::audit_context::AuditContext;
use daftar_domain::context::{FakeClock, RandomIds};
use daftar_store_sled::SledStore;

fn administration(folder: &std::path::Path) -> ClientAdministration {
    ClientAdministration {
        store: Arc::new(SledStore::temporary()),
        directory: Arc::default(),
        hasher: Arc::new(SecretHasher::load_or_create(folder, context().now).unwrap()),
        ids: Arc::new(RandomIds),
        clock: Arc::new(FakeClock::new(context().now)),
        changing: Arc::default(),
    }
}

fn context() -> OpContext {
    let now = "2026-03-01T12:00:00Z".parse().unwrap();
    OpContext::unbound(Actor::Administrator, "test".into(), now, AuditContext::default())
}

async fn registered(clients: &ClientAdministration) -> (Arc<Client>, SecretString) {
    let name = ClientName::parse("test").unwrap();
    clients.create(&context(), (name, Grants::default()), ClientChanges::default()).await.unwrap()
}

#[tokio::test]
async fn a_change_whose_caller_left_reaches_the_directory() {
    let folder = tempfile::tempdir().unwrap();
    let clients = administration(folder.path());
    let id = registered(&clients).await.0.id.clone();
    let ctx = context();
    {
        let mut disabled = Box::pin(clients.disable(&ctx, &id));
        assert!(disabled.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    let enabled = clients.enable(&ctx, &id).await.unwrap();
    assert_eq!(enabled.status, ClientStatus::Active);
    assert_eq!(enabled.not_before, Some(ctx.now), "it was disabled before");
    assert_eq!(*clients.show(&id).unwrap(), *enabled);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_at_the_same_time_do_not_collide() {
    let folder = tempfile::tempdir().unwrap();
    let clients = administration(folder.path());
    let id = registered(&clients).await.0.id.clone();
    let ctx = context();
    for _ in 0..20 {
        let (one, other) = tokio::join!(clients.disable(&ctx, &id), clients.enable(&ctx, &id));
        assert!(one.is_ok() && other.is_ok(), "{one:?} {other:?}");
    }
}
/// A fake clock that also records on each read whether a secret was still valid.
struct WatchfulClock {
    shows: FakeClock,
    clients: ClientAdministration,
    id: ClientId,
    secret: SecretString,
    was_good: std::sync::Mutex<Vec<bool>>,
}

impl WatchfulClock {
    fn is_good(&self) -> bool {
        let client = self.clients.directory.find(&self.id);
        self.clients.hasher.verify(self.id.as_str(), client.as_deref(), &self.secret, self.shows.now())
    }
}

impl Clock for WatchfulClock {
    fn now(&self) -> Timestamp {
        self.was_good.lock().unwrap().push(self.is_good());
        self.shows.now()
    }

    fn elapsed(&self) -> std::time::Duration {
        self.shows.elapsed()
    }
}

#[tokio::test]
async fn no_token_is_younger_than_the_instant_up_to_which_they_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let clients = administration(folder.path());
    let (shows, ctx) = (FakeClock::new(context().now), context());
    for is_disabled in [true, false] {
        let (client, secret) = registered(&clients).await;
        let id = client.id.clone();
        let watch = Arc::new(WatchfulClock {
            shows: shows.clone(),
            clients: clients.clone(),
            id: id.clone(),
            secret,
            was_good: std::sync::Mutex::default(),
        });
        assert!(watch.is_good());
        let watched = ClientAdministration { clock: Arc::clone(&watch) as Arc<dyn Clock>, ..clients.clone() };
        let end = async || {
            if is_disabled {
                watched.disable(&ctx, &id).await.unwrap()
            } else {
                watched.rotate_secret(&ctx, &id, 0).await.unwrap().client
            }
        };
        // The request arrived at `ctx.now`; its body arrived later.
        shows.advance(jiff::SignedDuration::from_secs(20));
        assert_eq!(end().await.not_before, Some(shows.now()));
        assert_eq!(*watch.was_good.lock().unwrap(), [false], "the secret is stopped before the clock is read");
        let last = shows.now();
        shows.advance(jiff::SignedDuration::from_secs(-3_600));
        assert_eq!(end().await.not_before, Some(last), "a clock that steps back lets no old token in again");
    }
}

/// A clock that is a second later on each read.
struct TickingClock(FakeClock);

impl Clock for TickingClock {
    fn now(&self) -> Timestamp {
        self.0.advance(SignedDuration::from_secs(1));
        self.0.now()
    }

    fn elapsed(&self) -> std::time::Duration {
        self.0.elapsed()
    }
}

#[tokio::test]
async fn tokens_that_other_servers_issue_until_a_rotation_is_committed_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let clients = administration(folder.path());
    let (client, _) = registered(&clients).await;
    let (shows, ctx) = (FakeClock::new(context().now), context());
    let clock = Arc::new(TickingClock(shows.clone()));
    let ticking = ClientAdministration { clock: clock as Arc<dyn Clock>, ..clients.clone() };
    for (is_shared, reads) in [(false, 1), (true, 2)] {
        if is_shared {
            clients.directory.share();
        }
        let begun = shows.now();
        let rotated = ticking.rotate_secret(&ctx, &client.id, 0).await.unwrap();
        let rejected_until = begun + SignedDuration::from_secs(reads);
        assert_eq!(rotated.client.not_before, Some(rejected_until), "shared: {is_shared}");
        assert_eq!(clients.store.clients().await.unwrap(), [Client::clone(&rotated.client)]);
        let now = shows.now();
        assert!(clients.hasher.verify(client.id.as_str(), Some(&rotated.client), &rotated.secret, now));
    }
    let before = shows.now();
    ticking.rotate_secret(&ctx, &client.id, 60).await.unwrap();
    assert_eq!(shows.now(), before + SignedDuration::from_secs(1), "with an overlap the tokens stay valid");
}

#[tokio::test]
async fn a_change_that_is_not_written_leaves_the_secrets_good() {
    let folder = tempfile::tempdir().unwrap();
    let clients = administration(folder.path());
    let (client, secret) = registered(&clients).await;
    // The other store does not contain the client.
    let broken = ClientAdministration { store: Arc::new(SledStore::temporary()), ..clients.clone() };
    assert!(broken.disable(&context(), &client.id).await.is_err());
    assert!(broken.rotate_secret(&context(), &client.id, 0).await.is_err());
    let shown = clients.show(&client.id).unwrap();
    assert_eq!(*shown, *client);
    assert!(clients.hasher.verify(client.id.as_str(), Some(&shown), &secret, context().now));
}
