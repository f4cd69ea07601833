//! Places in the text of an expression.
//!
//! **Invariant:** inside the engine a place is a range of bytes; only what leaves it is counted in lines and characters.

/// A range of bytes of the expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// A place as people count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Length in characters; 0 when only the place is known.
    pub length: u32,
}

impl Span {
    /// The range from `start` up to `end`.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The smallest range that holds both.
    pub fn to(self, other: Span) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The text at this place of `source`; empty when the range does not fit it.
    pub fn text(self, source: &str) -> &str {
        source.get(self.start..self.end).unwrap_or("")
    }

    /// Line, column and length of this range in `source`.
    pub fn place(self, source: &str) -> Place {
        let before = source.get(..self.start).unwrap_or(source);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Place {
            line: count(before.matches('\n').count() + 1),
            column: count(before.get(line_start..).unwrap_or("").chars().count() + 1),
            length: count(self.text(source).chars().count()),
        }
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_and_lengths_count_characters_not_bytes() {
        let source = "'né' ==\n  'çà' + x";
        let start = source.find("'çà'").unwrap();
        let span = Span::new(start, start + "'çà'".len());
        assert_eq!(span.place(source), Place { line: 2, column: 3, length: 4 });
        let operator = source.find("==").unwrap();
        assert_eq!(Span::new(operator, operator + 2).place(source), Place { line: 1, column: 6, length: 2 });
    }

    #[test]
    fn a_range_outside_of_the_text_has_a_place_and_no_length() {
        assert_eq!(Span::new(9, 12).place("ab"), Place { line: 1, column: 3, length: 0 });
    }
}
