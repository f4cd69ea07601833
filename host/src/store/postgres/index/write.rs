//! Writes the rows of records.

use std::collections::BTreeMap;
use std::sync::Arc;

use deadpool_postgres::Transaction;
use tokio_postgres::types::ToSql;

use super::row::{Terms, array, codes_of, key, subject_key};
use super::statements;
use super::tally::Gained;
use crate::domain::calendar::days_since_epoch;
use crate::domain::change::ChangedRecord;
use crate::domain::consent::{Consent, is_consent_field};
use crate::domain::group::Group;
use crate::domain::individual::Individual;
use crate::domain::person_name::{PersonName, search_phrase};
use crate::domain::program_membership::ProgramMembership;
use crate::domain::record::{Record, RecordId, VersionId};
use crate::domain::scope::Resource;
use crate::domain::search::order::sortable;
use crate::domain::subject::Subject;
use crate::store::postgres::failure::Failure;

/// The most rows of one statement.
const ROWS_MAX: usize = 2_000;

/// Records of one kind, each once, as they stand at last, by key.
type Latest<'c, D> = BTreeMap<RecordId, &'c Arc<Record<D>>>;

/// Puts the rows of these records, as they stand after the write, in the place of those that stand for them. Of a record that occurs
/// more than once the last counts. To be called in the transaction that writes the records, one such transaction at a time: tallies
/// change by what the rows said before.
///
/// # Errors
/// When the database fails; the transaction cannot go on then.
pub(in crate::store::postgres) async fn write(
    transaction: &Transaction<'_>,
    changed: &[ChangedRecord],
) -> Result<(), Failure> {
    let mut individuals: Latest<'_, _> = BTreeMap::new();
    let mut groups: Latest<'_, _> = BTreeMap::new();
    let mut memberships: Latest<'_, _> = BTreeMap::new();
    let mut consents: Latest<'_, _> = BTreeMap::new();
    for record in changed {
        match record {
            ChangedRecord::Individual(record) => drop(individuals.insert(record.id, record)),
            ChangedRecord::Group(record) => drop(groups.insert(record.id, record)),
            ChangedRecord::ProgramMembership(record) => drop(memberships.insert(record.id, record)),
            ChangedRecord::Consent(record) => drop(consents.insert(record.id, record)),
            // Programs are few: they are looked for among the values.
            ChangedRecord::Program(_) => {}
        }
    }
    for page in values(&individuals).chunks(ROWS_MAX) {
        write_individuals(transaction, page).await?;
    }
    for page in values(&groups).chunks(ROWS_MAX) {
        write_groups(transaction, page).await?;
    }
    for page in values(&memberships).chunks(ROWS_MAX) {
        write_memberships(transaction, page).await?;
    }
    for page in values(&consents).chunks(ROWS_MAX) {
        write_consents(transaction, page).await?;
    }
    Ok(())
}

fn values<'c, D>(latest: &Latest<'c, D>) -> Vec<&'c Arc<Record<D>>> {
    latest.values().copied().collect()
}

async fn execute(
    transaction: &Transaction<'_>,
    statement: &'static str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<(), Failure> {
    let statement = transaction.prepare_cached(statement).await?;
    transaction.execute(&statement, parameters).await?;
    Ok(())
}

fn keys<D>(page: &[&Arc<Record<D>>]) -> Vec<i64> {
    page.iter().map(|record| key(record.id)).collect()
}

fn instants<D>(page: &[&Arc<Record<D>>]) -> Vec<i64> {
    page.iter().map(|record| record.meta.last_updated.as_millisecond()).collect()
}

/// A name as people and groups are put in order by it.
fn sort_name(folded: &str) -> Option<Vec<u8>> {
    sortable(folded).map(|name| name.as_bytes().to_vec())
}

/// What two kinds of records have in common.
struct Columns {
    vectors: Vec<String>,
    more_words: Vec<Option<String>>,
    gained: Gained,
}

impl Columns {
    fn new(all: &[Terms]) -> Self {
        Self {
            vectors: all.iter().map(Terms::vector).collect(),
            more_words: all.iter().map(Terms::more_words).collect(),
            gained: Gained::of(all.iter().flat_map(|terms| terms.counted.iter().map(String::as_str))),
        }
    }
}

async fn write_individuals(transaction: &Transaction<'_>, page: &[&Arc<Individual>]) -> Result<(), Failure> {
    let terms: Vec<Terms> = page.iter().map(|person| Terms::of_individual(person)).collect();
    let Columns { vectors, more_words, gained } = Columns::new(&terms);
    let details = || page.iter().map(|person| &person.details);
    let inactive: Vec<bool> = details().map(|details| details.active == Some(false)).collect();
    let sort_text = |name: &PersonName| sort_name(&name.sort_text());
    let names: Vec<_> = details().map(|details| details.name.as_ref().and_then(sort_text)).collect();
    let births: Vec<_> = details().map(|details| details.birth_date.map(days_since_epoch)).collect();
    let deaths: Vec<_> = details().map(|details| details.deceased_date.map(days_since_epoch)).collect();
    let mut codes: [Vec<Option<i64>>; 10] = Default::default();
    for person in page {
        for (column, code) in codes.iter_mut().zip(codes_of(person)) {
            column.push(code);
        }
    }
    let (keys, instants) = (keys(page), instants(page));
    let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&keys, &vectors, &more_words, &inactive, &names];
    parameters.extend([&births as &(dyn ToSql + Sync), &deaths, &instants]);
    parameters.extend(codes.iter().map(|column| column as &(dyn ToSql + Sync)));
    parameters.extend([&gained.terms as &(dyn ToSql + Sync), &gained.records]);
    execute(transaction, statements::INDIVIDUALS, &parameters).await
}

async fn write_groups(transaction: &Transaction<'_>, page: &[&Arc<Group>]) -> Result<(), Failure> {
    let terms: Vec<Terms> = page.iter().map(|group| Terms::of_group(group)).collect();
    let Columns { vectors, more_words, gained } = Columns::new(&terms);
    let details = || page.iter().map(|group| &group.details);
    let inactive: Vec<bool> = details().map(|details| details.active == Some(false)).collect();
    let sort_text = |name: &String| sort_name(&search_phrase(name));
    let names: Vec<_> = details().map(|details| details.name.as_ref().and_then(sort_text)).collect();
    let types: Vec<_> = details().map(|details| details.group_type.map(|code| i64::from(code.number.0))).collect();
    let housing: Vec<_> = details().map(|details| details.housing_type.map(|code| i64::from(code.number.0))).collect();
    let (keys, instants) = (keys(page), instants(page));
    let parameters: [&(dyn ToSql + Sync); 10] =
        [&keys, &vectors, &more_words, &inactive, &names, &instants, &types, &housing, &gained.terms, &gained.records];
    execute(transaction, statements::GROUPS, &parameters).await?;
    write_members(transaction, page).await
}

async fn write_members(transaction: &Transaction<'_>, page: &[&Arc<Group>]) -> Result<(), Failure> {
    let rewritten: Vec<i64> =
        page.iter().filter(|group| group.meta.version != VersionId::FIRST).map(|group| key(group.id)).collect();
    if !rewritten.is_empty() {
        execute(transaction, statements::REMOVE_MEMBERS, &[&rewritten]).await?;
    }
    let (mut groups, mut places, mut people, mut roles) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut firsts, mut lasts, mut set_aside) = (Vec::new(), Vec::new(), Vec::new());
    for group in page {
        for (member, place) in group.details.members.iter().flatten().zip(0_i32..) {
            let period = member.period.unwrap_or_default();
            groups.push(key(group.id));
            places.push(place);
            people.push(key(member.individual));
            roles.push(member.role.map(|role| i64::from(role.number.0)));
            firsts.push(period.start.map_or(i32::MIN, days_since_epoch));
            lasts.push(period.end.map_or(i32::MAX, days_since_epoch));
            set_aside.push(member.is_inactive);
        }
    }
    if groups.is_empty() {
        return Ok(());
    }
    let parameters: [&(dyn ToSql + Sync); 7] = [&groups, &places, &people, &roles, &firsts, &lasts, &set_aside];
    execute(transaction, statements::MEMBERS, &parameters).await
}

async fn write_memberships(transaction: &Transaction<'_>, page: &[&Arc<ProgramMembership>]) -> Result<(), Failure> {
    let details = || page.iter().map(|membership| &membership.details);
    let beneficiaries: Vec<i64> = details().map(|details| subject_key(details.beneficiary)).collect();
    let programs: Vec<i64> = details().map(|details| key(details.program)).collect();
    let statuses: Vec<i16> = details().map(|details| i16::from(details.status.place())).collect();
    let enrolled: Vec<_> = details().map(|details| details.enrollment_date.map(days_since_epoch)).collect();
    let exited: Vec<_> = details().map(|details| details.exit_date.map(days_since_epoch)).collect();
    let parameters: [&(dyn ToSql + Sync); 7] =
        [&keys(page), &beneficiaries, &programs, &statuses, &enrolled, &exited, &instants(page)];
    execute(transaction, statements::MEMBERSHIPS, &parameters).await
}

async fn write_consents(transaction: &Transaction<'_>, page: &[&Arc<Consent>]) -> Result<(), Failure> {
    let details = || page.iter().map(|consent| &consent.details);
    let ids: Vec<String> = details().map(|details| details.id.to_string()).collect();
    let subjects: Vec<i64> = details().map(|details| subject_key(details.subject)).collect();
    let grantees: Vec<&str> = details().map(|details| details.grantee.as_str()).collect();
    let purposes: Vec<Option<&str>> = details().map(|details| details.purpose.as_deref().and_then(purpose)).collect();
    let firsts: Vec<i32> = details().map(|details| days_since_epoch(details.effective_date)).collect();
    let lasts: Vec<i32> = details().map(|details| details.expiry_date.map_or(i32::MAX, days_since_epoch)).collect();
    let withdrawn: Vec<bool> = details().map(|details| details.is_withdrawn).collect();
    let own = |kind| match kind {
        Subject::Individual => Resource::Individual,
        Subject::Group => Resource::Group,
    };
    let of_subject: Vec<bool> =
        details().map(|details| details.resources.contains(&own(details.subject.kind))).collect();
    let of_memberships: Vec<bool> =
        details().map(|details| details.resources.contains(&Resource::ProgramMembership)).collect();
    let fields: Vec<Option<String>> = details().map(|details| details.fields.as_deref().map(fields)).collect();
    let parameters: [&(dyn ToSql + Sync); 11] = [
        &keys(page),
        &ids,
        &subjects,
        &grantees,
        &purposes,
        &firsts,
        &lasts,
        &withdrawn,
        &of_subject,
        &of_memberships,
        &fields,
    ];
    execute(transaction, statements::CONSENTS, &parameters).await
}

/// A purpose as filters name it. One with characters that no filter has, and PostgreSQL does not keep, is nobody's.
fn purpose(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|purpose| !purpose.is_empty() && !purpose.contains('\0'))
}

/// The fields that a consent opens; what is no field opens nothing.
fn fields(names: &[String]) -> String {
    let known: Vec<&String> = names.iter().filter(|name| is_consent_field(name)).collect();
    array(&known)
}
