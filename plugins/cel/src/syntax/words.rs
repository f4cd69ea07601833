//! The words `and`, `or` and `not`, alternatives of `&&`, `||` and `!`.
//!
//! **Invariant:** the replacement has the same length in bytes, so all positions stay valid in the author's text.

use super::token::{Token, TokenKind};

/// Replaces the words by their symbols, in a copy of the text and in the tokens.
///
/// A word is replaced if it is a token of its own and not the name of a field or function after a dot.
pub fn replace(source: &str, tokens: &mut [Token]) -> String {
    let mut replaced = source.to_owned();
    let mut is_after_dot = false;
    for token in tokens {
        let symbol = match (token.kind, token.span.text(source)) {
            (TokenKind::Identifier, "and") if !is_after_dot => Some((TokenKind::And, "&& ")),
            (TokenKind::Identifier, "or") if !is_after_dot => Some((TokenKind::Or, "||")),
            (TokenKind::Identifier, "not") if !is_after_dot => Some((TokenKind::Operator, "!  ")),
            _ => None,
        };
        is_after_dot = token.kind == TokenKind::Dot;
        if let Some((kind, symbol)) = symbol {
            token.kind = kind;
            replaced.replace_range(token.span.start..token.span.end, symbol);
        }
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::super::token::tokens;
    use super::*;

    fn replaced(source: &str) -> String {
        replace(source, &mut tokens(source).unwrap())
    }

    #[test]
    fn replaces_words_without_moving_anything() {
        assert_eq!(replaced("not a and b or c"), "!   a &&  b || c");
        assert_eq!(replaced("not(a)or(b)"), "!  (a)||(b)");
    }

    #[test]
    fn leaves_texts_parts_of_names_and_fields_alone() {
        for source in ["'a and b'", "android || order", "me.not", "a . and", "me.or.x", "x.and(1)", "notes // not"] {
            assert_eq!(replaced(source), source);
        }
    }
}
