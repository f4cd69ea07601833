//! A server that is killed: no client gets a second daily quota.

use std::path::Path;

use daftar_tests::{Credentials, Server, process, token};

const PER_DAY: i64 = 200;
/// Maximum number of reserved calls lost by a kill.
const LOST_MAX: i64 = 15;

/// A client's daily quota, by the machine's own clock.
struct Day {
    token: String,
    /// Time until its reset by the last response, in seconds.
    left_s: i64,
}

impl Day {
    /// The daily quota of a new client.
    fn begin(server: &Server, data_dir: &Path) -> Self {
        let per_day = PER_DAY.to_string();
        let create = ["client", "create", "--name", "limited", "--json", "--scope", "individual:read"];
        let limits = ["--rate-limit-per-minute", "1000000", "--rate-limit-per-day", &per_day];
        let created = process::run(data_dir, &[create.as_slice(), limits.as_slice()].concat()).expect_success();
        let token = token::fetch(&server.connection(), &Credentials::read(&created.json()));
        Self { token, left_s: i64::MAX }
    }

    /// Number of accepted calls, of at most `tries`; none if midnight passed.
    fn let_through(&mut self, server: &Server, tries: i64) -> Option<i64> {
        let connection = server.connection();
        for made in 0..tries {
            let response = connection.request("GET", "/api/v2/Individual?_count=1").bearer(&self.token).send();
            let left_s = response.number("x-ratelimit-reset");
            assert_eq!(response.number("x-ratelimit-limit"), PER_DAY, "the minute never ends first");
            if left_s > self.left_s {
                return None;
            }
            self.left_s = left_s;
            if response.status == 429 {
                return Some(made);
            }
            drop(response.expect(200));
        }
        Some(tries)
    }
}

/// Uses up the daily quota of a new client over two kills and a third; returns the number of accepted calls. None if
/// midnight passed.
fn use_up(server: &mut Option<Server>, data_dir: &Path) -> Option<i64> {
    let mut day = Day::begin(server.as_ref()?, data_dir);
    let mut made = 0;
    for tries in [70, 61, PER_DAY + 50] {
        made += day.let_through(server.as_ref()?, tries)?;
        server.take()?.kill();
        *server = Some(Server::serve(data_dir, &[]));
    }
    assert_eq!(day.let_through(server.as_ref()?, 20)?, 0, "what was used up stays used up");
    Some(made)
}

#[test]
fn a_day_outlives_kills_and_is_never_exceeded() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let mut server = Some(Server::serve(&data_dir, &[]));
    // The machine's own clock counts here. There is at most one midnight within a test.
    let made = use_up(&mut server, &data_dir).or_else(|| use_up(&mut server, &data_dir)).expect("a day lasts a day");
    assert!(made <= PER_DAY, "{made} calls in a day of {PER_DAY}");
    assert!(made >= PER_DAY - 2 * LOST_MAX, "{made} calls in a day of {PER_DAY} over two kills");
    drop(server.unwrap().stop().expect_success());
}
