//! Limits the depth of the syntax tree before it is built.
//!
//! The depth is estimated from the tokens, never too low: each dot, call, index and operator of a chain adds one link,
//! a bracket adds the depth of its content, and `&&` and `||` add the depth of a balanced tree, which the parser builds
//! for them.

use super::token::{Token, TokenKind};
use crate::diagnostic::{Diagnostic, Fault};
use crate::limits::{DEPTH_MAX, NESTING_MAX};
use crate::message::Reason;
use crate::span::Span;

/// Rejects unmatched brackets and trees that would be too deep.
pub fn check(source: &str, tokens: &[Token]) -> Result<(), Diagnostic> {
    let mut outer: Vec<(Token, Level)> = Vec::new();
    let mut level = Level::default();
    let mut nesting_outside = 0;
    let mut before = None;
    for token in tokens {
        // `.?`, `[?` and `{?` are one link; elsewhere a question mark starts a ternary.
        let is_optional = matches!(before, Some(TokenKind::Dot | TokenKind::Open | TokenKind::Comma));
        before = Some(token.kind);
        match token.kind {
            TokenKind::Question if is_optional => {}
            TokenKind::Identifier | TokenKind::Number | TokenKind::Text => {}
            TokenKind::Dot | TokenKind::Operator => level.chain += 1,
            TokenKind::And | TokenKind::Or => level.end_term(),
            TokenKind::Colon => level.end_operand(),
            TokenKind::Question => {
                level.end_operand();
                level.ternaries += 1;
            }
            TokenKind::Comma => level.end_item(),
            TokenKind::Open => {
                level.chain += 1;
                nesting_outside += 1 + level.ternaries;
                outer.push((*token, std::mem::take(&mut level)));
            }
            TokenKind::Close => {
                let Some((open, outside)) = outer.pop() else { return Err(closes_nothing(source, token)) };
                if closing(open.span.text(source)) != token.span.text(source) {
                    return Err(not_closed(source, &open));
                }
                let inside = level.depth();
                level = outside;
                nesting_outside -= 1 + level.ternaries;
                level.deepest = level.deepest.max(inside);
            }
        }
        if nesting_outside + level.ternaries > NESTING_MAX {
            let message = Reason::NestedTooDeep.with([&NESTING_MAX.to_string()]);
            return Err(Diagnostic::error(Fault::TooDeep, token.span, message));
        }
        if level.depth() > DEPTH_MAX {
            let message = Reason::ChainTooLong.with([&DEPTH_MAX.to_string()]);
            return Err(Diagnostic::error(Fault::TooDeep, token.span, message));
        }
    }
    match outer.first() {
        Some((open, _)) => Err(not_closed(source, open)),
        None => Ok(()),
    }
}

/// The state of one pair of brackets, or of the whole expression.
#[derive(Default)]
struct Level {
    /// Links of the current operand.
    chain: u32,
    /// Depth of the deepest bracket in that operand.
    deepest: u32,
    /// Depth of the deepest operand of this item.
    operand: u32,
    /// Terms of `&&` and `||` in this item, less one.
    terms: u32,
    /// Ternaries in this item.
    ternaries: u32,
    /// Depth of the deepest item before this one.
    item: u32,
}

impl Level {
    fn end_operand(&mut self) {
        self.operand = self.operand.max(self.chain + self.deepest);
        self.chain = 0;
        self.deepest = 0;
    }

    fn end_term(&mut self) {
        self.end_operand();
        self.terms += 1;
    }

    fn end_item(&mut self) {
        self.end_operand();
        self.item = self.depth();
        self.operand = 0;
        self.terms = 0;
        self.ternaries = 0;
    }

    fn depth(&self) -> u32 {
        let balanced = 2 * (u32::BITS - self.terms.leading_zeros());
        self.item.max(self.operand.max(self.chain + self.deepest) + balanced + self.ternaries)
    }
}

fn closing(open: &str) -> &'static str {
    match open {
        "(" => ")",
        "[" => "]",
        _ => "}",
    }
}

fn closes_nothing(source: &str, token: &Token) -> Diagnostic {
    let message = Reason::ClosesNothing.with([token.span.text(source)]);
    Diagnostic::error(Fault::Syntax, token.span, message)
}

fn not_closed(source: &str, open: &Token) -> Diagnostic {
    let text = open.span.text(source);
    let message = Reason::NotClosed.with([text, closing(text)]);
    Diagnostic::error(Fault::Syntax, Span::new(open.span.start, open.span.end), message)
}

#[cfg(test)]
mod tests {
    use super::super::token::tokens;
    use super::*;

    fn fault(source: &str) -> Option<(Fault, usize)> {
        check(source, &tokens(source).unwrap()).err().map(|fault| (fault.fault, fault.span.start))
    }

    #[test]
    fn counts_chains_of_every_kind_to_the_bound_and_not_beyond() {
        for (first, link) in [("1", "+1"), ("me", ".a"), ("1", "==1"), ("m", "['a']"), ("'a'", "*1")] {
            let at_bound = format!("{first}{}", link.repeat(DEPTH_MAX as usize));
            assert_eq!(fault(&at_bound), None, "{link}");
            assert_eq!(fault(&format!("{at_bound}{link}")).map(|fault| fault.0), Some(Fault::TooDeep), "{link}");
        }
        let calls = format!("'a'{}", ".size()".repeat(DEPTH_MAX as usize / 2));
        assert_eq!(fault(&calls), None);
        assert_eq!(fault(&format!("{calls}.size()")).map(|fault| fault.0), Some(Fault::TooDeep));
    }

    #[test]
    fn adds_the_depth_of_brackets_to_the_chain_they_stand_in() {
        let inner = format!("(1{})", "+1".repeat(150));
        assert_eq!(fault(&format!("{inner}{}", "+1".repeat(90))), None);
        assert_eq!(fault(&format!("{inner}{}", "+1".repeat(110))).map(|fault| fault.0), Some(Fault::TooDeep));
        assert_eq!(fault(&format!("f({inner}, {inner}, {inner})")), None, "items stand side by side");
    }

    #[test]
    fn long_conjunctions_are_flat() {
        assert_eq!(fault(&vec!["a == 1"; 900].join(" && ")), None);
    }

    #[test]
    fn bounds_nesting_of_brackets_and_ternaries() {
        let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
        assert_eq!(fault(&nested(NESTING_MAX as usize)), None);
        assert_eq!(fault(&nested(NESTING_MAX as usize + 1)), Some((Fault::TooDeep, NESTING_MAX as usize)));
        let ternaries = |count: usize| format!("{}1", "a?1:".repeat(count));
        assert_eq!(fault(&ternaries(NESTING_MAX as usize)), None);
        assert_eq!(fault(&ternaries(NESTING_MAX as usize + 1)).map(|fault| fault.0), Some(Fault::TooDeep));
        let mixed = format!("{}1{}", "a?(".repeat(40), "):1".repeat(40));
        assert_eq!(fault(&mixed).map(|fault| fault.0), Some(Fault::TooDeep));
    }

    #[test]
    fn names_the_bracket_that_is_wrong() {
        assert_eq!(fault("(a"), Some((Fault::Syntax, 0)));
        assert_eq!(fault("a)"), Some((Fault::Syntax, 1)));
        assert_eq!(fault("f([a)"), Some((Fault::Syntax, 2)));
        assert_eq!(fault("((a)"), Some((Fault::Syntax, 0)));
    }
}
