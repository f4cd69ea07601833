//! Random writes of every kind.

use jiff::SignedDuration;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use sha2::{Digest, Sha256};

use super::super::*;
use daftar_domain::calendar::Period;
use daftar_domain::client::ClientStatus;
use daftar_domain::consent::{CONSENT_ID, ConsentDetails, ConsentId, SUBJECT, WITHDRAWN};
use daftar_domain::deployment::SettingKey;
use daftar_domain::group::GroupDetails;
use daftar_domain::idempotency::{RequestName, StoredResponse};
use daftar_domain::identifier::IdentifierSystem;
use daftar_domain::identifier::{Identifier, SystemUri};
use daftar_domain::individual::{IndividualDetails, PHOTO};
use daftar_domain::photo::Photo;
use daftar_domain::program;
use daftar_domain::program_membership::{MembershipStatus, ProgramMembershipDetails};
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_domain::value::Reference;
use daftar_index::testing::{any_group, any_individual};
use daftar_store::Operation;
use daftar_store::record::samples;
use daftar_store::suite::{audit_entry, key, membership, write};
use daftar_store_sled::SledStore;

/// A random sequence of writes, the same in each run.
pub(super) struct World {
    runner: TestRunner,
    written: u64,
}

impl World {
    pub(super) fn new(seed: u8) -> Self {
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
        Self { runner: TestRunner::new_with_rng(Config::default(), rng), written: 0 }
    }

    fn any<S: Strategy>(&mut self, strategy: S) -> S::Value {
        strategy.new_tree(&mut self.runner).unwrap().current()
    }

    fn below(&mut self, end: u64) -> u64 {
        self.any(0..end)
    }

    /// Identifiers that move from one record to another, and end.
    fn identifiers(&mut self, system: &str) -> Vec<Identifier> {
        let mut identifiers = Vec::new();
        for number in 0..self.below(3) {
            let value = format!("urn:x:{system}{number}|{}", self.below(4));
            let end = (self.below(3) == 0).then(|| jiff::civil::date(2026, 1, 1));
            identifiers.push(Identifier { key: key(&value), period: end.map(|_| Period { start: None, end }) });
        }
        identifiers
    }

    fn beneficiary(&mut self) -> SubjectReference {
        let kind = self.any(select(vec![Subject::Individual, Subject::Group]));
        SubjectReference { kind, id: RecordId(1 + self.below(4)) }
    }

    /// Writes something so many times. Rejected writes are skipped.
    pub(super) async fn write(&mut self, store: &SledStore, steps: usize) {
        for _ in 0..steps {
            let mut operations = Vec::new();
            for _ in 0..=self.below(2) {
                operations.extend(self.operations(store).await);
            }
            if self.below(3) == 0 {
                self.write_other(store).await;
            }
            let written = if self.below(5) == 0 && !operations.is_empty() {
                let request = self.request(operations.len());
                store.commit_once(write(operations), request).await
            } else {
                let audit = vec![audit_entry(&self.written.to_string())];
                store.commit(Write { audit, ..write(operations) }).await
            };
            self.written += 1;
            match written {
                Ok(_)
                | Err(
                    StoreError::IdentifierInUse(_)
                    | StoreError::MembershipOpen
                    | StoreError::VersionMismatch { .. }
                    | StoreError::ClientExists(_)
                    | StoreError::ClientChanged(_)
                    | StoreError::AlreadyDone,
                ) => {}
                Err(error) => panic!("{error}"),
            }
        }
        store.audit(0).await.unwrap();
    }

    /// One of the records of a kind and its version; `None` if there is none.
    async fn one(&mut self, store: &SledStore, kind: RecordKind) -> Option<(RecordId, VersionId, ChangedRecord)> {
        let mark = store.snapshot().await.unwrap().mark().clone();
        let last = mark.records.iter().find(|(of, _)| *of == kind).map_or(0, |(_, last)| *last);
        if last == 0 {
            return None;
        }
        let id = RecordId(1 + self.below(last));
        let record = store.record(kind, id).await.unwrap().unwrap();
        Some((id, record.place().2, record))
    }

    async fn operations(&mut self, store: &SledStore) -> Vec<Operation> {
        match self.below(14) {
            0 | 1 => vec![Operation::create(self.person())],
            2 | 3 => self.changed_person(store).await,
            4 => vec![Operation::create(self.group())],
            5 | 6 => match self.one(store, RecordKind::Group).await {
                Some((id, version, _)) => vec![Operation::update(id, version, self.group())],
                None => Vec::new(),
            },
            7 => self.program(store).await,
            8 => vec![Operation::create(self.membership())],
            9 => match self.one(store, RecordKind::ProgramMembership).await {
                Some((id, version, _)) => {
                    let details = self.membership();
                    vec![Operation::update(id, version, details)]
                }
                None => Vec::new(),
            },
            10 => vec![Operation::create(self.consent())],
            11 => match self.one(store, RecordKind::Consent).await {
                Some((id, version, ChangedRecord::Consent(consent))) => {
                    let is_withdrawn = (self.below(2) == 0).then_some(true);
                    let details = consent.details.clone().with(WITHDRAWN, is_withdrawn);
                    vec![Operation::update(id, version, details)]
                }
                _ => Vec::new(),
            },
            12 => self.client(store).await,
            _ => {
                let system = SystemUri::parse(&format!("https://example.org/system-{}", self.below(4))).unwrap();
                let setting = IdentifierSystem { uri: system.clone(), ..samples::identifier_system() };
                match self.below(2) {
                    0 => vec![Operation::PutSetting(Setting::IdentifierSystem(setting))],
                    _ => vec![Operation::RemoveSetting(SettingKey::IdentifierSystem(system))],
                }
            }
        }
    }

    fn person(&mut self) -> IndividualDetails {
        let mut details = self.any(any_individual()).details;
        details.identifiers = self.identifiers("person");
        details
    }

    async fn changed_person(&mut self, store: &SledStore) -> Vec<Operation> {
        let Some((id, version, _)) = self.one(store, RecordKind::Individual).await else { return Vec::new() };
        let details = self.person();
        if self.below(2) == 0 {
            return vec![Operation::update(id, version, details)];
        }
        let bytes = format!("portrait {}", self.below(5)).into_bytes();
        let photo = Photo::new(bytes, |bytes| Sha256::digest(bytes).into()).unwrap();
        let details = details.with(PHOTO, photo.reference());
        vec![Operation::PutPhoto(photo), Operation::update(id, version, details)]
    }

    fn group(&mut self) -> GroupDetails {
        let mut details = self.any(any_group(6));
        details.identifiers = self.identifiers("group");
        details
    }

    async fn program(&mut self, store: &SledStore) -> Vec<Operation> {
        let identifiers = self.identifiers("program");
        let mut details = samples::full_program().details.with(program::ACTIVE, self.below(2) == 0);
        details.identifiers = identifiers;
        match self.one(store, RecordKind::Program).await {
            Some((id, version, _)) if self.below(2) == 0 => {
                vec![Operation::update(id, version, details)]
            }
            _ => vec![Operation::create(details)],
        }
    }

    fn membership(&mut self) -> ProgramMembershipDetails {
        let identifiers = self.identifiers("place");
        let (program, beneficiary) = (RecordId(1 + self.below(2)), self.beneficiary());
        let mut details = membership(program, beneficiary, self.any(select(MembershipStatus::ALL.to_vec())));
        details.identifiers = identifiers;
        details
    }

    fn consent(&mut self) -> ConsentDetails {
        let id = ConsentId::from_bytes(self.any(any::<[u8; 16]>()));
        let subject = Reference::from(self.beneficiary());
        samples::full_consent().details.with(CONSENT_ID, id).with(SUBJECT, subject)
    }

    async fn client(&mut self, store: &SledStore) -> Vec<Operation> {
        let id = ClientId::parse(&format!("client-{}", self.below(4))).unwrap();
        let there = store.clients().await.unwrap().into_iter().find(|client| client.id == id);
        let status = self.any(select(vec![ClientStatus::Active, ClientStatus::Disabled]));
        match there {
            None => vec![Operation::CreateClient(Client { id, status, ..samples::full_client() })],
            Some(client) => {
                let updated_at = client.updated_at;
                vec![Operation::UpdateClient(Client { status, ..client }, updated_at)]
            }
        }
    }

    fn request(&mut self, responses: usize) -> IdempotentRequest {
        let name = RequestName {
            client: ClientId::parse("client-1").unwrap(),
            key: IdempotencyKey::parse(&format!("k{}", self.below(12))).unwrap(),
            part: 0,
        };
        let at = self.instant();
        let responses = vec![StoredResponse { status: 201, record: None }; responses];
        IdempotentRequest { name, digest: [1; 32], at, responses }
    }

    fn instant(&mut self) -> Timestamp {
        let first: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        first + SignedDuration::from_hours(i64::try_from(self.below(60)).unwrap())
    }

    /// Changes other than operations: codes, counters, requests that are deleted, audit entries.
    async fn write_other(&mut self, store: &SledStore) {
        match self.below(5) {
            0 => {
                let code = |number: String| CodeUri::from_parts("urn:x:codes", &number).unwrap();
                let codes = (0..self.below(4)).map(|more| code(format!("{}-{more}", self.written))).collect();
                drop(
                    store
                        .number_codes(codes, vec![(Namespace::parse("urn:x").unwrap(), self.written.to_string())])
                        .await,
                );
            }
            1 => {
                let name = format!("day/2026-01-0{}/client", 1 + self.below(3));
                store.raise_counter(&name, self.written).await.unwrap();
            }
            2 => store.remove_counters(&format!("day/2026-01-0{}", 1 + self.below(3))).await.unwrap(),
            3 => {
                let now = self.instant();
                store.forget_requests(now).await.unwrap();
            }
            _ => {
                let lines = (0..1 + self.below(400)).map(|line| audit_entry(&format!("{}-{line}", self.written)));
                store.append_audit(lines.collect()).await.unwrap();
                store.audit(0).await.unwrap();
            }
        }
    }
}
