//! Concept groups as clients read them: what they are defined by, and which codes that comes to.

use super::{PageOf, paged};
use daftar_domain::code::CodeUri;
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::search::Page;
use daftar_vocabulary::{Generation, PublishedGroup};

/// A concept group with a page of its codes.
#[derive(Debug)]
pub struct GroupPage<'g> {
    /// The group.
    pub group: &'g PublishedGroup,
    /// Codes that certainly belong to it.
    pub members: PageOf<CodeUri>,
    /// Of how many codes it cannot be said, because their vocabulary is not here whole; none of an unset group.
    pub undecided: usize,
}

/// The concept groups, by name.
#[must_use]
pub fn concept_groups<'g>(_: &OpContext, generation: &'g Generation, page: Page) -> PageOf<&'g PublishedGroup> {
    let groups = generation.concept_groups();
    paged(groups.len(), groups, page)
}

/// The concept group of a name, with a page of its codes.
///
/// # Errors
/// [`AppError::NotThere`] with the name that was probably meant.
pub fn concept_group<'g>(
    _: &OpContext,
    generation: &'g Generation,
    name: &str,
    page: Page,
) -> Result<GroupPage<'g>, AppError> {
    let group = generation.concept_group(name).ok_or_else(|| {
        let problem = generation.unknown_group(name);
        AppError::NotThere(FieldProblem {
            field: "name".to_owned(),
            code: problem.code(),
            message: problem.to_string(),
        })
    })?;
    let members = group.members().filter_map(|number| generation.table().uri(number));
    // A set is counted by its pieces; numbers past the page are never looked at.
    let total = group.member_count();
    Ok(GroupPage { group, members: paged(total, members, page), undecided: group.undecided_count() })
}
