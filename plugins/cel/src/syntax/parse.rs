//! The crate's parser, with its errors turned into ours.
//!
//! **Invariant:** the crate's errors are read field by field and never displayed: their `Display` renders the source
//! line and panics on hostile columns.

use super::token::{Token, TokenKind};
use crate::diagnostic::{Diagnostic, Fault};
use crate::message::Reason;
use crate::span::Span;
use cel_interpreter::common::ast::SourceInfo;
use cel_interpreter::{Env, IdedExpr, ParseError};

/// The most recovery attempts of the parser; only the first error is reported.
const RECOVERY_ATTEMPTS_MAX: u32 = 4;

/// A syntax tree with the positions of its nodes.
///
/// Comprehensions such as `members.exists(m, …)` remain calls.
pub struct Parsed {
    /// The root.
    pub expression: IdedExpr,
    offsets: SourceInfo,
    tokens: Vec<Token>,
}

impl Parsed {
    /// The token of a node: its name or literal, its operator, the dot of a field, the bracket of a call.
    pub fn token(&self, node: &IdedExpr) -> Span {
        let Some((start, _)) = self.offsets.offset_for(node.id) else { return Span::default() };
        self.index_at(start as usize)
            .and_then(|index| self.tokens.get(index))
            .map_or(Span::default(), |token| token.span)
    }

    /// The token before the one at `span`, such as the name of a call before its bracket.
    pub fn before(&self, span: Span) -> Span {
        let index = self.index_at(span.start).and_then(|index| index.checked_sub(1));
        index.and_then(|index| self.tokens.get(index)).map_or(span, |token| token.span)
    }

    /// The token after the one at `span`, such as the name of a field after its dot.
    pub fn after(&self, span: Span) -> Span {
        let index = self.index_at(span.start).map(|index| index + 1);
        index.and_then(|index| self.tokens.get(index)).map_or(span, |token| token.span)
    }

    /// The bracket that closes the one at `span`.
    pub fn closing(&self, span: Span) -> Span {
        let Some(index) = self.index_at(span.start) else { return span };
        let mut depth = 0_u32;
        for token in self.tokens.iter().skip(index) {
            match token.kind {
                TokenKind::Open => depth += 1,
                TokenKind::Close => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return token.span;
            }
        }
        span
    }

    fn index_at(&self, start: usize) -> Option<usize> {
        self.tokens.binary_search_by_key(&start, |token| token.span.start).ok()
    }
}

/// Parses `symbols`, the text with words replaced; positions refer to `source`, the original text.
pub fn parse(source: &str, symbols: &str, tokens: Vec<Token>) -> Result<Parsed, Diagnostic> {
    let parser = Env::default().parser().enable_ident_escape_syntax(true).error_recovery_limit(RECOVERY_ATTEMPTS_MAX);
    match parser.parse_with_source_info(symbols) {
        Ok((expression, offsets)) => Ok(Parsed { expression, offsets, tokens }),
        Err(errors) => Err(explain(source, &tokens, &errors.errors)),
    }
}

/// Our message for the parser's first error.
fn explain(source: &str, tokens: &[Token], errors: &[ParseError]) -> Diagnostic {
    let Some(error) = errors.iter().find(|error| error.pos.0 > 0) else {
        return Diagnostic::error(Fault::Syntax, Span::new(0, source.len()), Reason::NoExpression);
    };
    let offset = offset_of(source, error.pos);
    let Some(token) = tokens.iter().find(|token| token.span.end > offset) else {
        let end = tokens.last().map_or(0, |token| token.span.end);
        return Diagnostic::error(Fault::Syntax, Span::new(end, end), Reason::EndsEarly);
    };
    let text = token.span.text(source);
    if error.msg.starts_with("reserved identifier") {
        let message = Reason::ReservedWord.with([text]);
        return Diagnostic::error(Fault::Syntax, token.span, message);
    }
    if error.msg.starts_with("invalid int") || error.msg.starts_with("invalid uint") {
        let message = Reason::IntegerTooLarge.with([text]);
        return Diagnostic::error(Fault::InvalidLiteral, token.span, message);
    }
    if error.msg.starts_with("invalid double") {
        let message = Reason::NumberTooLarge.with([text]);
        return Diagnostic::error(Fault::InvalidLiteral, token.span, message);
    }
    if error.msg.starts_with("invalid string") || error.msg.starts_with("invalid bytes") {
        return Diagnostic::error(Fault::InvalidLiteral, token.span, Reason::EscapeOfNothing);
    }
    Diagnostic::error(Fault::Syntax, token.span, Reason::Unexpected.with([text]))
}

/// Converts the parser's line and column, both counted from 1, to a byte offset.
fn offset_of(source: &str, (line, column): (isize, isize)) -> usize {
    let lines_before = usize::try_from(line - 1).unwrap_or(0);
    let characters_before = usize::try_from(column - 1).unwrap_or(0);
    let line_start: usize = source.split_inclusive('\n').take(lines_before).map(str::len).sum();
    let rest = source.get(line_start..).unwrap_or("");
    line_start + rest.char_indices().nth(characters_before).map_or(rest.len(), |(offset, _)| offset)
}

#[cfg(test)]
mod tests {
    use crate::diagnostic::Fault;
    use crate::syntax::parse;

    fn fault(source: &str) -> (Fault, String) {
        let fault = parse(source).err().expect("the source is wrong");
        (fault.fault, fault.span.text(source).to_owned())
    }

    #[test]
    fn points_at_the_token_that_is_wrong() {
        assert_eq!(fault("me.a == == 1"), (Fault::Syntax, "==".into()));
        assert_eq!(fault("'é' == 'ü' 1"), (Fault::Syntax, "1".into()));
        assert_eq!(fault("me.a\n  ) && b").1, ")");
        assert_eq!(fault("f(,)").1, ",");
        assert_eq!(fault("me.if == let"), (Fault::Syntax, "let".into()));
    }

    #[test]
    fn says_where_an_unfinished_expression_ends() {
        let source = "me.a ==  ";
        let fault = parse(source).err().unwrap();
        assert_eq!((fault.fault, fault.span.start, fault.span.end), (Fault::Syntax, 7, 7));
    }

    #[test]
    fn refuses_numbers_and_escapes_that_stand_for_nothing() {
        assert_eq!(fault("1 < 99999999999999999999"), (Fault::InvalidLiteral, "99999999999999999999".into()));
        assert_eq!(fault(r"'\uD800' == 'a'"), (Fault::InvalidLiteral, r"'\uD800'".into()));
    }

    #[test]
    fn finds_the_tokens_of_calls_and_fields() {
        let source = "not f ( me . a, (1) ) ";
        let parsed = parse(source).unwrap();
        let cel_interpreter::common::ast::Expr::Call(not) = &parsed.expression.expr else { panic!() };
        assert_eq!(parsed.token(&parsed.expression).text(source), "not");
        let call = not.args.first().unwrap();
        let open = parsed.token(call);
        assert_eq!(open.text(source), "(");
        assert_eq!(parsed.before(open).text(source), "f");
        assert_eq!(parsed.closing(open).start, source.rfind(')').unwrap());
        let cel_interpreter::common::ast::Expr::Call(call) = &call.expr else { panic!() };
        let dot = parsed.token(call.args.first().unwrap());
        assert_eq!(parsed.after(dot).text(source), "a");
    }
}
