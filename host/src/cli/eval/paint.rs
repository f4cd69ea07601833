//! Colours, on a terminal alone.

use std::io::IsTerminal;

use daftar_domain::config::colours_are_unwanted;

/// What a text means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// It holds.
    Yes,
    /// It does not hold, or is wrong.
    No,
    /// It is not known, or doubtful.
    Unknown,
    /// It stands beside what matters.
    Aside,
    /// It matters.
    Strong,
}

/// Paints texts, or leaves them as they are.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    is_on: bool,
}

impl Paint {
    /// For standard output.
    pub fn of_output() -> Self {
        Self { is_on: std::io::stdout().is_terminal() && !colours_are_unwanted() }
    }

    /// For standard error.
    pub fn of_errors() -> Self {
        Self { is_on: std::io::stderr().is_terminal() && !colours_are_unwanted() }
    }

    /// For tests.
    #[cfg(test)]
    pub fn fixed(is_on: bool) -> Self {
        Self { is_on }
    }

    /// The text in the colour of its meaning.
    pub fn paint(&self, meaning: Meaning, text: &str) -> String {
        if !self.is_on || text.is_empty() {
            return text.to_owned();
        }
        let code = match meaning {
            Meaning::Yes => "32",
            Meaning::No => "31",
            Meaning::Unknown => "33",
            Meaning::Aside => "2",
            Meaning::Strong => "1",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}
