//! The language of rules and what it means: plain Rust, tested natively.
//!
//! As an example, the smallest language there is: `me.active` or `not me.active`, for any field that holds a truth.

/// A parsed expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    /// The field's path below `me`.
    pub path: String,
    /// True if `not` precedes it.
    pub is_negated: bool,
}

/// The problem with an expression, and where; columns count from 1, in characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Stable name of the fault.
    pub code: &'static str,
    /// The problem and its solution, in one sentence.
    pub message: String,
    /// Its start.
    pub column: u32,
    /// Number of characters it concerns.
    pub length: u32,
}

/// Reads an expression; `truths` are the paths that it may name.
pub fn parse(text: &str, truths: &[&str]) -> Result<Expression, ParseError> {
    let trimmed = text.trim_start();
    let (rest, is_negated) = match trimmed.strip_prefix("not ") {
        Some(rest) => (rest.trim_start(), true),
        None => (trimmed, false),
    };
    let name = rest.trim_end();
    let characters = |text: &str| u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
    let error = |code, message| {
        let before = &text[..text.len() - rest.len()];
        ParseError { code, message, column: characters(before) + 1, length: characters(name) }
    };
    let path = name
        .strip_prefix("me.")
        .ok_or_else(|| error("syntax", "an expression is `me.FIELD` or `not me.FIELD`".to_owned()))?;
    if truths.contains(&path) {
        return Ok(Expression { path: path.to_owned(), is_negated });
    }
    let known = truths.iter().map(|path| format!("`me.{path}`")).collect::<Vec<_>>().join(", ");
    Err(error("unknown_field", format!("`{name}` is no truth of the registry; there are: {known}")))
}

impl Expression {
    /// Result for a value; a missing one stays missing.
    pub fn truth(&self, value: Option<bool>) -> Option<bool> {
        value.map(|value| value != self.is_negated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_truth_and_its_negation() {
        let active = parse(" me.active ", &["active"]).unwrap();
        assert_eq!((active.truth(Some(true)), active.truth(Some(false)), active.truth(None)), (Some(true), Some(false), None));
        let inactive = parse("not me.active", &["active"]).unwrap();
        assert_eq!((inactive.truth(Some(true)), inactive.truth(None)), (Some(false), None));
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        let error = parse("not me.activ", &["active"]).unwrap_err();
        assert_eq!((error.code, error.column, error.length), ("unknown_field", 5, 8));
        assert!(error.message.contains("`me.active`"), "{}", error.message);
        assert_eq!(parse("", &[]).unwrap_err().code, "syntax");
    }
}
