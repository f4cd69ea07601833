//! A register that is searched by a full scan, and sample records to search.
//!
//! **Invariant:** only tests use this; an invalid fixture panics with its reason.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    missing_docs,
    reason = "only for tests: an invalid fixture should fail its test immediately, and names are sentences"
)]

pub mod fingerprint;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use std::sync::Arc;

use jiff::civil::Date;

use super::Columns;
use daftar_domain::address;
use daftar_domain::calendar::{Period, date_from_days, days_since_epoch};
use daftar_domain::change::ChangedRecord;
use daftar_domain::code::{CodeNumber, CodedValue, EditionNumber};
use daftar_domain::extension::Extension;
use daftar_domain::group::{self, Group, GroupDetails, Member};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::individual::{self, Individual, IndividualDetails};
use daftar_domain::person_name::{self, name_words, search_phrase, search_words, sort_text};
use daftar_domain::record::{Record, RecordId, RecordKind, RecordMeta, VersionId};
use daftar_domain::search::instant::InstantCondition;
use daftar_domain::search::order::{Direction, SortField, SortKey};
use daftar_domain::search::phrase::PhraseField;
use daftar_domain::search::{
    CodeCondition, CodedPlace, DateCondition, DateConditions, DateOperator, KindCondition, PlaceCondition,
    SubjectQuery, TextConditions,
};
use daftar_domain::value::Values;
use daftar_domain::vocabulary::CodedField;

impl Columns {
    /// Applies individuals as stored, in the order of their keys.
    pub fn load_individuals(&self, page: &[Arc<Individual>]) {
        self.load(&page.iter().cloned().map(ChangedRecord::Individual).collect::<Vec<_>>());
    }

    /// Applies groups as stored, in the order of their keys.
    pub fn load_groups(&self, page: &[Arc<Group>]) {
        self.load(&page.iter().cloned().map(ChangedRecord::Group).collect::<Vec<_>>());
    }
}

pub fn record<D>(id: u64, details: D) -> Arc<Record<D>> {
    let meta = RecordMeta { version: VersionId::FIRST, last_updated: jiff::Timestamp::UNIX_EPOCH, source: None };
    Arc::new(Record { id: RecordId(id), meta, details })
}

pub fn code(number: u32) -> CodedValue {
    CodedValue { number: CodeNumber(number), edition: EditionNumber(1) }
}

pub fn key(text: &str) -> IdentifierKey {
    IdentifierKey::parse(text).unwrap()
}

pub fn identifier(text: &str) -> Identifier {
    Identifier { key: key(text), period: None }
}

pub fn member(individual: u64, role: Option<u32>) -> Member {
    Member { individual: RecordId(individual), role: role.map(code), period: None, is_inactive: false }
}

const WORDS: [&str; 9] = ["a", "ab", "abe", "abeba", "abel", "b", "ba", "élan", "abebaabeba"];
pub const IDENTIFIERS: [&str; 5] = ["urn:a:x|1", "urn:a:x|2", "urn:a:y|1", "urn:a:y|2", "urn:a:z|1"];
const FIELDS: [CodedField; 5] = [
    CodedField::Gender,
    CodedField::Country,
    CodedField::Languages,
    CodedField::AddressCountry,
    CodedField::IncomeCurrency,
];
/// The fields that limits name.
pub const LIMITED: [&str; 6] = ["name", "address", "birth_date", "gender", "active", "group_membership"];

/// The records, by key.
#[derive(Debug, Clone, Default)]
pub struct Model {
    pub people: BTreeMap<u64, Record<IndividualDetails>>,
    pub groups: BTreeMap<u64, GroupDetails>,
}

/// The rows that are visible to a client and, field by field, the rows on which the field is visible.
#[derive(Debug, Clone)]
pub struct Sight {
    pub visible: BTreeSet<u32>,
    pub whole: BTreeSet<u32>,
    pub fields: BTreeMap<&'static str, BTreeSet<u32>>,
    /// The visible groups, and those whose members are visible.
    pub groups: BTreeSet<u32>,
    pub members: BTreeSet<u32>,
}

impl Sight {
    fn may_look(&self, field: &str, row: u32) -> bool {
        self.fields.get(field).unwrap_or(&self.whole).contains(&row)
    }
}

pub fn any_day() -> impl Strategy<Value = Date> {
    (-3_i32..3).prop_map(|days| date_from_days(days).unwrap())
}

pub fn any_code() -> impl Strategy<Value = CodedValue> {
    (0_u32..4).prop_map(code)
}

pub fn any_text() -> impl Strategy<Value = Option<String>> {
    option::of(vec(select(&WORDS[..]), 0..3).prop_map(|words| words.join(" ")))
}

pub fn any_address() -> impl Strategy<Value = Values> {
    (option::of(any_code()), any_text(), any_text(), any_text()).prop_map(|(country, text, district, region)| {
        let address: Values = Values::default().with(address::COUNTRY, country).with(address::TEXT, text);
        address.with(address::DISTRICT, district).with(address::REGION, region)
    })
}

pub fn any_individual() -> impl Strategy<Value = Record<IndividualDetails>> {
    let facts = (option::of(any::<bool>()), option::of(any_day()), any_text(), any_text(), 0_i64..5);
    let codes = (option::of(any_code()), option::of(any_code()), vec(any_code(), 0..3), vec(any_address(), 0..3));
    let income = option::of((0_u32..3, option::of(any_code())));
    (facts, codes, income, vec(select(&IDENTIFIERS[..]), 0..3)).prop_map(|(facts, codes, income, identifiers)| {
        let (active, birth_date, family, text, last_updated) = facts;
        let (gender, country, languages, address) = codes;
        let name: Values = Values::default().with(person_name::FAMILY, family).with(person_name::TEXT, text);
        let income = income.map(|(amount, currency)| {
            let income: Values = Values::default().with(individual::INCOME_AMOUNT, f64::from(amount));
            income.with(individual::INCOME_CURRENCY, currency)
        });
        let identifiers = identifiers.into_iter().map(identifier).collect();
        let details = IndividualDetails::new(identifiers, Values::default(), Extension::default())
            .with(individual::ACTIVE, active)
            .with(individual::NAME, name)
            .with(individual::BIRTH_DATE, birth_date)
            .with(individual::GENDER, gender)
            .with(individual::COUNTRY, country)
            .with(individual::LANGUAGES, languages)
            .with(individual::ADDRESS, address)
            .with(individual::INCOME, income);
        let last_updated = jiff::Timestamp::from_millisecond(last_updated).unwrap();
        let meta = RecordMeta { version: VersionId::FIRST, last_updated, source: None };
        Record { id: RecordId(0), meta, details }
    })
}

/// Groups of people whose keys are below `people`.
pub fn any_group(people: u64) -> impl Strategy<Value = GroupDetails> {
    let facts = (1..=people, option::of(0_u32..3), option::of(any_day()), option::of(any_day()), 0_u32..4);
    vec(facts, 0..6).prop_map(|members| {
        let with_facts = |(person, role, start, end, odd): (u64, Option<u32>, Option<Date>, Option<Date>, u32)| {
            let (start, end) = if end.is_some() && start > end { (end, start) } else { (start, end) };
            Member { period: Some(Period { start, end }), is_inactive: odd == 0, ..member(person, role) }
        };
        GroupDetails::default().with(group::MEMBER, members.into_iter().map(with_facts).collect::<Vec<_>>())
    })
}

fn any_operator() -> impl Strategy<Value = DateOperator> {
    select(vec![
        DateOperator::Equal,
        DateOperator::NotEqual,
        DateOperator::After,
        DateOperator::OnOrAfter,
        DateOperator::Before,
        DateOperator::OnOrBefore,
    ])
}

fn any_place() -> impl Strategy<Value = PlaceCondition> {
    let groups = vec(vec((1_u64..5).prop_map(RecordId), 0..3), 0..2);
    let roles = vec(vec((0_u32..3).prop_map(CodeNumber), 0..3), 0..2);
    (-4_i32..4, any::<bool>(), groups, roles).prop_map(|(day, is_none, groups, roles)| PlaceCondition {
        day,
        is_none,
        groups,
        roles,
    })
}

pub fn any_query() -> impl Strategy<Value = SubjectQuery> {
    let days = vec((any_operator(), any_day()).prop_map(|(operator, date)| DateCondition { operator, date }), 0..2);
    let instants = vec(
        (any_operator(), 0_i64..5, 0_i64..2).prop_map(|(operator, first_ms, more)| InstantCondition {
            operator,
            first_ms,
            last_ms: first_ms + more,
        }),
        0..2,
    );
    let codes = vec(
        (select(&FIELDS[..]), vec((0_u32..5).prop_map(CodeNumber), 0..4))
            .prop_map(|(field, any_of)| CodeCondition { field: CodedPlace::Field(field), any_of }),
        0..2,
    );
    let words = |most: usize| vec(select(vec!["a", "ab", "abe", "b", "elan", "x"]).prop_map(str::to_owned), 0..most);
    let phrases = || prop_oneof![4 => Just(Vec::new()), 1 => vec(any_text().prop_map(|text| search_phrase(&text.unwrap_or_default())), 1..2)];
    let identifiers = prop_oneof![6 => Just(Vec::new()), 1 => vec(select(&IDENTIFIERS[..]).prop_map(key), 0..3)];
    let place = prop_oneof![2 => Just(None), 1 => any_place().prop_map(Some)];
    let texts = (words(2), prop_oneof![2 => Just(Vec::new()), 1 => words(3)], phrases(), phrases());
    (identifiers, texts, days, codes, option::weighted(0.3, any::<bool>()), place, instants).prop_map(
        |(identifiers, texts, days, codes, active, place, last_updated)| {
            let (name_words, address_words, districts, regions) = texts;
            let field = |name: &str| PhraseField::find(RecordKind::Individual, name);
            let named = |name, texts: Vec<String>| texts.into_iter().filter_map(move |text| Some((field(name)?, text)));
            let phrases = named("district", districts).chain(named("region", regions)).collect();
            SubjectQuery {
                identifiers,
                texts: TextConditions { name_words, address_words, phrases },
                dates: if days.is_empty() { DateConditions::new() } else { [("birth_date", days)].into() },
                codes,
                active,
                of_kind: KindCondition::Individuals(place),
                last_updated,
            }
        },
    )
}

pub fn any_order() -> impl Strategy<Value = Vec<SortKey>> {
    let fields = vec![
        SortField::Name,
        SortField::Date("birth_date"),
        SortField::Date("deceased_date"),
        SortField::Code(CodedField::Gender),
        SortField::LastUpdated,
    ];
    let direction = select(vec![Direction::Ascending, Direction::Descending]);
    vec((select(fields), direction).prop_map(|(field, direction)| SortKey { field, direction }), 0..4)
}

/// Returns the day in a field.
fn day_of(details: &IndividualDetails, field: &str) -> Option<Date> {
    match field {
        "birth_date" => details.get(individual::BIRTH_DATE),
        "deceased_date" => details.get(individual::DECEASED_DATE),
        _ => None,
    }
}

/// The ranks of codes: the reverse of their numbers.
pub const CODE_RANKS: [u32; 4] = [3, 2, 1, 0];

impl Model {
    /// Returns the expected result of a search, in order.
    pub fn find(&self, query: &SubjectQuery, keys: &[SortKey], sight: Option<&Sight>) -> Vec<RecordId> {
        let mut found: Vec<(u32, &Record<IndividualDetails>)> = (0..).zip(self.people.values()).collect();
        found.retain(|(row, person)| {
            sight.is_none_or(|sight| sight.visible.contains(row)) && self.is_match(*row, person, query, sight)
        });
        found.sort_by(|one, other| {
            let compare = |key: &SortKey| compare(key, *one, *other, sight);
            keys.iter().map(compare).find(|order| order.is_ne()).unwrap_or(one.0.cmp(&other.0))
        });
        found.into_iter().map(|(_, person)| person.id).collect()
    }

    fn is_match(
        &self,
        row: u32,
        person: &Record<IndividualDetails>,
        query: &SubjectQuery,
        sight: Option<&Sight>,
    ) -> bool {
        let details = &person.details;
        let sees = |field: &str| sight.is_none_or(|sight| sight.may_look(field, row));
        let names = details.get(individual::NAME).map(name_words).unwrap_or_default();
        let addresses = || details.items(individual::ADDRESS);
        let of_addresses: Vec<String> = addresses()
            .flat_map(|address| [address::TEXT, address::DISTRICT, address::REGION].map(|part| address.get(part)))
            .flat_map(|text| search_words(text.unwrap_or_default()))
            .collect();
        let begins = |words: &[String], beginning: &String| words.iter().any(|word| word.starts_with(beginning));
        let is = |part: Option<&str>, phrase: &String| {
            !phrase.is_empty() && search_phrase(part.unwrap_or_default()) == *phrase
        };
        let is_on = |field: &str, condition: &DateCondition| {
            sees(field) && day_of(details, field).is_some_and(|day| condition.holds(day))
        };
        let codes = details.every_code();
        let has_code = |condition: &CodeCondition| {
            let is_it = |(field, value): &(CodedField, &CodedValue)| {
                CodedPlace::Field(*field) == condition.field && condition.any_of.contains(&value.number)
            };
            sees(&condition.field.field()) && codes.iter().any(is_it)
        };
        let at_ms = person.meta.last_updated.as_millisecond();
        query.identifiers.iter().all(|key| details.identifiers.iter().any(|identifier| identifier.key == *key))
            && query.texts.name_words.iter().all(|word| sees("name") && begins(&names, word))
            && query.texts.address_words.iter().all(|word| sees("address") && begins(&of_addresses, word))
            && query.texts.phrases.iter().all(|(field, phrase)| {
                let part = if field.name() == "district" { address::DISTRICT } else { address::REGION };
                sees("address") && addresses().any(|address| is(address.get(part), phrase))
            })
            && query.dates.iter().all(|(field, all)| all.iter().all(|condition| is_on(field, condition)))
            && query.codes.iter().all(has_code)
            && query
                .active
                .is_none_or(|active| sees("active") && details.get(individual::ACTIVE).unwrap_or(true) == active)
            && query.last_updated.iter().all(|condition| condition.holds(at_ms))
            && match &query.of_kind {
                KindCondition::Individuals(place) => place
                    .as_ref()
                    .is_none_or(|place| sees("group_membership") && self.has_place(person.id, place, sight)),
                KindCondition::Groups(_) => false,
            }
    }

    fn has_place(&self, person: RecordId, wanted: &PlaceCondition, sight: Option<&Sight>) -> bool {
        let day = date_from_days(wanted.day).unwrap();
        let groups = (0..)
            .zip(&self.groups)
            .filter(|(row, _)| sight.is_none_or(|sight| sight.groups.contains(row) && sight.members.contains(row)));
        let places: Vec<(RecordId, Member)> = groups
            .flat_map(|(_, (id, group))| group.active_members(day).map(|member| (RecordId(*id), member)))
            .filter(|(_, member)| member.individual == person)
            .collect();
        if wanted.is_none {
            return places.is_empty() && wanted.groups.is_empty() && wanted.roles.is_empty();
        }
        let in_role = |member: &Member| {
            wanted.roles.iter().all(|roles| member.role.is_some_and(|role| roles.contains(&role.number)))
        };
        let in_role: Vec<RecordId> =
            places.iter().filter(|(_, member)| in_role(member)).map(|(group, _)| *group).collect();
        !in_role.is_empty() && wanted.groups.iter().all(|groups| in_role.iter().any(|group| groups.contains(group)))
    }
}

fn compare(
    key: &SortKey,
    one: (u32, &Record<IndividualDetails>),
    other: (u32, &Record<IndividualDetails>),
    sight: Option<&Sight>,
) -> Ordering {
    let value = |(row, person): (u32, &Record<IndividualDetails>)| {
        let details = &person.details;
        let text = match key.field {
            SortField::Name => details.get(individual::NAME).map(sort_text).filter(|text| !text.is_empty()),
            SortField::Date(field) => day_of(details, field).map(|day| format!("{:08}", days_since_epoch(day) + 1_000)),
            SortField::Code(field) => {
                let codes = details.every_code();
                let code = codes.into_iter().find(|(at, _)| *at == field);
                code.map(|(_, code)| CODE_RANKS[code.number.0 as usize].to_string())
            }
            SortField::LastUpdated => Some(format!("{:08}", person.meta.last_updated.as_millisecond())),
            _ => None,
        };
        let is_seen = key.field.field().is_none_or(|field| sight.is_none_or(|sight| sight.may_look(field, row)));
        text.filter(|_| is_seen)
    };
    match (value(one), value(other)) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(one), Some(other)) if key.direction == Direction::Ascending => one.cmp(&other),
        (Some(one), Some(other)) => other.cmp(&one),
    }
}
