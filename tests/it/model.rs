//! Generated sequences of operations, compared with a model of the register; `cargo xtask torture --model` sends many.

use daftar_tests::model::{Alone, Embedded, Shared, Step, Summary, World, replay, run};

/// Minutes of more than a day, and back by less.
const AHEAD: i16 = 1_501;
const BACK: i16 = -1_380;

/// Runs the sequence of a seed.
fn agree<W: World>(start: impl Fn() -> W, seed: u64, length: usize) -> Summary {
    run(start, seed, length).unwrap_or_else(|problem| panic!("{problem}"))
}

/// Sends operations to a server with a clock that is set.
fn replayed(steps: &[Step]) -> Summary {
    replay(Embedded::start, steps).unwrap_or_else(|problem| panic!("{problem}"))
}

#[test]
fn a_server_with_a_clock_that_is_set_agrees_with_the_model() {
    let summaries: Vec<Summary> = (1..7).map(|seed| agree(Embedded::start, seed, 120)).collect();
    assert!(summaries.iter().all(|summary| summary.written > 20 && summary.rejected > 10), "{summaries:?}");
    assert!(summaries.iter().all(|summary| summary.restarts > 0 && summary.kills == 0), "{summaries:?}");
    let all = summaries.iter().copied().fold(Summary::default(), Summary::plus);
    assert!(all.replayed > 0 && all.limited > 0, "{all}");
}

#[test]
fn a_server_that_is_killed_agrees_with_the_model() {
    let summaries: Vec<Summary> = (11..13).map(|seed| agree(Alone::start, seed, 100)).collect();
    assert!(summaries.iter().all(|summary| summary.kills > 0 && summary.replayed > 0), "{summaries:?}");
}

#[test]
fn two_servers_of_one_register_agree_with_the_model() {
    // One of the servers of the second register has the register in memory.
    let summaries = [agree(Shared::start, 21, 100), agree(Shared::mixed, 22, 100)];
    assert!(summaries.iter().all(|summary| summary.kills > 0 && summary.replayed > 0), "{summaries:?}");
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
    let summary = replayed(&steps);
    assert_eq!((summary.written, summary.rejected), (4, 1));
}

#[test]
fn an_enrolment_does_not_end_before_its_first_day_when_the_clock_is_set_back() {
    let steps = [
        Step::Register { value: 0, born: 0, key: None },
        Step::Pass { minutes: AHEAD },
        Step::Enrol { value: 0, key: Some(1) },
        Step::Pass { minutes: BACK },
        Step::Exit { value: 0 },
        Step::Enrol { value: 0, key: Some(1) },
        Step::Pass { minutes: AHEAD },
        Step::Exit { value: 0 },
        // It has ended already.
        Step::Exit { value: 0 },
    ];
    let summary = replayed(&steps);
    assert_eq!((summary.written, summary.rejected, summary.replayed), (4, 1, 1));
}

#[test]
fn a_membership_that_begins_after_the_clock_was_set_back_can_be_cancelled() {
    let steps = [
        Step::Register { value: 0, born: 0, key: None },
        Step::Register { value: 1, born: 1, key: None },
        Step::Register { value: 2, born: 2, key: None },
        Step::CreateGroup { group: 0, head: 0, other: 1 },
        Step::Pass { minutes: AHEAD },
        Step::AddMember { group: 0, value: 2, is_head: false, key: None },
        Step::Pass { minutes: BACK },
        Step::AddMember { group: 0, value: 2, is_head: false, key: None },
        Step::Restart,
        Step::RemoveMember { group: 0, value: 2 },
        Step::RemoveMember { group: 0, value: 1 },
    ];
    let summary = replayed(&steps);
    assert_eq!((summary.written, summary.rejected), (7, 1));
}

#[test]
fn consents_and_quotas_depend_on_the_day_that_the_clock_shows() {
    let steps = [
        Step::Register { value: 0, born: 0, key: None },
        Step::Consent { value: 0, days: 0 },
        Step::Spend { count: 5 },
        Step::Pass { minutes: AHEAD },
        Step::Spend { count: 5 },
        Step::Pass { minutes: 61 },
        Step::Spend { count: 5 },
        Step::Restart,
        Step::Pass { minutes: BACK },
        Step::Spend { count: 8 },
        Step::Withdraw { nth: 0 },
        Step::Withdraw { nth: 0 },
    ];
    let summary = replayed(&steps);
    assert_eq!((summary.written, summary.rejected), (4, 0));
    assert!(summary.limited > 0, "{summary}");
}
