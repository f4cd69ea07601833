//! Shared state of processes: the same for every process, also under concurrent calls.

use std::time::Duration;

use crate::record::samples;
use crate::shared::Shared;
use daftar_domain::call_counts::Wanted;
use daftar_domain::deployment::Setting;

use super::*;

/// A process of a register.
#[derive(Clone)]
pub struct Process {
    pub store: Arc<dyn Store>,
    pub shared: Arc<dyn Shared>,
}

pub async fn a_count_has_a_limit_and_unused_calls_are_released(one: Process, other: Process) {
    let wanted = |least, most| Wanted { least, most };
    let takers = (0..20).map(|number| {
        let process = if number % 2 == 0 { one.clone() } else { other.clone() };
        tokio::spawn(async move { process.shared.take("limit/a/", wanted(1, 7), 100).await.unwrap().taken })
    });
    let mut sum = 0;
    for taker in takers.collect::<Vec<_>>() {
        sum += taker.await.unwrap();
    }
    assert_eq!(sum, 100);
    one.shared.give_back("limit/a/", 10).await.unwrap();
    let refused = other.shared.take("limit/a/", wanted(11, 20), 100).await.unwrap();
    assert_eq!(refused.taken, 0, "all or nothing");
    let taken = other.shared.take("limit/a/", wanted(5, 20), 100).await.unwrap();
    assert_eq!((taken.taken, taken.count), (10, 100));
    assert_eq!(one.store.counter("limit/a/").await.unwrap(), Some(100), "it is one of the store's counters");
    one.shared.give_back("limit/a/", 1_000).await.unwrap();
    assert_eq!(one.store.counter("limit/a/").await.unwrap(), Some(0));
    assert_eq!(other.shared.take("limit/b/", wanted(1, 5), 0).await.unwrap().taken, 0);
}

pub async fn a_minute_is_reserved_once_and_a_new_limit_keeps_used_calls(one: Process, other: Process) {
    let wanted = |least, most| Wanted { least, most };
    // The number of calls refilled in the meantime is unknown, but small.
    let first = one.shared.lease("client/a", wanted(1, 50), 60).await.unwrap();
    assert_eq!(first.taken, 50);
    assert!(first.until_full <= Duration::from_secs(50) && first.until_full > Duration::from_secs(49));
    assert_eq!(other.shared.lease("client/a", wanted(60, 60), 60).await.unwrap().taken, 0, "all or nothing");
    let rest = other.shared.lease("client/a", wanted(1, 50), 60).await.unwrap();
    assert!(rest.taken >= 10 && rest.until_full > Duration::from_secs(59), "{rest:?}");
    let raised = one.shared.lease("client/a", wanted(1, 1_000_000), 600_000).await.unwrap();
    assert!((599_900..600_000).contains(&raised.taken), "{raised:?}");
    assert_eq!(one.shared.lease("client/b", wanted(1, 1), 1).await.unwrap().taken, 1);
    assert_eq!(other.shared.lease("client/b", wanted(1, 1), 1).await.unwrap().taken, 0);
    one.shared.forget_full_minutes().await.unwrap();
    assert_eq!(other.shared.lease("client/b", wanted(1, 1), 1).await.unwrap().taken, 0, "it is not full again");
}

pub async fn a_sliding_window_counts_the_calls_of_all_processes(one: Process, other: Process) {
    let minute = Duration::from_secs(60);
    for (number, process) in [&one, &other, &one].into_iter().enumerate() {
        let given = process.shared.window("token/a", 1, 3).await.unwrap();
        assert!(given.is_taken);
        assert_eq!(given.until_left.len(), number + 1);
        assert!(
            given.until_left.iter().all(|until_left| *until_left > minute / 2 && *until_left <= minute),
            "{given:?}"
        );
    }
    let refused = other.shared.window("token/a", 1, 3).await.unwrap();
    assert!(!refused.is_taken && refused.until_left.len() == 3, "{refused:?}");
    assert!(!other.shared.window("token/b", 4, 3).await.unwrap().is_taken, "more than there ever are");
    assert!(other.shared.window("token/b", 3, 3).await.unwrap().is_taken, "rejected calls are not counted");
    one.shared.forget_full_minutes().await.unwrap();
    assert!(!one.shared.window("token/a", 1, 3).await.unwrap().is_taken, "it is not empty");
}

pub async fn a_list_is_replaced_at_its_revision_and_unnamed_files_are_deleted(one: Process, other: Process) {
    let before = other.shared.generation().await.unwrap();
    assert_eq!(one.shared.plugin_list().await.unwrap().revision, 0);
    let large: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    for (digest, bytes) in [([1; 32], large.clone()), ([2; 32], b"small".to_vec())] {
        one.shared.put_plugin_file(digest, bytes.clone()).await.unwrap();
        one.shared.put_plugin_file(digest, bytes).await.unwrap();
    }
    assert_eq!(one.shared.replace_plugin_list(0, b"first", &[[1; 32]]).await.unwrap(), 1);
    let overtaken = other.shared.replace_plugin_list(0, b"other", &[[2; 32]]).await;
    assert!(matches!(overtaken, Err(StoreError::Overtaken)), "{overtaken:?}");
    assert_eq!(other.shared.plugin_list().await.unwrap().bytes, b"first");
    assert_eq!(other.shared.plugin_file([1; 32]).await.unwrap(), Some(large));
    assert_eq!(other.shared.plugin_file([2; 32]).await.unwrap(), None, "no list names it");
    assert_eq!(other.shared.replace_plugin_list(1, b"second", &[]).await.unwrap(), 2);
    assert!(one.shared.plugin_file([1; 32]).await.unwrap().is_some(), "a process with the previous list may fetch it");
    assert_eq!(one.shared.replace_plugin_list(2, b"third", &[]).await.unwrap(), 3);
    assert_eq!(one.shared.plugin_file([1; 32]).await.unwrap(), None);
    assert_eq!(other.shared.generation().await.unwrap().deployment, before.deployment + 3);
}

pub async fn the_lock_is_exclusive_and_released_by_its_owner(one: Process, other: Process) {
    let turn = one.shared.turn().await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_millis(200), other.shared.turn()).await;
    assert!(waiting.is_err(), "it is taken");
    drop(turn);
    drop(other.shared.turn().await.unwrap());
    drop(one.shared.turn().await.unwrap());
}

pub async fn the_first_stored_value_stays(one: Process, other: Process) {
    assert_eq!(one.shared.keep_once("keys/x", b"ours").await.unwrap(), b"ours");
    assert_eq!(other.shared.keep_once("keys/x", b"theirs").await.unwrap(), b"ours");
}

pub async fn a_change_is_notified_and_raises_its_version_counter(one: Process, other: Process) {
    while !other.shared.is_listening() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The notification from the start of listening.
    let _told = tokio::time::timeout(Duration::from_millis(300), other.shared.heard()).await;
    let client = samples::full_client();
    let setting = Setting::IdentifierSystem(samples::identifier_system());
    for (operation, clients, deployment) in
        [(Operation::PutSetting(setting), 0, 1), (Operation::CreateClient(client), 1, 0)]
    {
        let before = other.shared.generation().await.unwrap();
        one.store.commit(write(vec![operation])).await.unwrap();
        tokio::time::timeout(Duration::from_secs(30), other.shared.heard()).await.expect("it is notified");
        let now = other.shared.generation().await.unwrap();
        assert_eq!((now.clients - before.clients, now.deployment - before.deployment), (clients, deployment));
    }
    let before = other.shared.generation().await.unwrap();
    one.store.append_audit(vec![audit_entry("r")]).await.unwrap();
    assert_eq!(other.shared.generation().await.unwrap(), before, "data that no process caches raises nothing");
}

/// Runs all of them on two processes of a register that `fresh` creates.
#[macro_export]
macro_rules! sharing {
    ($fresh:expr) => {
        $crate::sharing!(
            $fresh;
            a_count_has_a_limit_and_unused_calls_are_released,
            a_minute_is_reserved_once_and_a_new_limit_keeps_used_calls,
            a_sliding_window_counts_the_calls_of_all_processes,
            a_list_is_replaced_at_its_revision_and_unnamed_files_are_deleted,
            the_lock_is_exclusive_and_released_by_its_owner,
            the_first_stored_value_stays,
            a_change_is_notified_and_raises_its_version_counter,
        );
    };
    ($fresh:expr; $($name:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $name() {
                let (one, other, _kept) = $fresh().await;
                $crate::suite::sharing::$name(one, other).await;
            }
        )*
    };
}

pub use sharing;
