//! Behaviour of every store: one test suite, run against each backend and against the overlay.
//!
//! **Invariant:** nothing outside tests uses this.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    reason = "for tests alone: an invalid fixture should fail its test immediately, and names are sentences"
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
    /// A refill of an empty store, and a function that opens the filled store, without a sink.
    fn refill() -> (Box<dyn Refill>, Box<dyn FnOnce() -> Self>)
    where
        Self: Sized;
    /// Closes the store and opens it again, without a sink.
    async fn reopen(&mut self);
    /// True if after `reopen` it knows the records touched by the last writes.
    fn remembers_what_was_touched() -> bool {
        false
    }
}

/// Records the notified changes.
#[derive(Default)]
pub struct Listener(pub Mutex<Vec<Change>>);

impl ChangeSink for Listener {
    fn apply(&self, changes: &[Change]) {
        self.0.lock().unwrap().extend(changes.iter().cloned());
    }
}

/// A new empty store with a listener for its changes.
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

/// An individual with current identifiers.
pub fn person(identifiers: &[&str]) -> IndividualDetails {
    let identifiers = identifiers.iter().map(|text| Identifier { key: key(text), period: None });
    IndividualDetails::new(identifiers.collect(), Values::default(), Extension::default())
}

/// A group with current identifiers.
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

/// The keys of all individuals, by scanning in steps of two.
pub async fn all_individuals(store: &dyn Store) -> Vec<u64> {
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

/// Runs futures concurrently until all are done; returns their results in order.
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

/// Generates a test for each named function.
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

/// Generates a test for every behaviour.
#[macro_export]
macro_rules! every_behaviour {
    ($backend:ty) => {
        $crate::suite::tests_of! { $backend:
            records::{
                a_created_record_reads_back_as_returned,
                keys_count_up_for_each_kind_and_continue_after_reopening,
                an_update_requires_the_current_version_and_keeps_the_older_one,
                a_photo_is_stored_separately_from_its_record,
                a_write_is_atomic,
                operations_of_one_write_build_on_each_other,
                scans_give_records_by_key,
                several_records_are_returned_in_the_requested_order,
                selected_fields_are_those_of_the_complete_record,
                timestamps_are_stored_in_milliseconds,
                absent_and_empty_lists_are_distinct,
                changes_are_reported_once_in_order,
                records_are_rejected_until_a_listener_is_attached,
            },
            identifiers::{
                an_open_identifier_has_one_owner,
                an_ended_identifier_can_be_reused,
                one_write_cannot_assign_an_identifier_twice,
                kinds_do_not_share_identifiers,
                owners_include_those_that_ended_or_dropped_it,
                an_ended_identifier_cannot_be_reopened_while_another_record_has_it,
                owners_are_limited_and_the_current_one_is_first,
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
                two_changes_in_one_millisecond_have_distinct_timestamps,
            },
            settings::{
                settings_read_back_and_survive,
                a_setting_is_replaced_and_removed_by_its_key,
                settings_of_one_write_are_stored_atomically,
                settings_of_similar_names_are_distinct,
                a_version_of_a_draft_is_added_once,
                drafts_of_one_owner_are_read_alone,
            },
            tables::{
                codes_keep_their_numbers,
                codes_are_numbered_with_their_write_or_not_at_all,
                many_codes_are_numbered_together,
                counters_never_decrease,
                counters_are_removed_by_prefix,
                the_audit_log_is_newest_first,
                the_audit_log_contains_entries_of_writes_and_of_denials,
                long_entries_of_the_audit_log_are_all_stored,
                an_audit_entry_over_the_limit_is_truncated,
            },
            resting::{
                a_write_is_rejected_if_its_read_set_was_touched,
                writes_of_one_group_see_each_others_changes,
                unknown_records_count_as_touched,
            },
            transactions::{
                a_write_can_refer_to_records_that_it_creates,
                writes_of_one_group_count_their_own_records,
                a_reference_to_a_later_created_record_is_rejected,
            },
            audit::{
                the_audit_log_is_searched_in_pages,
                the_audit_log_is_searched_by_time,
                audit_entries_are_found_by_the_names_they_contain,
                old_audit_entries_are_removed_in_small_steps,
                audit_entries_as_old_as_the_limit_stay,
                audit_entries_with_a_wrong_time_do_not_block_removal,
                entries_left_after_a_removal_are_found,
            },
            changes::{
                the_change_log_contains_the_records_of_each_write,
                a_mark_identifies_one_history,
            },
            archive::{
                a_snapshot_contains_all_stored_items,
                a_snapshot_excludes_later_writes,
                a_snapshot_under_concurrent_writes_is_consistent,
                a_snapshot_contains_all_versions_of_drafts,
                a_snapshot_excludes_later_changes_of_drafts,
                a_snapshot_without_a_version_of_a_draft_is_rejected,
                a_filled_store_equals_its_source,
                an_empty_store_is_copied,
            },
            requests::{
                a_request_is_executed_once_and_stored_with_its_write,
                idempotency_records_expire_after_a_day,
                one_of_many_requests_with_a_key_is_executed,
            },
            shared::{
                concurrent_writers_get_distinct_keys,
                one_of_many_gets_the_identifier,
                one_of_many_updates_a_version,
            },
        }
    };
}

pub use {every_behaviour, tests_of};
