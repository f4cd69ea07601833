//! Generated sequences of operations, compared with a model of the register; `cargo xtask torture --model` sends many.

use daftar_tests::model::{Alone, Embedded, Shared, Step, Summary, World, replay, run};

/// Runs the sequences of some seeds.
fn agree<W: World>(start: impl Fn() -> W, seeds: std::ops::Range<u64>, length: usize) -> Vec<Summary> {
    seeds.map(|seed| run(&start, seed, length).unwrap_or_else(|problem| panic!("{problem}"))).collect()
}

#[test]
fn a_server_with_a_clock_that_is_set_agrees_with_the_model() {
    let summaries = agree(Embedded::start, 1..7, 150);
    assert!(summaries.iter().all(|summary| summary.written > 20 && summary.rejected > 10), "{summaries:?}");
    assert!(summaries.iter().any(|summary| summary.replayed > 0 && summary.restarts > 0), "{summaries:?}");
}

#[test]
fn a_server_that_is_killed_agrees_with_the_model() {
    let summaries = agree(Alone::start, 11..13, 100);
    assert!(summaries.iter().any(|summary| summary.restarts > 0), "{summaries:?}");
}

#[test]
fn two_servers_of_one_register_agree_with_the_model() {
    let summaries = agree(Shared::start, 21..23, 100);
    assert!(summaries.iter().any(|summary| summary.restarts > 0), "{summaries:?}");
}

#[test]
fn an_enrolment_is_addressed_by_the_present_owner_of_an_identifier() {
    // The second individual has the identifier that the first one had, and no enrolment.
    let steps = [
        Step::Register { value: 7, born: 0, key: None },
        Step::Enrol { value: 7, key: None },
        Step::EndIdentifier { value: 7, ended: 7 },
        Step::Register { value: 7, born: 1, key: None },
        Step::Exit { value: 7 },
    ];
    let summary = replay(Embedded::start, &steps).unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!((summary.written, summary.rejected), (4, 1));
}
