//! The board of previews, where somebody has claimed a part.

use super::*;
use daftar_store::partition::{Claim, JobId, Partitions, Wanted};

/// A board whose statements may not wait long for anybody.
async fn opened() -> (PostgresStore, PostgresPartitions, Arc<Server>) {
    let server = Server::shared();
    let options = PostgresOptions { statement_timeout: Duration::from_secs(1), ..options(&server.create_database()) };
    let store = PostgresStore::open(options).await.unwrap();
    let partitions = PostgresPartitions::of(&store, 1_024);
    (store, partitions, server)
}

async fn posted(partitions: &PostgresPartitions) -> JobId {
    let parts = vec![(0, b"part".to_vec()), (1, b"part".to_vec())];
    partitions.post(b"task".to_vec(), parts).await.unwrap()
}

async fn claimed(partitions: &PostgresPartitions, wanted: Wanted<'_>) -> Option<Claim> {
    partitions.claim(wanted).await.unwrap()
}

async fn left(store: &PostgresStore) -> (i64, i64) {
    let counted = "SELECT (SELECT count(*) FROM daftar.job), (SELECT count(*) FROM daftar.job_part)";
    let row = store.database.query_opt(counted, &[]).await.unwrap().unwrap();
    (row.get(0), row.get(1))
}

#[tokio::test]
async fn a_job_is_withdrawn_while_somebody_is_at_a_part_and_nobody_begins_another() {
    let (store, partitions, _server) = opened().await;
    let job = posted(&partitions).await;
    let claim = claimed(&partitions, Wanted::NotOf(&[])).await.unwrap();
    partitions.withdraw(job).await.unwrap();
    assert!(!store.database.is_away());
    assert!(claimed(&partitions, Wanted::Of(job)).await.is_none());
    assert!(claimed(&partitions, Wanted::NotOf(&[])).await.is_none());
    assert!(partitions.finished(job, &[]).await.is_err(), "who looks at it is told that it is over");
    assert_eq!(left(&store).await, (1, 1), "what somebody is at");
    claim.finish(b"outcome".to_vec()).await.unwrap();
    let other = posted(&partitions).await;
    partitions.withdraw(other).await.unwrap();
    assert_eq!(left(&store).await, (0, 0));
}

#[tokio::test]
async fn what_nobody_looks_at_any_more_holds_no_new_job_up() {
    let (store, partitions, _server) = opened().await;
    let forgotten = posted(&partitions).await;
    let claim = claimed(&partitions, Wanted::Of(forgotten)).await.unwrap();
    let old = "UPDATE daftar.job SET seen_at = now() - interval '1 hour'";
    store.database.query(old, &[]).await.unwrap();
    assert!(claimed(&partitions, Wanted::NotOf(&[])).await.is_none(), "nobody works on it for nobody");
    let job = posted(&partitions).await;
    let other = claimed(&partitions, Wanted::NotOf(&[])).await.unwrap();
    assert_eq!(other.job, job);
    partitions.withdraw(job).await.unwrap();
    assert_eq!(left(&store).await, (2, 2), "what somebody is at");
    assert!(partitions.finished(forgotten, &[]).await.is_err());
    drop((claim, other));
    // The locks go when the database has seen that the connections are gone.
    for _ in 0..2_400 {
        let job = posted(&partitions).await;
        partitions.withdraw(job).await.unwrap();
        if left(&store).await == (0, 0) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("it is never taken away");
}
