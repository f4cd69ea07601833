//! Tests whether the time of a rejected token request distinguishes an unknown client, a wrong secret and a disabled
//! client, over HTTP.
//!
//! Rejections of the three kinds are timed alternately, in an order that changes from round to round, each round from
//! an address of its own, as an attacker would do it. The figure is the share of pairs in which one takes longer
//! (`pairs.rs`). No client is used more often than is answered without a delay.

use daftar::auth::failed_sign_ins::FREE_FAILURES;
use daftar_tests::fresh_address;

use crate::http::{Connection, token_request};
use crate::pairs::{chance_of_longer, spread};
use crate::report::{Report, Row, Spread, percentile};
use crate::server::{Server, create_client};
use crate::setup::Setup;

/// Rounds: an address each.
const ROUNDS: u64 = 4_000;
const KINDS: [(&str, &str); 3] =
    [("unknown", "unknown client"), ("wrong", "wrong secret"), ("disabled", "disabled client")];

/// Measures it.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), String> {
    let register = setup.empty("sign-in")?;
    let rounds = setup.times(ROUNDS);
    report.setting("rejections of each kind", rounds);
    let server = Server::start(&register.folder)?;
    let mut clients = Vec::new();
    for _ in 0..rounds.div_ceil(u64::from(FREE_FAILURES)) {
        let active = create_client(&register.folder, None, &[])?;
        let disabled = create_client(&register.folder, None, &[])?;
        server.command(&["client", "disable", &disabled.id])?;
        clients.push((active, disabled));
    }
    let mut times: [Vec<f64>; 3] = Default::default();
    for round in 0..rounds as usize {
        let (active, disabled) = clients.get(round % clients.len()).ok_or("there are no clients")?;
        let wrong: String = active.secret.chars().rev().collect();
        let requested = [
            token_request(&format!("client-{round:032x}"), &active.secret),
            token_request(&active.id, &wrong),
            token_request(&disabled.id, &disabled.secret),
        ];
        let mut connection = Connection::from(fresh_address(), server.address)?;
        for kind in order(round) {
            let (Some(requested), Some(times)) = (requested.get(kind), times.get_mut(kind)) else { continue };
            times.push(connection.timed(requested, 401)?.0);
        }
    }
    for ((id, kind), times) in KINDS.into_iter().zip(&times) {
        let mut sorted = times.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let middle = Spread {
            median: percentile(&sorted, 0.5),
            low: percentile(&sorted, 0.25),
            high: percentile(&sorted, 0.75),
            n: sorted.len(),
        };
        report.row(Row::new(format!("sign-in.{id}"), format!("{kind}: median, and quartiles"), "µs", middle));
    }
    let [unknown, wrong, disabled] = &times;
    for (id, (first, second), one, other) in [
        ("unknown-wrong", ("an unknown client", "a wrong secret"), unknown, wrong),
        ("unknown-disabled", ("an unknown client", "a disabled one"), unknown, disabled),
        ("wrong-disabled", ("a wrong secret", "a disabled client"), wrong, disabled),
    ] {
        let chance = Spread::of([chance_of_longer(one, other) * 100.0]);
        let what = format!(
            "pairs in which {first} takes longer than {second}; 50 means indistinguishable, standard deviation {:.1}",
            spread(one.len()) * 100.0
        );
        report.row(Row::new(format!("sign-in.{id}"), what, "%", chance));
    }
    server.stop()?;
    setup.remove(register)
}

/// Each kind comes first, second and last equally often.
fn order(round: usize) -> [usize; 3] {
    [[0, 1, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0], [1, 0, 2], [0, 2, 1]].get(round % 6).copied().unwrap_or([0, 1, 2])
}
