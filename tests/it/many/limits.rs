//! One limit for a client across all processes.

use daftar::context::{Clock as _, SystemClock};
use daftar::domain::calendar::utc_day;
use daftar_tests::postgres::Processes;
use daftar_tests::records::path;
use daftar_tests::{ApiClient, Credentials};
use serde_json::json;

/// Number of accepted requests, of each of these clients.
fn let_through(clients: &[ApiClient], each: usize) -> usize {
    std::thread::scope(|scope| {
        let ask = |client: &ApiClient| {
            let client = client.clone();
            scope.spawn(move || {
                let statuses = (0..each).map(|_| client.get(&path("Individual", "absent")).status);
                statuses
                    .inspect(|status| assert!([404, 429].contains(status), "{status}"))
                    .filter(|status| *status == 404)
                    .count()
            })
        };
        let asking: Vec<_> = clients.iter().map(ask).collect();
        asking.into_iter().map(|asking| asking.join().unwrap()).sum()
    })
}

/// Numbers of accepted requests of a client with 200 a day: at three processes, and at one of them after the others
/// stopped.
fn use_up_a_day() -> (usize, usize) {
    let mut processes = Processes::start(3);
    let limits = json!({"rate_limit_per_day": 200});
    let credentials: Credentials = processes.credentials_with(0, &["individual:read"], &limits);
    let client = processes.client_of(0, &credentials);
    let clients: Vec<ApiClient> = (0..6).map(|number| processes.at(number % 3, &client)).collect();
    let first = let_through(&clients, 60);
    for number in [0, 1] {
        let (stopped, _) = processes.stop(number);
        assert_eq!(stopped.code, 0, "{stopped:?}");
    }
    (first, let_through(&[processes.at(2, &client)], 60))
}

#[test]
fn a_day_is_exact_over_three_processes_and_nothing_of_it_is_lost_when_two_stop() {
    let today = || utc_day(SystemClock.now());
    let begun = today();
    let mut accepted = use_up_a_day();
    // The machine's own clock counts here. There is at most one midnight within a test.
    if today() != begun {
        accepted = use_up_a_day();
    }
    let (first, rest) = accepted;
    assert!(first <= 200, "{first}");
    assert_eq!(first + rest, 200, "what the others held and did not use is used here");
}

#[test]
fn a_minute_is_one_over_three_processes() {
    let processes = Processes::start(3);
    let limits = json!({"rate_limit_per_minute": 100});
    let client = processes.client_of(0, &processes.credentials_with(0, &["individual:read"], &limits));
    let begun = std::time::Instant::now();
    let clients: Vec<ApiClient> = (0..6).map(|number| processes.at(number % 3, &client)).collect();
    let through = let_through(&clients, 40);
    // The full bucket, and the calls refilled in the meantime.
    let most = 100 + usize::try_from(begun.elapsed().as_secs() + 1).unwrap() * 100 / 60 + 1;
    assert!((85..=most).contains(&through), "{through} of {most}");
}
