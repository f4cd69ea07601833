//! How every store behaves: one suite, run against each backend and against the overlay.
//!
//! **Invariant:** nothing outside tests uses this.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    reason = "for tests alone: a fixture that is wrong should fail its test at once, and names are sentences"
)]

pub mod archive;
pub mod audit;
pub mod changes;
pub mod clients;
pub mod identifiers;
pub mod programs;
pub mod records;
pub mod requests;
pub mod resting;
pub mod settings;
pub mod shared;
pub mod sharing;
pub mod tables;
pub mod transactions;

use std::sync::{Arc, Mutex};

use daftar_domain::audit::{Actor, AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::change::{Change, Details};
use daftar_domain::extension::Extension;
use daftar_domain::group::GroupDetails;
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::individual::{Individual, IndividualDetails};
use daftar_domain::program_membership::{BENEFICIARY, MembershipStatus, PROGRAM, ProgramMembershipDetails, STATUS};
use daftar_domain::record::{Record, RecordId, RecordKind};
use daftar_domain::subject::SubjectReference;
use daftar_domain::value::{Reference, Values};

use super::archive::{Archive, Refill};
use super::record::samples;
use super::{ChangeSink, Committed, Operation, Store, StoreError, Write, Written};

/// A backend under test.
#[async_trait::async_trait]
pub trait Backend: Send {
    /// A new empty store, without a sink.
    fn fresh() -> Self;
    fn store(&self) -> &dyn Store;
    fn whole(&self) -> &dyn Archive;
    /// A way to fill a store that is empty, and the filled one, without a sink.
    fn refill() -> (Box<dyn Refill>, Box<dyn FnOnce() -> Self>)
    where
        Self: Sized;
    /// Closes the store and opens it again, without a sink.
    async fn reopen(&mut self);
    /// Whether it knows after `reopen` what the last writes touched.
    fn remembers_what_was_touched() -> bool {
        false
    }
}

/// Notes the changes that it hears of.
#[derive(Default)]
pub struct Listener(pub Mutex<Vec<Change>>);

impl ChangeSink for Listener {
    fn apply(&self, changes: &[Change]) {
        self.0.lock().unwrap().extend(changes.iter().cloned());
    }
}

/// A new empty store whose changes somebody hears of.
pub fn listening<B: Backend>() -> (B, Arc<Listener>) {
    let backend = B::fresh();
    let listener = Arc::new(Listener::default());
    backend.store().attach_sink(Arc::clone(&listener) as Arc<dyn ChangeSink>).unwrap();
    (backend, listener)
}

pub async fn reopened<B: Backend>(backend: &mut B) -> Arc<Listener> {
    backend.reopen().await;
    let listener = Arc::new(Listener::default());
    backend.store().attach_sink(Arc::clone(&listener) as Arc<dyn ChangeSink>).unwrap();
    listener
}

pub fn key(text: &str) -> IdentifierKey {
    IdentifierKey::parse(text).unwrap()
}

/// A person with open identifiers.
pub fn person(identifiers: &[&str]) -> IndividualDetails {
    let identifiers = identifiers.iter().map(|text| Identifier { key: key(text), period: None });
    IndividualDetails::new(identifiers.collect(), Values::default(), Extension::default())
}

/// A group with open identifiers.
pub fn group(identifiers: &[&str]) -> GroupDetails {
    GroupDetails::new(person(identifiers).identifiers, Values::default(), Extension::default())
}

/// A membership without identifiers.
pub fn membership(
    program: RecordId,
    beneficiary: SubjectReference,
    status: MembershipStatus,
) -> ProgramMembershipDetails {
    let mut details = samples::full_membership().details;
    details.identifiers.clear();
    details
        .with(PROGRAM, Reference { kind: RecordKind::Program, id: program })
        .with(BENEFICIARY, Reference::from(beneficiary))
        .with(STATUS, status)
}

pub fn write(operations: Vec<Operation>) -> Write {
    Write {
        at: "2026-01-02T03:04:05.678Z".parse().unwrap(),
        source: None,
        operations,
        audit: Vec::new(),
        read_set: Vec::new(),
    }
}

pub fn audit_entry(request: &str) -> AuditEntry {
    AuditEntry {
        at: "2026-01-02T03:04:05.678Z".parse().unwrap(),
        actor: Actor::System,
        address: None,
        request_id: request.to_owned(),
        operation: None,
        action: AuditAction::Read,
        outcome: AuditOutcome::Allowed,
        status: None,
        targets: Vec::new(),
        fields: Arc::default(),
        consents: Vec::new(),
        reason: None,
        note: None,
        count: 1,
    }
}

pub async fn commit(store: &dyn Store, operations: Vec<Operation>) -> Result<Committed, StoreError> {
    store.commit(write(operations)).await
}

pub async fn create(store: &dyn Store, details: IndividualDetails) -> Arc<Individual> {
    let committed = commit(store, vec![Operation::create(details)]).await.unwrap();
    individual_of(&committed.written[0])
}

pub fn individual_of(written: &Written) -> Arc<Individual> {
    record_of(written)
}

/// The record that an operation wrote.
pub fn record_of<D: Details>(written: &Written) -> Arc<Record<D>> {
    written.record().and_then(D::of).unwrap_or_else(|| panic!("not a {}: {written:?}", D::KIND))
}

/// The keys of everybody, by scanning in steps of two.
pub async fn everybody(store: &dyn Store) -> Vec<u64> {
    let mut ids = Vec::new();
    loop {
        let after = RecordId(ids.last().copied().unwrap_or(0));
        let page = store.scan::<IndividualDetails>(after, 2).await.unwrap();
        if page.is_empty() {
            return ids;
        }
        ids.extend(page.iter().map(|individual| individual.id.0));
    }
}

/// Drives futures together until all are done; their outcomes in the order given.
pub async fn futures_join<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        for (future, outcome) in waiting.iter_mut().filter(|(_, outcome)| outcome.is_none()) {
            if let std::task::Poll::Ready(done) = future.as_mut().poll(context) {
                *outcome = Some(done);
            }
        }
        if waiting.iter().all(|(_, outcome)| outcome.is_some()) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    waiting.into_iter().filter_map(|(_, outcome)| outcome).collect()
}

/// Makes a test of each function named.
#[macro_export]
macro_rules! tests_of {
    ($backend:ty: $($module:ident::{$($test:ident),* $(,)?}),* $(,)?) => {
        $($(
            #[tokio::test]
            async fn $test() {
                $crate::suite::$module::$test::<$backend>().await;
            }
        )*)*
    };
}

/// Makes a test of every behaviour.
#[macro_export]
macro_rules! every_behaviour {
    ($backend:ty) => {
        $crate::suite::tests_of! { $backend:
            records::{
                a_created_record_reads_back_as_returned,
                keys_count_up_for_each_kind_and_go_on_after_reopening,
                an_update_needs_the_present_version_and_keeps_the_older_one,
                a_photo_is_kept_beside_its_record,
                a_write_is_whole_or_nothing,
                operations_of_one_write_build_on_each_other,
                scans_give_records_by_key,
                several_records_come_in_the_order_asked,
                instants_are_kept_to_the_millisecond,
                absent_and_empty_lists_stay_apart,
                changes_are_told_once_in_order,
                records_are_refused_until_somebody_hears_of_changes,
            },
            identifiers::{
                an_open_identifier_has_one_owner,
                an_ended_identifier_can_be_taken_up,
                one_write_cannot_give_an_identifier_twice,
                kinds_do_not_share_identifiers,
                owners_keep_those_that_ended_it_and_those_that_dropped_it,
                an_ended_identifier_cannot_be_reopened_while_another_holds_it,
                owners_are_limited_and_the_holder_comes_first,
            },
            programs::{
                every_kind_reads_back_with_its_older_versions,
                people_and_groups_are_records_too,
                a_beneficiary_has_one_open_membership_in_a_program,
                one_of_many_is_enrolled,
                programs_are_few,
            },
            clients::{
                a_client_reads_back_and_survives,
                a_client_is_created_once,
                a_client_is_changed_only_as_last_seen,
                two_changes_in_one_millisecond_do_not_look_alike,
            },
            settings::{
                settings_read_back_and_survive,
                a_setting_is_replaced_and_taken_out_by_its_key,
                settings_of_one_write_are_all_kept_or_none,
                settings_of_like_names_stay_apart,
            },
            tables::{
                codes_keep_their_numbers,
                codes_get_numbers_with_the_write_that_holds_them_or_none,
                many_codes_are_numbered_at_once,
                counters_never_go_down,
                counters_are_removed_by_prefix,
                the_audit_log_is_newest_first,
                the_audit_log_keeps_the_lines_of_writes_and_of_refusals,
                long_lines_of_the_audit_log_are_all_kept,
                a_line_of_the_audit_log_too_long_to_keep_is_cut,
            },
            resting::{
                a_write_is_refused_when_what_it_rests_on_was_touched,
                writes_that_wait_together_see_what_each_other_touches,
                what_is_not_remembered_counts_as_touched,
            },
            transactions::{
                what_a_write_creates_can_be_referred_to_in_it,
                writes_that_wait_together_each_count_their_own_records,
                a_reference_to_what_was_not_created_yet_writes_nothing,
            },
            audit::{
                the_audit_log_is_looked_through_in_pages,
                the_audit_log_is_looked_through_by_time,
                many_lines_of_the_audit_log_are_found_by_what_they_name,
                old_lines_of_the_audit_log_are_removed_in_small_steps,
                lines_as_old_as_the_limit_stay,
                lines_of_a_clock_that_was_wrong_keep_none_after_them,
                what_is_left_after_a_removal_is_found,
            },
            changes::{
                the_order_of_writes_tells_what_each_touched,
                a_mark_tells_one_history_from_every_other,
            },
            archive::{
                a_snapshot_holds_everything_that_is_kept,
                what_is_written_after_the_snapshot_is_not_in_it,
                a_snapshot_under_writes_is_what_stood_after_one_write,
                a_filled_store_holds_what_the_other_one_held,
                an_empty_store_is_taken_and_filled,
            },
            requests::{
                a_request_is_done_once_and_remembered_with_what_it_wrote,
                requests_are_forgotten_after_a_day,
                one_of_many_requests_of_a_name_is_done,
            },
            shared::{
                writers_at_once_all_get_keys_of_their_own,
                one_of_many_gets_the_identifier,
                one_of_many_updates_a_version,
            },
        }
    };
}

pub use {every_behaviour, tests_of};
