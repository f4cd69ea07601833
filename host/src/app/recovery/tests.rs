//! A loaded and updated checkpoint equals an index that is built from all records, for all writes before and after.

use std::sync::Arc;

use jiff::civil::Date;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use daftar_domain::address;
use daftar_domain::calendar::Period;
use daftar_domain::change::ChangedRecord;
use daftar_domain::code::{CodeNumber, CodedValue, EditionNumber};
use daftar_domain::consent::{self, ConsentDetails, ConsentFilter, ConsentId};
use daftar_domain::extension::Extension;
use daftar_domain::group::{self, GroupDetails, Member};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::individual::{self, IndividualDetails};
use daftar_domain::organization::{LegalBasis, Organization};
use daftar_domain::person_name;
use daftar_domain::program_membership::{self, MembershipStatus, ProgramMembershipDetails};
use daftar_domain::scope::Resource;
use daftar_domain::search::{CodeCondition, CodedPlace, Page, Sorting, SubjectQuery, TextConditions};
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_domain::value::{Reference, Values};
use daftar_domain::vocabulary::CodedField;
use daftar_index::{SearchLimits, Snapshot};
use daftar_store::record::samples;
use daftar_store::{Operation, RecordDetails, Write};
use daftar_store_sled::SledStore;

const WORDS: [&str; 7] = ["Abebe", "Élan", "ገብረ", "中", "de la", "Ḥaile", "O'Neil"];
const ORGANIZATIONS: [&str; 3] = ["Health", "Education", "Food"];

/// The next write: kind, record and content, derived from numbers.
#[derive(Debug, Clone, Copy)]
struct Step {
    kind: u8,
    which: u64,
    is_update: bool,
    says: u32,
}

fn any_step() -> impl Strategy<Value = Step> {
    (0_u8..10, any::<u64>(), any::<bool>(), any::<u32>()).prop_map(|(kind, which, is_update, says)| Step {
        kind,
        which,
        is_update,
        says,
    })
}

/// A store that applies generated writes, and the number of its records by kind.
struct World {
    store: Arc<SledStore>,
    columns: Arc<Columns>,
    counts: [u64; 4],
    written: u64,
}

fn code(number: u32) -> CodedValue {
    CodedValue { number: CodeNumber(number), edition: EditionNumber(0) }
}

fn day(days: u32) -> Date {
    Date::constant(2026, 1, 1).saturating_add(jiff::Span::new().days(i64::from(days)))
}

fn identifier(text: &str, period: Option<Period>) -> Identifier {
    Identifier { key: IdentifierKey::parse(text).unwrap(), period }
}

fn word(says: u32) -> String {
    WORDS[says as usize % WORDS.len()].to_owned()
}

fn address(says: u32) -> Values {
    Values::default()
        .with(address::COUNTRY, says.is_multiple_of(3).then(|| code(says % 2)))
        .with(address::REGION, word(says / 5))
        .with(address::DISTRICT, word(says / 3))
}

fn person(says: u32, number: u64) -> IndividualDetails {
    let ended = Period { start: None, end: Some(day(0)) };
    let identifiers =
        vec![identifier(&format!("urn:x:a|{number}"), None), identifier(&format!("urn:x:b|{}", says % 5), Some(ended))];
    let name: Values = Values::default().with(person_name::FAMILY, word(says)).with(person_name::GIVEN, word(says / 7));
    let income = || Values::default().with(individual::INCOME_AMOUNT, f64::from(says));
    let extension =
        if says.is_multiple_of(6) { samples::full_individual().details.extension } else { Extension::default() };
    IndividualDetails::new(identifiers, Values::default(), extension)
        .with(individual::ACTIVE, [None, Some(true), Some(false)][says as usize % 3])
        .with(individual::NAME, name)
        .with(individual::BIRTH_DATE, (!says.is_multiple_of(4)).then(|| day(says % 900)))
        .with(individual::GENDER, code(says % 3))
        .with(individual::LANGUAGES, vec![code(says % 4), code(says % 5)])
        .with(individual::ADDRESS, (0..says % 3).map(|at| address(says + at)).collect::<Vec<_>>())
        .with(individual::INCOME, says.is_multiple_of(5).then(income))
}

impl World {
    fn new() -> Self {
        let (store, columns) = (Arc::new(SledStore::temporary()), Arc::new(Columns::default()));
        store.attach_sink(Arc::new(RegisterSink { columns: columns.clone(), bodies: Arc::default() })).unwrap();
        Self { store, columns, counts: [0; 4], written: 0 }
    }

    fn one_of(&self, kind: usize, which: u64) -> Option<RecordId> {
        (self.counts[kind] > 0).then(|| RecordId(which % self.counts[kind] + 1))
    }

    fn subject(&self, which: u64) -> Option<SubjectReference> {
        let kind = if which.is_multiple_of(3) { Subject::Group } else { Subject::Individual };
        let id = self.one_of(usize::from(kind == Subject::Group), which / 3)?;
        Some(SubjectReference { kind, id })
    }

    fn members(&self, says: u32) -> Vec<Member> {
        let member = |at: u32| {
            let individual = self.one_of(0, u64::from(says / 7 + at * 3))?;
            let until = Period { start: None, end: Some(day(says % 40)) };
            Some(Member {
                individual,
                role: at.is_multiple_of(2).then(|| code(says % 3)),
                period: says.is_multiple_of(2).then_some(until),
                is_inactive: (says + at).is_multiple_of(5),
            })
        };
        (0..says % 5).filter_map(member).collect()
    }

    /// Returns the operation of a step; `None` if its record does not exist.
    async fn operation(&self, step: Step) -> Option<Operation> {
        let Step { kind, which, is_update, says } = step;
        let number = self.written;
        let present = |kind, at| async move {
            let id = self.one_of(at, which).filter(|_| is_update)?;
            self.store.record(kind, id).await.unwrap()
        };
        Some(match kind {
            0..=3 => {
                let details = person(says, number);
                match present(RecordKind::Individual, 0).await {
                    Some(before) => Operation::update(before.place().1, before.place().2, details),
                    None => Operation::create(details),
                }
            }
            4..=6 => {
                let identifiers = vec![identifier(&format!("urn:x:g|{number}"), None)];
                let details: GroupDetails = GroupDetails::new(identifiers, Values::default(), Extension::default())
                    .with(group::NAME, word(says))
                    .with(group::ACTIVE, says.is_multiple_of(3).then_some(false))
                    .with(group::GROUP_TYPE, says.is_multiple_of(2).then(|| code(7)))
                    .with(group::MEMBER, self.members(says))
                    .with(group::ADDRESS, vec![address(says)]);
                match present(RecordKind::Group, 1).await {
                    Some(before) => Operation::update(before.place().1, before.place().2, details),
                    None => Operation::create(details),
                }
            }
            7 | 8 => match present(RecordKind::Consent, 3).await {
                Some(ChangedRecord::Consent(before)) => {
                    let is_withdrawn = before.details.is_withdrawn() || says.is_multiple_of(3);
                    let details = before.details.clone();
                    let details = details
                        .with(consent::EXPIRY_DATE, says.is_multiple_of(2).then(|| day(says % 100 + 50)))
                        .with(consent::WITHDRAWN, is_withdrawn.then_some(true));
                    Operation::update(before.id, before.meta.version, details)
                }
                _ => Operation::create(self.consent(which, says)?),
            },
            _ => match present(RecordKind::ProgramMembership, 2).await {
                Some(ChangedRecord::ProgramMembership(before)) => {
                    let status = MembershipStatus::ALL[says as usize % 6];
                    let details = before.details.clone().with(program_membership::STATUS, status);
                    Operation::update(before.id, before.meta.version, details)
                }
                _ => {
                    let program = Reference { kind: RecordKind::Program, id: RecordId(u64::from(says % 3 + 1)) };
                    let enrolled = says.is_multiple_of(2).then(|| day(says % 90));
                    let details: ProgramMembershipDetails = ProgramMembershipDetails::default()
                        .with(program_membership::PROGRAM, program)
                        .with(program_membership::BENEFICIARY, Reference::from(self.subject(which)?))
                        .with(program_membership::STATUS, MembershipStatus::ALL[says as usize % 6])
                        .with(program_membership::ENROLLMENT_DATE, enrolled);
                    Operation::create(details)
                }
            },
        })
    }

    fn consent(&self, which: u64, says: u32) -> Option<ConsentDetails> {
        let resources = [Resource::Individual, Resource::Group, Resource::ProgramMembership];
        let fields = says.is_multiple_of(3).then(|| vec!["name".to_owned(), "birth_date".to_owned()]);
        let resources = resources.into_iter().filter(|resource| (says >> (*resource as u32 % 8)).is_multiple_of(2));
        let details = ConsentDetails::default()
            .with(consent::CONSENT_ID, ConsentId::from_bytes(u128::from(self.written).to_be_bytes()))
            .with(consent::SUBJECT, Reference::from(self.subject(which)?))
            .with(consent::GRANTEE, ORGANIZATIONS[says as usize % 3].to_owned())
            .with(consent::PURPOSE, says.is_multiple_of(4).then(|| format!("purpose {}", says % 5)))
            .with(consent::EFFECTIVE_DATE, day(says % 50))
            .with(consent::EXPIRY_DATE, says.is_multiple_of(2).then(|| day(says % 50 + 20)))
            .with(consent::SCOPES, resources.collect::<Vec<_>>())
            .with(consent::FIELD_NAMES, fields)
            .with(consent::LEGAL_BASIS, LegalBasis::Consent)
            .with(consent::WITHDRAWN, says.is_multiple_of(9).then_some(true));
        Some(details)
    }

    /// Applies some steps as one write, as far as they are possible.
    async fn write(&mut self, steps: &[Step]) {
        let mut operations = Vec::new();
        for step in steps {
            self.written += 1;
            operations.extend(self.operation(*step).await);
        }
        let at = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let _may_conflict =
            self.store.commit(Write { at, source: None, operations, audit: Vec::new(), read_set: Vec::new() }).await;
        for (at, kind) in [
            (0, RecordKind::Individual),
            (1, RecordKind::Group),
            (2, RecordKind::ProgramMembership),
            (3, RecordKind::Consent),
        ] {
            self.counts[at] = self.store.scan_records(kind, RecordId(0), 10_000).await.unwrap().len() as u64;
        }
    }
}

/// Runs a few queries of every kind, and returns their results.
fn responses(snapshot: &Snapshot) -> Vec<String> {
    let mut queries = vec![SubjectQuery::individuals()];
    for text in ["abe", "elan", "中", "haile", "o"] {
        let texts = TextConditions { name_words: vec![text.to_owned()], ..TextConditions::default() };
        queries.push(SubjectQuery { texts, ..SubjectQuery::individuals() });
    }
    for number in 0..5 {
        let any_of = vec![CodeNumber(number)];
        let codes = vec![CodeCondition { field: CodedPlace::Field(CodedField::Languages), any_of }];
        let key = IdentifierKey::parse(&format!("urn:x:b|{number}")).unwrap();
        queries.push(SubjectQuery { codes, ..SubjectQuery::individuals() });
        queries.push(SubjectQuery { identifiers: vec![key], ..SubjectQuery::individuals() });
    }
    let page = Page { offset: 0, count: 100 }.into();
    let mut responses: Vec<String> = queries
        .iter()
        .map(|query| format!("{:?}", snapshot.search(query, SearchLimits::default(), Sorting::REGISTERED, &page)))
        .collect();
    for organization in ORGANIZATIONS {
        let filter = ConsentFilter { organization: Some(Organization::parse(organization).unwrap()), purpose: None };
        for id in 1..20 {
            for kind in Subject::ALL {
                let subject = SubjectReference { kind, id: RecordId(id) };
                let resource = if kind == Subject::Group { Resource::Group } else { Resource::Individual };
                responses.push(format!("{:?}", snapshot.opened(resource, subject, &filter, day(30))));
            }
        }
    }
    (1..20).for_each(|id| responses.push(format!("{:?}", snapshot.groups_of(RecordId(id)))));
    responses
}

fn in_runtime<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

proptest! {
    #[test]
    fn an_updated_checkpoint_equals_a_rebuilt_register(
        before in vec(vec(any_step(), 1..4), 0..25),
        between in vec(vec(any_step(), 1..4), 0..12),
        after in vec(vec(any_step(), 1..4), 0..12),
    ) {
        in_runtime(async {
            let mut world = World::new();
            let program = RecordDetails::Program(samples::full_program().details);
            let at = jiff::Timestamp::UNIX_EPOCH;
            let operations = vec![Operation::Create(program)];
            world.store.commit(Write { at, source: None, operations, audit: Vec::new(), read_set: Vec::new() }).await.unwrap();
            for steps in &before {
                world.write(steps).await;
            }
            let image = world.columns.image();
            // Writers continue while the checkpoint is written.
            for steps in &between {
                world.write(steps).await;
            }
            let folder = tempfile::tempdir().unwrap();
            let checkpoints = CheckpointFolder::open(folder.path().join("checkpoints")).unwrap();
            let mark = world.store.history_mark(image.sequence()).await.unwrap().unwrap();
            checkpoints.write(&image, mark.0).unwrap();
            for steps in &after {
                world.write(steps).await;
            }

            let file = checkpoints.newest_first().unwrap().remove(0).unwrap();
            assert_eq!((file.sequence, file.mark), (image.sequence(), mark.0));
            let loaded = file.load().unwrap();
            load_programs(&*world.store, &loaded).await.unwrap();
            assert_eq!(loaded.image().fingerprint().differs_in(&programs_apart(&image, &loaded)), Vec::<&str>::new());
            catch_up(&*world.store, &loaded, file.sequence).await.unwrap().unwrap();
            let rebuilt = loaded.sibling();
            build(&world.store, &rebuilt).await.unwrap();
            let live_rebuilt = world.columns.sibling();
            build(&world.store, &live_rebuilt).await.unwrap();

            let fingerprint = loaded.image().fingerprint();
            assert_eq!(fingerprint.differs_in(&rebuilt.image().fingerprint()), Vec::<&str>::new());
            let live = world.columns.image().fingerprint();
            assert_eq!(live.differs_in(&live_rebuilt.image().fingerprint()), Vec::<&str>::new());
            assert_eq!(responses(&loaded.snapshot()), responses(&rebuilt.snapshot()));
            assert_eq!(responses(&loaded.snapshot()), responses(&world.columns.snapshot()));

            // Later writes apply to the same register.
            for steps in &before {
                world.write(steps).await;
            }
            catch_up(&*world.store, &loaded, file.sequence).await.unwrap().unwrap();
            assert_eq!(responses(&loaded.snapshot()), responses(&world.columns.snapshot()));
        });
    }
}

/// Returns the fingerprint of an image as if it were loaded: with the current programs of the store.
fn programs_apart(image: &daftar_index::Image, loaded: &Columns) -> daftar_index::testing::fingerprint::Fingerprint {
    let with_programs = Columns::from_image(image.clone());
    let programs: Vec<_> = loaded.snapshot().programs().cloned().map(ChangedRecord::Program).collect();
    with_programs.load(&programs);
    with_programs.image().fingerprint()
}

#[test]
fn where_most_is_new_everything_is_read() {
    in_runtime(async {
        let mut world = World::new();
        let step = Step { kind: 0, which: 0, is_update: false, says: 1 };
        world.write(&[step]).await;
        let image = world.columns.image();
        // One more than the number that is always applied.
        let at = jiff::Timestamp::UNIX_EPOCH;
        for _ in 0..=CAUGHT_UP_MIN / 1_000 {
            let operations = vec![Operation::create(IndividualDetails::default()); 1_000];
            world
                .store
                .commit(Write { at, source: None, operations, audit: Vec::new(), read_set: Vec::new() })
                .await
                .unwrap();
        }
        let loaded = Columns::from_image(image.clone());
        assert_eq!(catch_up(&*world.store, &loaded, image.sequence()).await.unwrap(), None);
        let loaded = Columns::from_image(image);
        let last = world.columns.sequence();
        assert_eq!(catch_up(&*world.store, &loaded, last).await.unwrap(), Some(0));
    });
}
