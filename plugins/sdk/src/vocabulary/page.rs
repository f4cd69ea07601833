//! Paging over a list in memory: the cursor is the index of the next item.

use super::{Concept, ConceptPage, PageError};

/// Creates a page of at most `limit` concepts from the items at `cursor` and after.
///
/// # Errors
/// [`PageError::InvalidCursor`] beyond the end; the end itself is valid only for an empty list, because no page returns
/// it.
pub fn page_of<T>(
    items: &[T],
    cursor: u32,
    limit: u32,
    concept: impl Fn(&T) -> Concept,
) -> Result<ConceptPage, PageError> {
    let start = usize::try_from(cursor).map_err(|_| PageError::InvalidCursor)?;
    if start > 0 && start >= items.len() {
        return Err(PageError::InvalidCursor);
    }
    // An empty page would never end.
    let count = usize::try_from(limit.max(1)).unwrap_or(usize::MAX);
    let concepts: Vec<Concept> = items.iter().skip(start).take(count).map(concept).collect();
    let end = start + concepts.len();
    let next = if end < items.len() { u32::try_from(end).ok() } else { None };
    Ok(ConceptPage { concepts, next })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(page: &ConceptPage) -> Vec<&str> {
        page.concepts.iter().map(|concept| concept.code.as_str()).collect()
    }

    fn page(items: &[&str], cursor: u32, limit: u32) -> Result<ConceptPage, PageError> {
        page_of(items, cursor, limit, |code| Concept::new(*code, "en", "x"))
    }

    #[test]
    fn pages_cover_the_list_once_and_end() {
        let items = ["a", "b", "c", "d", "e"];
        let first = page(&items, 0, 2).unwrap();
        assert_eq!((codes(&first), first.next), (vec!["a", "b"], Some(2)));
        let second = page(&items, 2, 2).unwrap();
        assert_eq!((codes(&second), second.next), (vec!["c", "d"], Some(4)));
        let last = page(&items, 4, 2).unwrap();
        assert_eq!((codes(&last), last.next), (vec!["e"], None));
    }

    #[test]
    fn a_page_that_ends_with_the_list_is_the_last() {
        let items = ["a", "b"];
        assert_eq!(page(&items, 0, 2).unwrap().next, None);
    }

    #[test]
    fn an_empty_list_has_one_empty_page() {
        let first = page(&[], 0, 10).unwrap();
        assert_eq!((first.concepts.len(), first.next), (0, None));
    }

    #[test]
    fn refuses_a_cursor_past_the_end() {
        assert!(matches!(page(&["a"], 1, 1), Err(PageError::InvalidCursor)));
        assert!(matches!(page(&["a"], u32::MAX, 1), Err(PageError::InvalidCursor)));
    }

    #[test]
    fn a_limit_of_none_still_makes_headway() {
        assert_eq!(page(&["a", "b"], 0, 0).unwrap().next, Some(1));
    }
}
