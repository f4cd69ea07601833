//! Previews whose lines are not read, of a register in PostgreSQL: they release their snapshots, and others are served.

use daftar_tests::postgres::Processes;
use daftar_tests::records::person;
use serde_json::json;

use crate::eligibility::preview::unread::{begin, counted};

/// The scopes of a client that writes and previews.
const SCOPES: [&str; 4] = ["individual:all", "group:all", "vocabulary:read", "eligibility:read"];

#[test]
fn eight_unread_previews_of_one_client_leave_a_snapshot_to_another() {
    let processes = Processes::start(1);
    let [greedy, modest] = [0, 1].map(|_| processes.client_of(0, &processes.credentials(0, &SCOPES)));
    for number in 0..3 {
        drop(modest.create_individual(&person(&number.to_string(), json!({}))));
    }
    let unread = begin(&greedy, 8);
    assert!(
        unread.statuses.iter().all(|status| *status == 200),
        "each has its snapshot in time: {:?}",
        unread.statuses
    );
    assert_eq!(counted(&modest), 3);
    drop(unread);
}
