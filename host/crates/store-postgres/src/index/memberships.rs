//! Searching memberships in programs and consents.

use tokio_postgres::types::ToSql;

use super::PostgresIndex;
use super::columns::MEMBERSHIPS;
use super::counters::{self, Kind};
use super::filter::{Filter, Parameters};
use super::order::{Order, Ranks, SortColumn};
use super::row::{key, subject_kind};
use super::sees::Sight;
use super::subjects::{Search, sight};
use super::term;
use daftar_domain::scope::Resource;
use daftar_domain::search::order::{SortField, Window};
use daftar_domain::search::{ConsentTerm, Found, MembershipConditions, MembershipTerm, Page, Sorting};
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_store::StoreError;
use daftar_store::index::Sees;

/// The column of the status.
const STATUS: &str = "status";

/// The memberships that match, counted, and those of the page.
pub(super) async fn search_memberships(
    index: &PostgresIndex,
    conditions: &MembershipConditions,
    sees: Option<Sees<'_>>,
    sorting: Sorting<'_>,
    window: &Window,
) -> Result<Found, StoreError> {
    let mut parameters = Parameters::default();
    let Some(sight) = sight(sees, &mut parameters) else { return Ok(Found::default()) };
    let sight = sight.as_ref();
    let mut filter = Filter::new(Resource::ProgramMembership, &mut parameters);
    for terms in &conditions.terms {
        let condition = any_membership_term(terms, filter.parameters);
        filter.push(condition, terms.first().map(MembershipTerm::field));
    }
    filter.last_updated(&conditions.last_updated);
    let is_every = conditions.terms.is_empty() && conditions.last_updated.is_empty() && sight.is_none();
    let Some(conditions) = filter.finish(sight) else { return Ok(Found::default()) };
    let total = is_every.then(|| every(Kind::Membership, &mut parameters));
    let order = order(sight, sorting, window, &mut parameters);
    Search { table: MEMBERSHIPS.table, conditions, total, order, window }.run(index, parameters).await
}

/// Returns the consents that have one term of each list.
pub(super) async fn consents(
    index: &PostgresIndex,
    conditions: &[Vec<ConsentTerm>],
    page: Page,
) -> Result<Found, StoreError> {
    let mut parameters = Parameters::default();
    let total = conditions.is_empty().then(|| every(Kind::Consent, &mut parameters));
    let conditions = conditions.iter().map(|terms| any_consent_term(terms, &mut parameters)).collect();
    let window = Window::from(page);
    let order = order(None, Sorting::REGISTERED, &window, &mut parameters);
    Search { table: "search_consent", conditions, total, order, window: &window }.run(index, parameters).await
}

fn every(kind: Kind, parameters: &mut Parameters) -> String {
    counters::total(kind, vec![term::EVERY.to_owned()], parameters)
}

fn any_membership_term(terms: &[MembershipTerm], parameters: &mut Parameters) -> String {
    let (mut beneficiaries, mut programs, mut statuses) = (Vec::new(), Vec::new(), Vec::new());
    for term in terms {
        match term {
            MembershipTerm::Beneficiary(subject) => beneficiaries.push(*subject),
            MembershipTerm::Program(program) => programs.push(key(*program)),
            MembershipTerm::Status(status) => statuses.push(status.name()),
        }
    }
    let [of_people, of_groups] = any_subject("beneficiary", &beneficiaries, parameters);
    alternatives(&[
        of_people,
        of_groups,
        any_of("program", programs, "bigint[]", parameters),
        any_of("status", statuses, "text[]", parameters),
    ])
}

fn any_consent_term(terms: &[ConsentTerm], parameters: &mut Parameters) -> String {
    let (mut subjects, mut grantees) = (Vec::new(), Vec::new());
    for term in terms {
        match term {
            ConsentTerm::Subject(subject) => subjects.push(*subject),
            ConsentTerm::Grantee(organization) => grantees.push(organization.as_str().to_owned()),
        }
    }
    let [of_people, of_groups] = any_subject("subject", &subjects, parameters);
    alternatives(&[of_people, of_groups, any_of("grantee", grantees, "text[]", parameters)])
}

/// Requires that two columns name one of these individuals or groups; an index on both leads to either.
fn any_subject(column: &str, subjects: &[SubjectReference], parameters: &mut Parameters) -> [Option<String>; 2] {
    Subject::ALL.map(|kind| {
        let keys = subjects.iter().filter(|subject| subject.kind == kind).map(|subject| key(subject.id)).collect();
        let any = any_of(column, keys, "bigint[]", parameters)?;
        Some(format!("({any} AND p.{column}_kind = {})", subject_kind(kind)))
    })
}

/// Requires that a column has one of these values; `None` if there are none.
fn any_of<V>(column: &str, values: Vec<V>, of_type: &str, parameters: &mut Parameters) -> Option<String>
where
    Vec<V>: ToSql + Sync + Send + 'static,
{
    (!values.is_empty()).then(|| format!("p.{column} = ANY({})", parameters.bind(values, of_type)))
}

/// No record has a term of an empty list.
fn alternatives(any: &[Option<String>]) -> String {
    let any: Vec<&str> = any.iter().flatten().map(String::as_str).collect();
    if any.is_empty() { "false".to_owned() } else { format!("({})", any.join(" OR ")) }
}

fn order(sight: Option<&Sight>, sorting: Sorting<'_>, window: &Window, parameters: &mut Parameters) -> Order {
    let keys = sorting.keys.iter().map(|key| (*key, column(key.field), Ranks::default())).collect();
    Order::new(keys, (Resource::ProgramMembership, sight), (window, sorting.code_ranks), parameters)
}

fn column(field: SortField) -> SortColumn {
    match field {
        SortField::Word(STATUS) => SortColumn::Status,
        other => MEMBERSHIPS.sorted(other),
    }
}
