//! Positions in the text of an expression.
//!
//! **Invariant:** inside the engine a position is a range of bytes; only output is counted in lines and characters.

/// A range of bytes of the expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// A position in lines and characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Length in characters; 0 if unknown.
    pub length: u32,
}

impl Span {
    /// The range from `start` up to `end`.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The smallest range that contains both.
    pub fn to(self, other: Span) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The text of the range in `source`; empty if the range is invalid.
    pub fn text(self, source: &str) -> &str {
        source.get(self.start..self.end).unwrap_or("")
    }

    /// Extends the range by matching brackets of which it contains only one: the position of an operand in brackets is
    /// inside them.
    pub fn whole_in(self, source: &str) -> Span {
        let (missing_before, missing_after) = unmatched(self.text(source));
        let Span { mut start, mut end } = self;
        for _ in 0..missing_before {
            let before = source.get(..start).unwrap_or("").trim_end();
            if !before.ends_with('(') {
                return self;
            }
            start = before.len() - 1;
        }
        for _ in 0..missing_after {
            let after = source.get(end..).unwrap_or("");
            let blank = after.len() - after.trim_start().len();
            if !after.trim_start().starts_with(')') {
                return self;
            }
            end += blank + 1;
        }
        Span { start, end }
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

/// The numbers of unmatched closing and opening round brackets of a text. Those in quotes are ignored.
fn unmatched(text: &str) -> (usize, usize) {
    let (mut closing, mut open) = (0_usize, 0_usize);
    let mut quote = None;
    let mut is_escaped = false;
    for character in text.chars() {
        match (quote, character) {
            (Some(_), '\\') => is_escaped = !is_escaped,
            (Some(begun), character) => {
                if character == begun && !is_escaped {
                    quote = None;
                }
                is_escaped = false;
            }
            (None, '\'' | '"') => quote = Some(character),
            (None, '(') => open += 1,
            (None, ')') if open > 0 => open -= 1,
            (None, ')') => closing += 1,
            (None, _) => {}
        }
    }
    (closing, open)
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
    fn a_range_takes_in_the_brackets_that_it_holds_one_of() {
        let source = "not ( (a + b) / f(')(') ) && x";
        let whole = |start: &str, end: &str| {
            let end = source.find(end).unwrap() + end.len();
            Span::new(source.find(start).unwrap(), end).whole_in(source).text(source)
        };
        assert_eq!(whole("a + b", "b"), "a + b");
        assert_eq!(whole("a + b", "f(')(')"), "(a + b) / f(')(')");
        assert_eq!(whole("not", "f(')(')"), "not ( (a + b) / f(')(') )");
        assert_eq!(Span::new(2, 9).whole_in("(a"), Span::new(2, 9));
    }

    #[test]
    fn a_range_outside_of_the_text_has_a_place_and_no_length() {
        assert_eq!(Span::new(9, 12).place("ab"), Place { line: 1, column: 3, length: 0 });
    }
}
