//! Common parts of the searches of all kinds of records: codes, orders, pages.

use crate::visibility;
use daftar_domain::code::{CodeNumber, CodeUri};
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldUse};
use daftar_domain::extension::EXTENSION;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::scope::Resource;
use daftar_domain::search::instant::InstantCondition;
use daftar_domain::search::order::{Position, SortField, SortKey, Window};
use daftar_domain::search::{
    CodeCondition, CodedPlace, DateConditions, KindCondition, Page, Sorting, SubjectQuery, TextConditions,
};
use daftar_domain::vocabulary::CodedField;
use daftar_vocabulary::Generation;

/// Extent of a search for a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The code only.
    Exact,
    /// The code and all its descendants.
    Below,
}

/// A code to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeFilter {
    /// The field.
    pub place: CodedPlace,
    /// The code.
    pub code: CodeUri,
    /// The extent.
    pub reach: Reach,
}

/// Order and page of a search.
#[derive(Debug, Clone)]
pub struct Paging {
    /// Sort keys, the most important first. Empty: the order of registration.
    pub sort: Vec<SortKey>,
    /// The page.
    pub window: Window,
}

impl Default for Paging {
    /// The first page in the order of registration.
    fn default() -> Self {
        Self { sort: Vec::new(), window: Page::default().into() }
    }
}

/// A page of the results of a search.
pub struct FoundPage<T> {
    /// Total number of results.
    pub total: u64,
    /// The results of the page, in order.
    pub records: Vec<T>,
    /// Start of the next page; absent if this page is the last.
    pub next: Option<Position>,
}

impl CodeFilter {
    /// The numbers of the selected codes; none if no record can contain the code in that field, for example a code of
    /// another vocabulary.
    ///
    /// # Errors
    /// [`AppError::Malformed`] when the code breaks the grammar of its open vocabulary.
    pub fn resolve(&self, generation: &Generation) -> Result<CodeCondition, AppError> {
        let numbers = match &self.place {
            CodedPlace::Field(field) => self.numbers(generation, field.path(), field.namespaces()),
            CodedPlace::Extension(path) => {
                let declared = generation.extension_fields().get(path.as_str());
                let namespace = declared.and_then(|field| field.vocabulary.as_deref());
                self.numbers(generation, &format!("{EXTENSION}.{path}"), namespace.as_slice())
            }
        };
        Ok(CodeCondition { field: self.place.clone(), any_of: numbers? })
    }

    fn numbers(&self, generation: &Generation, field: &str, namespaces: &[&str]) -> Result<Vec<CodeNumber>, AppError> {
        let numbers = match self.reach {
            Reach::Exact => {
                let number = generation.resolve_filter(namespaces, &self.code);
                number.map(|number| number.into_iter().collect())
            }
            Reach::Below => generation.resolve_filter_below(namespaces, &self.code),
        };
        numbers.map_err(|problem| AppError::Malformed(format!("`{field}`: {problem}")))
    }
}

/// Checks that the client may use every field that a search filters or sorts by. `filtered` are fields of the API.
///
/// # Errors
/// [`AppError::FieldNotGranted`].
pub fn check_fields(
    ctx: &OpContext,
    resource: Resource,
    filtered: &[String],
    sort: &[SortKey],
) -> Result<(), AppError> {
    let searchable = visibility::searchable(ctx, resource);
    for field in filtered {
        visibility::check(&searchable, resource, field, FieldUse::Filter)?;
    }
    for field in sort.iter().filter_map(|key| key.field.field()) {
        visibility::check(&searchable, resource, field, FieldUse::Sort)?;
    }
    Ok(())
}

/// The ranks of the codes in sort keys, among all codes.
#[must_use]
pub fn code_ranks(generation: &Generation, sort: &[SortKey]) -> Vec<u32> {
    let coded = sort.iter().filter_map(|key| match key.field {
        SortField::Code(field) => Some(field),
        SortField::Name | SortField::Date(_) | SortField::Word(_) | SortField::LastUpdated => None,
    });
    let mut namespaces: Vec<&str> = coded.flat_map(CodedField::namespaces).copied().collect();
    namespaces.dedup();
    if namespaces.is_empty() { Vec::new() } else { generation.code_ranks(&namespaces) }
}

/// The order of a search, with the ranks of codes from [`code_ranks`].
#[must_use]
pub fn sorting<'a>(paging: &'a Paging, code_ranks: &'a [u32]) -> Sorting<'a> {
    Sorting { keys: &paging.sort, code_ranks }
}

/// Conditions of a search as a client names them, all of which must hold: those of every kind of subject.
#[derive(Debug, Clone, Default)]
pub struct CommonConditions {
    /// Has that identifier.
    pub identifiers: Vec<IdentifierKey>,
    /// Conditions on names and addresses.
    pub texts: TextConditions,
    /// Conditions on days.
    pub dates: DateConditions,
    /// Contains that code.
    pub codes: Vec<CodeFilter>,
    /// True if the record is active.
    pub active: Option<bool>,
    /// When the record was last written.
    pub last_updated: Vec<InstantCondition>,
}

impl CommonConditions {
    /// Translates the conditions into terms of the register.
    ///
    /// # Errors
    /// [`AppError::Malformed`] when a code breaks the grammar of its open vocabulary.
    pub(crate) fn resolve(self, of_kind: KindCondition, generation: &Generation) -> Result<SubjectQuery, AppError> {
        let codes: Result<Vec<_>, _> = self.codes.iter().map(|filter| filter.resolve(generation)).collect();
        Ok(SubjectQuery {
            of_kind,
            identifiers: self.identifiers,
            texts: self.texts,
            dates: self.dates,
            codes: codes?,
            active: self.active,
            last_updated: self.last_updated,
        })
    }
}

/// The fields that a search checks, never their values.
#[must_use]
pub fn searched_fields(query: &SubjectQuery) -> Vec<String> {
    let own = match query.of_kind {
        KindCondition::Individuals(None) | KindCondition::Groups(None) => None,
        KindCondition::Individuals(Some(_)) => Some("group_membership"),
        KindCondition::Groups(Some(_)) => Some("member"),
    };
    let identifier = (!query.identifiers.is_empty()).then_some("identifier");
    let active = query.active.map(|_| "active");
    let last_updated = (!query.last_updated.is_empty()).then_some("_last_updated");
    let named = [identifier, active, own, last_updated].into_iter().flatten();
    let named = named.chain(query.texts.fields()).chain(query.dates.keys().copied()).map(str::to_owned);
    named.chain(query.codes.iter().map(|condition| condition.field.field().into_owned())).collect()
}

/// Audit note of a search: its fields, never their values.
#[must_use]
pub fn note(mut fields: Vec<String>, sort: &[SortKey]) -> String {
    fields.dedup();
    let by = if fields.is_empty() { "nothing".to_owned() } else { fields.join(", ") };
    let keys: Vec<&str> = sort.iter().map(|key| key.field.name()).collect();
    if keys.is_empty() {
        format!("searched by {by}")
    } else {
        format!("searched by {by}, sorted by {}", keys.join(", "))
    }
}
