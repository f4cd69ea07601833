//! A part of a file: what is sent in one request, and what is known of its lines.

use std::ops::Range;

use crate::cli::table::rows::CellProblem;

/// How many bytes a part has at most, but for one line that is longer.
pub const PART_BYTES_MAX: usize = 2 << 20;

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// In bytes from its beginning.
    pub offset: u64,
    /// The number of the line that begins there.
    pub line: u64,
    /// The number of the next line that is sent: of a table another than `line`.
    pub unit: u64,
}

impl Mark {
    /// The beginning of a file.
    pub const START: Self = Self { offset: 0, line: 1, unit: 1 };
}

/// A line that is sent.
#[derive(Debug, Clone)]
pub struct Unit {
    /// Where it is in the body, without its end.
    pub range: Range<usize>,
    /// The line of the file that it comes from.
    pub line: u64,
}

/// A line that is refused before it is sent.
#[derive(Debug, Clone)]
pub struct EarlyReject {
    /// Its number in the file.
    pub line: u64,
    /// What is wrong.
    pub errors: Vec<CellProblem>,
    /// What it says, as far as it is kept.
    pub text: Option<Vec<u8>>,
    /// Whether it is a row of a table.
    pub is_row: bool,
}

/// A part.
#[derive(Debug)]
pub struct Part {
    /// What is sent, a line each.
    pub body: Vec<u8>,
    /// The number of the first line that is sent.
    pub first_unit: u64,
    /// The lines that are sent, blank ones too.
    pub units: Vec<Unit>,
    /// The lines that are not.
    pub rejects: Vec<EarlyReject>,
    /// Where the next part begins.
    pub next: Mark,
    begins_at: u64,
}

impl Part {
    /// An empty part at a place.
    #[must_use]
    pub fn at(mark: Mark) -> Self {
        Self {
            body: Vec::new(),
            first_unit: mark.unit,
            units: Vec::new(),
            rejects: Vec::new(),
            next: mark,
            begins_at: mark.offset,
        }
    }

    /// Adds a line that is sent.
    pub fn push(&mut self, line: u64, text: &[u8]) {
        let start = self.body.len();
        self.body.extend_from_slice(text);
        self.units.push(Unit { range: start..self.body.len(), line });
        self.body.push(b'\n');
        self.next.unit = self.next.unit.saturating_add(1);
    }

    /// The line of that number, and where it comes from.
    #[must_use]
    pub fn unit(&self, number: u64) -> Option<(u64, &[u8])> {
        let at = usize::try_from(number.checked_sub(self.first_unit)?).ok()?;
        let unit = self.units.get(at)?;
        Some((unit.line, self.body.get(unit.range.clone())?))
    }

    /// Whether the file has ended before it.
    #[must_use]
    pub fn is_end(&self) -> bool {
        self.next.offset == self.begins_at
    }
}
