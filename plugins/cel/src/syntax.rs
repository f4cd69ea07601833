//! From text to a syntax tree: our own scan first, then the crate's parser.
//!
//! **Invariant:** the parser sees only what the scan has passed. The scan splits the text into the same tokens as the parser
//! does, refuses what the parser would stumble over, and bounds the depth of the tree, because a few kilobytes of hostile
//! text can exhaust the parser's stack or memory.
//!
//! **Invariant:** positions in the parsed tree are byte offsets into the text as the author wrote it.

mod depth;
mod parse;
mod token;
mod words;

pub use parse::Parsed;
pub use token::{Token, TokenKind};

use crate::diagnostic::{Diagnostic, Fault};
use crate::limits::SOURCE_BYTES_MAX;
use crate::span::Span;

/// Parses an expression.
///
/// # Errors
///
/// What is wrong with the text, at its first fault: what follows a syntax error is guesswork.
pub fn parse(source: &str) -> Result<Parsed, Diagnostic> {
    if source.len() > SOURCE_BYTES_MAX {
        let message = format!("the expression is {} bytes long; at most {SOURCE_BYTES_MAX} are accepted", source.len());
        return Err(Diagnostic::error(Fault::TooLong, Span::new(0, 0), message));
    }
    let mut tokens = token::tokens(source)?;
    if tokens.is_empty() {
        return Err(Diagnostic::error(Fault::Syntax, Span::new(0, 0), "the expression is empty"));
    }
    let symbols = words::replace(source, &mut tokens);
    depth::check(source, &tokens)?;
    parse::parse(source, &symbols, tokens)
}
