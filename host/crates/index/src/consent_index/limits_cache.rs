//! Queries of the consent index: the rows covered for a client on a day, and the terms that cover one record.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::civil::Date;

use super::names::{ANY_PURPOSE, DayRange};
use super::{Class, ConsentIndex, own_resource};
use crate::bitmaps::{Posting, RowSet};
use crate::limits::RowLimits;
use daftar_domain::consent::{ConsentFilter, Opened};
use daftar_domain::field::{ALWAYS_SHOWN, FieldName, FieldSet};
use daftar_domain::scope::Resource;
use daftar_domain::subject::SubjectReference;

/// The most results that are cached until the next change of a consent: some clients, each kind of record, around
/// midnight two days.
const ENTRIES_MAX: usize = 32;

/// The rows covered by consents, by the fields that these grant.
type Parts = Vec<(FieldSet, RowSet)>;

/// The key of a cached result.
type Question = (Resource, Class, Date);

/// Results that are valid until a consent changes.
#[derive(Debug, Default)]
pub(super) struct LimitsCache(Mutex<Vec<(Question, Arc<RowLimits>)>>);

impl LimitsCache {
    fn recall(&self, question: &Question) -> Option<Arc<RowLimits>> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().find(|(requested, _)| requested == question).map(|(_, limits)| Arc::clone(limits))
    }

    fn remember(&self, question: Question, limits: &Arc<RowLimits>) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= ENTRIES_MAX {
            entries.remove(0);
        }
        entries.push((question, Arc::clone(limits)));
    }
}

impl ConsentIndex {
    /// Returns the access to the record of a subject, or to its memberships, on a day; `None` without a consent. Takes
    /// the same time for an inactive consent as for none, apart from reading it.
    pub(crate) fn opened(
        &self,
        resource: Resource,
        subject: SubjectReference,
        filter: &ConsentFilter,
        day: Date,
    ) -> Option<Opened> {
        let wanted = self.class_of(filter);
        let is_own = resource == own_resource(subject.kind);
        let is_membership = resource == Resource::ProgramMembership;
        let mut fields = FieldSet::none();
        let mut consents = Vec::new();
        for given in self.given_of(subject) {
            let is_for = wanted.is_some_and(|wanted| {
                given.organization == wanted.organization
                    && (wanted.purpose == ANY_PURPOSE || given.purpose == wanted.purpose)
            });
            let opens = (is_own && given.opens_subject) || (is_membership && given.opens_memberships);
            if is_for && opens && given.holds_on(day) {
                fields = fields.union(&self.names.fields(given.fields, resource));
                consents.push(given.id);
            }
        }
        (!consents.is_empty()).then_some(Opened { fields, consents })
    }

    /// Returns the rows of a kind of record that a client sees on a day, with the visible fields.
    pub(crate) fn limits(&self, resource: Resource, filter: &ConsentFilter, day: Date) -> Arc<RowLimits> {
        let Some(wanted) = self.class_of(filter) else { return Arc::default() };
        let question = (resource, wanted, day);
        if let Some(known) = self.limits_cache.recall(&question) {
            return known;
        }
        let limits = Arc::new(limits_of(&self.parts(resource, wanted, day)));
        self.limits_cache.remember(question, &limits);
        limits
    }

    fn parts(&self, resource: Resource, wanted: Class, day: Date) -> Parts {
        let covers = match resource {
            Resource::Individual => &self.individuals,
            Resource::Group => &self.groups,
            Resource::ProgramMembership => &self.memberships,
            Resource::Program
            | Resource::Consent
            | Resource::Vocabulary
            | Resource::Eligibility
            | Resource::Identifier => return Parts::new(),
        };
        let classes = self.classes.from(&wanted).map(|(class, ())| *class);
        let classes =
            classes.take_while(|class| (class.organization, class.purpose) == (wanted.organization, wanted.purpose));
        let parts = classes.map(|class| {
            let rows = RowSet::union(DayRange::around(day).filter_map(|range| covers.get(&(class, range))));
            (self.names.fields(class.fields, resource), rows)
        });
        parts.filter(|(_, rows)| !rows.is_empty()).collect()
    }

    /// Returns the first class that applies to a client; `None` if there was never a consent for it.
    fn class_of(&self, filter: &ConsentFilter) -> Option<Class> {
        let organization = self.names.organization(filter.organization.as_ref()?.as_str())?;
        let purpose = match &filter.purpose {
            Some(purpose) => self.names.purpose(purpose.as_str())?,
            None => ANY_PURPOSE,
        };
        Some(Class { organization, purpose, fields: 0 })
    }
}

/// Returns the limits of a search among these rows. Fields that are always visible are visible on every record.
fn limits_of(parts: &[(FieldSet, RowSet)]) -> RowLimits {
    let rows_where = |is_meant: &dyn Fn(&FieldSet) -> bool| {
        let mut rows = RowSet::default();
        for (_, part) in parts.iter().filter(|(fields, _)| is_meant(fields)) {
            rows.merge(part);
        }
        Posting::from(rows)
    };
    let visible = rows_where(&|_| true);
    let mut fields: BTreeMap<Box<str>, Posting> =
        ALWAYS_SHOWN.iter().map(|name| (Box::from(*name), visible.clone())).collect();
    for (part, _) in parts {
        let FieldSet::Only(names) = part else { continue };
        for name in names.iter().map(FieldName::as_str) {
            if !fields.contains_key(name) {
                fields.insert(name.into(), rows_where(&|fields| fields.names(name)));
            }
        }
    }
    RowLimits::new(visible, rows_where(&FieldSet::is_all), fields)
}
