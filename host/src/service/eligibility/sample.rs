//! Picks some records of the register to try a rule on.

use crate::columns::SearchLimits;
use crate::domain::record::RecordId;
use crate::domain::search::found::Sorting;
use crate::domain::search::{GroupQuery, IndividualQuery, Page};
use crate::domain::subject::{Subject, SubjectReference};
use crate::error::AppError;
use crate::service::registry::Registry;
use crate::service::subjects;

/// References to up to `count` records, spread evenly over the register in the order of registration: the same ones as long as
/// nobody is registered. For the administrator: it asks for no scope.
///
/// # Errors
/// When the store fails.
pub async fn sample(registry: &Registry, subject: Subject, count: u32) -> Result<Vec<String>, AppError> {
    let mut references = Vec::new();
    for id in picked(registry, subject, count) {
        references.push(subjects::called(&*registry.store, SubjectReference { kind: subject, id }).await?);
    }
    Ok(references)
}

fn picked(registry: &Registry, subject: Subject, count: u32) -> Vec<RecordId> {
    let snapshot = registry.columns.snapshot();
    let page = |offset: u64, count: u32| {
        let (window, limits, order) = (Page { offset, count }.into(), SearchLimits::default(), Sorting::REGISTERED);
        match subject {
            Subject::Individual => snapshot.search(&IndividualQuery::default(), limits, order, &window),
            Subject::Group => snapshot.search_groups(&GroupQuery::default(), limits, order, &window),
        }
    };
    let first = page(0, count);
    let total = first.total;
    if total <= u64::from(count) {
        return first.ids;
    }
    let offsets = (0..u64::from(count)).map(|at| at * total / u64::from(count));
    offsets.filter_map(|offset| page(offset, 1).ids.first().copied()).collect()
}
