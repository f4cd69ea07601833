//! Commits without a response: their outcome is resolved, and nothing is done twice or lost.

use super::outages::{at_last, hasty, is_failed, new_person, patient, until};
use super::proxy::{Commit, Proxy};
use super::*;
use daftar_domain::code::CodeUri;
use daftar_store::suite::{all_individuals, audit_entry, commit, individual_of};

/// A database, and the proxy between it and a store.
async fn behind_a_proxy() -> (Arc<Server>, String, Proxy) {
    let server = Server::shared();
    let (url, proxy) = (server.create_database(), Proxy::start(server.port()).await);
    (server, url, proxy)
}

#[tokio::test]
async fn a_commit_whose_response_is_lost_is_resolved_and_done_once() {
    let (_server, url, proxy) = behind_a_proxy().await;
    let (store, listener) = patient(&proxy.url(&url)).await;
    for (number, fate) in (1..).zip([Commit::LosesItsAnswer, Commit::IsLost, Commit::LosesItsAnswer]) {
        proxy.next_commit(fate, false);
        let committed = commit(&store, new_person(number)).await.unwrap();
        assert_eq!((committed.sequence.0, individual_of(&committed.written[0]).id.0), (number, number), "{fate:?}");
        assert_eq!(proxy.broken() as u64, number, "{fate:?}");
    }
    assert_eq!(all_individuals(&store).await, [1, 2, 3]);
    let heard: Vec<_> = listener.0.lock().unwrap().iter().map(|change| change.sequence.0).collect();
    assert_eq!(heard, [1, 2, 3]);
    assert_eq!(store.database_usage().unknown_commits, 3);
}

#[tokio::test]
async fn a_commit_that_cannot_be_resolved_in_time_is_resolved_before_the_next_one() {
    let (_server, url, proxy) = behind_a_proxy().await;
    let (store, listener) = hasty(&proxy.url(&url)).await;
    for (number, fate) in [(1, Commit::LosesItsAnswer), (2, Commit::IsLost)] {
        proxy.next_commit(fate, true);
        assert!(is_failed(&commit(&store, new_person(number)).await), "it is not reported as written");
        proxy.cut(false);
        assert_eq!(at_last(&store, number).await, number, "{fate:?}");
    }
    assert_eq!(all_individuals(&store).await, [1, 2]);
    let heard: Vec<_> = listener.0.lock().unwrap().iter().map(|change| change.sequence.0).collect();
    assert_eq!(heard, [1, 2], "the sink received each once");
}

/// Loses the response to the commit of one audit entry, and lets the store fail to resolve it. Nothing else is pending.
async fn left_open(store: &PostgresStore, proxy: &Proxy, fate: Commit) {
    let broken = proxy.broken();
    proxy.next_commit(fate, true);
    store.append_audit(vec![audit_entry("before")]).await.unwrap();
    until(|| proxy.broken() > broken).await;
    until(|| store.lines_wait.load(Ordering::Acquire)).await;
    let refused = store.append_audit(vec![audit_entry("during the outage")]).await;
    assert!(refused.is_err(), "no response is sent once it is known that entries cannot be written");
}

#[tokio::test]
async fn audit_entries_whose_commit_is_resolved_late_are_there_once_and_reads_resume() {
    let (_server, url, proxy) = behind_a_proxy().await;
    let (store, _) = hasty(&proxy.url(&url)).await;
    let mut accepted = 0;
    for fate in [Commit::LosesItsAnswer, Commit::IsLost] {
        left_open(&store, &proxy, fate).await;
        proxy.cut(false);
        // There is no write, and no read of the log.
        let mut requested = 0;
        while store.append_audit(vec![audit_entry("after")]).await.is_err() {
            requested += 1;
            tokio::time::sleep(Duration::from_millis(25)).await;
            assert!(requested < 2_400, "{fate:?}");
        }
        accepted += 2;
        assert_eq!(store.audit(usize::MAX).await.unwrap().len(), accepted, "{fate:?}");
    }
}

#[tokio::test]
async fn entries_found_to_be_unwritten_are_written_when_the_store_is_closed() {
    let (_server, url, proxy) = behind_a_proxy().await;
    let (store, _) = hasty(&proxy.url(&url)).await;
    left_open(&store, &proxy, Commit::IsLost).await;
    proxy.cut(false);
    store.close().await;
    let again = PostgresStore::open(options(&url)).await.unwrap();
    assert_eq!(again.audit(usize::MAX).await.unwrap().len(), 1);
}

#[tokio::test]
async fn codes_whose_commit_lost_its_response_have_one_number_each() {
    let (_server, url, proxy) = behind_a_proxy().await;
    let (one, _) = patient(&proxy.url(&url)).await;
    let two = PostgresStore::open(options(&url)).await.unwrap();
    let number = async |store: &PostgresStore, codes: &[&str]| {
        let uris = codes.iter().map(|code| CodeUri::from_parts("urn:x:codes", code).unwrap());
        store.number_codes(uris.collect(), Vec::new()).await.unwrap().0
    };
    for (fate, [first, second]) in [(Commit::LosesItsAnswer, ["a", "b"]), (Commit::IsLost, ["c", "d"])] {
        proxy.next_commit(fate, false);
        let of_first = number(&one, &[first]).await;
        let of_second = number(&two, &[second]).await;
        let both = number(&one, &[first, second]).await;
        assert_eq!(both, [of_first, of_second].concat(), "{fate:?}");
    }
    assert_eq!(one.database_usage().unknown_commits, 2);
    assert_eq!(two.code_table().await.unwrap().codes.len(), 4);
}
