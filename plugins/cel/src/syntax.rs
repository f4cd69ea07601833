//! Parsing: our own scan first, then the crate's parser.
//!
//! **Invariant:** the parser only gets text that passed the scan. The scan uses the same tokens as the parser, rejects
//! input that the parser cannot handle, and limits the depth of the tree, because a few kilobytes of hostile text can
//! exhaust the parser's stack or memory.
//!
//! **Invariant:** positions in the parsed tree are byte offsets into the author's text.

mod depth;
mod parse;
mod token;
mod words;

pub use parse::Parsed;
pub use token::{Token, TokenKind};

use crate::diagnostic::{Diagnostic, Fault};
use crate::limits::SOURCE_BYTES_MAX;
use crate::message::Reason;
use crate::span::Span;

/// Parses an expression.
///
/// # Errors
///
/// The first fault: those after a syntax error are unreliable.
pub fn parse(source: &str) -> Result<Parsed, Diagnostic> {
    if source.len() > SOURCE_BYTES_MAX {
        let [length, most] = [source.len(), SOURCE_BYTES_MAX].map(|bytes| bytes.to_string());
        let message = Reason::TooLong.with([&length, &most]);
        return Err(Diagnostic::error(Fault::TooLong, Span::new(0, 0), message));
    }
    let mut tokens = token::tokens(source)?;
    if tokens.is_empty() {
        return Err(Diagnostic::error(Fault::Syntax, Span::new(0, 0), Reason::Empty));
    }
    let symbols = words::replace(source, &mut tokens);
    depth::check(source, &tokens)?;
    parse::parse(source, &symbols, tokens)
}
