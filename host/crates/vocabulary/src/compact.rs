//! Data structures of the index of codes: texts and lists in contiguous memory.
//!
//! **Invariant:** these structures do not allocate per concept: a vocabulary of 17,000 codes consists of a few long
//! vectors.

/// The position of a concept in its vocabulary's order of codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConceptIndex(pub(super) u32);

impl ConceptIndex {
    pub(super) fn at(position: usize) -> Self {
        Self(to_u32(position))
    }

    pub(super) fn position(self) -> usize {
        self.0 as usize
    }
}

/// Converts a position to 32 bits. `check/limits.rs` bounds all counts far below 2³². If a bound fails, the result is a
/// position past the end, which matches nothing.
pub(super) fn to_u32(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// Position of a text in [`Texts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    bytes: u32,
}

/// Concatenated texts.
#[derive(Clone, Default)]
pub(super) struct Texts {
    pub(super) all: String,
}

impl Texts {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { all: String::with_capacity(bytes) }
    }

    pub(super) fn push(&mut self, text: &str) -> Span {
        let span = Span { start: to_u32(self.all.len()), bytes: to_u32(text.len()) };
        self.all.push_str(text);
        span
    }

    pub(super) fn get(&self, span: Span) -> &str {
        let start = span.start as usize;
        self.all.get(start..start.saturating_add(span.bytes as usize)).unwrap_or_default()
    }
}

/// Concatenated lists, one for each row.
#[derive(Clone)]
pub(super) struct Lists<T> {
    pub(super) starts: Vec<u32>,
    pub(super) items: Vec<T>,
}

impl<T> Lists<T> {
    pub(super) fn with_capacity(rows: usize, items: usize) -> Self {
        let mut starts = Vec::with_capacity(rows + 1);
        starts.push(0);
        Self { starts, items: Vec::with_capacity(items) }
    }

    pub(super) fn push_row(&mut self, row: impl IntoIterator<Item = T>) {
        self.items.extend(row);
        self.starts.push(to_u32(self.items.len()));
    }

    pub(super) fn row_count(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    pub(super) fn item_count(&self) -> usize {
        self.items.len()
    }

    pub(super) fn of(&self, concept: ConceptIndex) -> &[T] {
        self.row(concept.position())
    }

    pub(super) fn row(&self, position: usize) -> &[T] {
        let bounds = (self.starts.get(position), self.starts.get(position + 1));
        let (Some(start), Some(end)) = bounds else { return &[] };
        self.items.get(*start as usize..*end as usize).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_where_it_was_put() {
        let mut texts = Texts::default();
        let (first, empty, second) = (texts.push("ab"), texts.push(""), texts.push("é"));
        assert_eq!((texts.get(first), texts.get(empty), texts.get(second)), ("ab", "", "é"));
    }

    #[test]
    fn a_list_past_the_end_is_empty() {
        let mut lists = Lists::with_capacity(2, 3);
        lists.push_row([1, 2]);
        lists.push_row([3]);
        assert_eq!(lists.of(ConceptIndex(0)), [1, 2]);
        assert_eq!(lists.of(ConceptIndex(1)), [3]);
        assert_eq!(lists.of(ConceptIndex(2)), [0; 0]);
        assert_eq!(lists.row_count(), 2);
    }
}
