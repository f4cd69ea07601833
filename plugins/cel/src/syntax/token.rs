//! Splits an expression into tokens, by CEL's lexical grammar.
//!
//! **Invariant:** a text that passes here is split by the parser into the same tokens. Input that the parser would
//! split differently (an unknown escape, an invalid character) is rejected here; otherwise the depth counted on these
//! tokens would be wrong.

use crate::diagnostic::{Diagnostic, Fault};
use crate::message::Reason;
use crate::span::Span;

/// The kind of a token, as far as needed for depth, words and positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A name or keyword.
    Identifier,
    /// A number.
    Number,
    /// A text or byte literal.
    Text,
    /// `(`, `[` or `{`.
    Open,
    /// `)`, `]` or `}`.
    Close,
    /// `.`
    Dot,
    /// `,`
    Comma,
    /// `?`
    Question,
    /// `:`
    Colon,
    /// `&&`
    And,
    /// `||`
    Or,
    /// Any other operator, `!` and `-` included.
    Operator,
}

/// One token and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its kind.
    pub kind: TokenKind,
    /// Its position.
    pub span: Span,
}

/// Splits `source` into its tokens, without white space and comments.
pub fn tokens(source: &str) -> Result<Vec<Token>, Diagnostic> {
    let mut scanner = Scanner { rest: source, offset: 0 };
    let mut tokens = Vec::new();
    while let Some(character) = scanner.peek() {
        if matches!(character, ' ' | '\t' | '\r' | '\n' | '\u{c}') {
            scanner.bump();
        } else if scanner.rest.starts_with("//") {
            scanner.skip_while(|character| character != '\n');
        } else {
            let start = scanner.offset;
            let kind = scanner.token(character)?;
            tokens.push(Token { kind, span: Span::new(start, scanner.offset) });
        }
    }
    Ok(tokens)
}

struct Scanner<'s> {
    rest: &'s str,
    offset: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let character = characters.next()?;
        self.rest = characters.as_str();
        self.offset += character.len_utf8();
        Some(character)
    }

    fn eat(&mut self, text: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(text) else { return false };
        self.rest = rest;
        self.offset += text.len();
        true
    }

    /// Skips characters while `is_wanted`, and returns their number.
    fn skip_while(&mut self, is_wanted: impl Fn(char) -> bool) -> usize {
        let mut count = 0;
        while self.peek().is_some_and(&is_wanted) {
            self.bump();
            count += 1;
        }
        count
    }

    fn token(&mut self, character: char) -> Result<TokenKind, Diagnostic> {
        let after = self.rest.get(character.len_utf8()..).and_then(|rest| rest.chars().next());
        match character {
            '"' | '\'' => self.text(self.offset, false),
            '0'..='9' => Ok(self.number()),
            '.' if after.is_some_and(|digit| digit.is_ascii_digit()) => Ok(self.number()),
            'a'..='z' | 'A'..='Z' | '_' => self.name(),
            '`' => self.quoted_name(),
            _ => self.symbol(character),
        }
    }

    fn symbol(&mut self, character: char) -> Result<TokenKind, Diagnostic> {
        const TWO: [(&str, TokenKind); 6] = [
            ("&&", TokenKind::And),
            ("||", TokenKind::Or),
            ("==", TokenKind::Operator),
            ("!=", TokenKind::Operator),
            ("<=", TokenKind::Operator),
            (">=", TokenKind::Operator),
        ];
        for (symbol, kind) in TWO {
            if self.eat(symbol) {
                return Ok(kind);
            }
        }
        let kind = match character {
            '(' | '[' | '{' => TokenKind::Open,
            ')' | ']' | '}' => TokenKind::Close,
            '.' => TokenKind::Dot,
            ',' => TokenKind::Comma,
            '?' => TokenKind::Question,
            ':' => TokenKind::Colon,
            '<' | '>' | '!' | '-' | '+' | '*' | '/' | '%' => TokenKind::Operator,
            _ => return Err(self.stray(character)),
        };
        self.bump();
        Ok(kind)
    }

    fn stray(&self, character: char) -> Diagnostic {
        let after = self.rest.get(character.len_utf8()..).and_then(|rest| rest.chars().next());
        let (reason, length, suggestion) = match (character, after) {
            ('=', Some('>')) => (Reason::WriteAtLeast, 2, Some(">=".to_owned())),
            ('=', Some('<')) => (Reason::WriteAtMost, 2, Some("<=".to_owned())),
            ('=', Some('!')) => (Reason::WriteDiffers, 2, Some("!=".to_owned())),
            ('=', _) => (Reason::WriteEquals, 1, Some("==".to_owned())),
            ('&', _) => (Reason::WriteAnd, 1, Some("&&".to_owned())),
            ('|', _) => (Reason::WriteOr, 1, Some("||".to_owned())),
            ('\u{2018}' | '\u{2019}' | '\u{201c}' | '\u{201d}', _) => {
                let (length, suggestion) = straight(self.rest);
                (Reason::StraightQuotes, length, suggestion)
            }
            ('`', _) => (Reason::QuotedField, 1, None),
            _ => (Reason::NoMeaning, character.len_utf8(), None),
        };
        let message = reason.with([&character.escape_debug().to_string()]);
        Diagnostic::error(Fault::Syntax, Span::new(self.offset, self.offset + length), message).suggest(suggestion)
    }

    /// A quoted field name, such as the one in ``map.`content-type` ``.
    fn quoted_name(&mut self) -> Result<TokenKind, Diagnostic> {
        let is_of_name =
            |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '-' | '/' | ' ');
        let inside = self.rest.get(1..).unwrap_or("");
        let length = inside.find(|character| !is_of_name(character)).unwrap_or(inside.len());
        if length == 0 || !inside.get(length..).is_some_and(|rest| rest.starts_with('`')) {
            return Err(self.stray('`'));
        }
        for _ in 0..length + 2 {
            self.bump();
        }
        Ok(TokenKind::Identifier)
    }

    fn name(&mut self) -> Result<TokenKind, Diagnostic> {
        let start = self.offset;
        let word = self.rest.find(|character: char| !character.is_ascii_alphanumeric() && character != '_');
        let word = self.rest.get(..word.unwrap_or(self.rest.len())).unwrap_or("");
        let is_followed_by_quote = self.rest.get(word.len()..).is_some_and(|rest| rest.starts_with(['"', '\'']));
        let is_raw = match word {
            "b" | "B" => Some(false),
            "r" | "R" | "br" | "bR" | "Br" | "BR" => Some(true),
            _ => None,
        };
        let length = word.len();
        for _ in 0..length {
            self.bump();
        }
        match is_raw {
            Some(is_raw) if is_followed_by_quote => self.text(start, is_raw),
            _ => Ok(TokenKind::Identifier),
        }
    }

    fn number(&mut self) -> TokenKind {
        let is_hexadecimal = self.rest.starts_with("0x")
            && self.rest.get(2..).is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_hexdigit()));
        if is_hexadecimal {
            self.eat("0x");
            self.skip_while(|digit| digit.is_ascii_hexdigit());
            let _ = self.eat("u") || self.eat("U");
            return TokenKind::Number;
        }
        self.skip_while(|digit| digit.is_ascii_digit());
        let has_fraction = self.skip_fraction();
        let has_exponent = self.skip_exponent();
        if !has_fraction && !has_exponent {
            let _ = self.eat("u") || self.eat("U");
        }
        TokenKind::Number
    }

    fn skip_fraction(&mut self) -> bool {
        let digits = self.rest.strip_prefix('.').unwrap_or("");
        if !digits.starts_with(|digit: char| digit.is_ascii_digit()) {
            return false;
        }
        self.eat(".");
        self.skip_while(|digit| digit.is_ascii_digit()) > 0
    }

    fn skip_exponent(&mut self) -> bool {
        let Some(exponent) = self.rest.strip_prefix(['e', 'E']) else { return false };
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if !digits.starts_with(|digit: char| digit.is_ascii_digit()) {
            return false;
        }
        self.bump();
        let _ = self.eat("+") || self.eat("-");
        self.skip_while(|digit| digit.is_ascii_digit()) > 0
    }

    /// Reads a text or byte literal after its prefix, from its first quote on.
    fn text(&mut self, start: usize, is_raw: bool) -> Result<TokenKind, Diagnostic> {
        let (quote, spans_lines) = if self.eat("'''") {
            ("'''", true)
        } else if self.eat("\"\"\"") {
            ("\"\"\"", true)
        } else if self.eat("'") {
            ("'", false)
        } else {
            self.eat("\"");
            ("\"", false)
        };
        loop {
            if self.eat(quote) {
                return Ok(TokenKind::Text);
            }
            match self.peek() {
                None => return Err(unterminated(start, self.offset)),
                Some('\n' | '\r') if !spans_lines => return Err(unterminated(start, self.offset)),
                Some('\\') if !is_raw => self.escape()?,
                Some(_) => {
                    self.bump();
                }
            }
        }
    }

    fn escape(&mut self) -> Result<(), Diagnostic> {
        let start = self.offset;
        self.bump();
        let is_known = match self.bump() {
            Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => true,
            Some('x' | 'X') => self.digits(2, 16),
            Some('u') => self.digits(4, 16),
            Some('U') => self.digits(8, 16),
            Some('0'..='3') => self.digits(2, 8),
            _ => false,
        };
        if is_known {
            return Ok(());
        }
        Err(Diagnostic::error(Fault::Syntax, Span::new(start, self.offset), Reason::UnknownEscape))
    }

    /// Reads exactly that many digits; returns false if there are fewer.
    fn digits(&mut self, count: usize, radix: u32) -> bool {
        for _ in 0..count {
            if !self.peek().is_some_and(|digit| digit.is_digit(radix)) {
                return false;
            }
            self.bump();
        }
        true
    }
}

fn unterminated(start: usize, end: usize) -> Diagnostic {
    Diagnostic::error(Fault::Syntax, Span::new(start, end), Reason::NoClosingQuote)
}

/// A text between typographic quotation marks: its length in bytes, and the same text between straight ones. Without a
/// closing mark there is no replacement, and the length is that of the opening one.
fn straight(rest: &str) -> (usize, Option<String>) {
    let mut characters = rest.char_indices();
    let opening = characters.next().map_or(0, |(_, mark)| mark.len_utf8());
    let is_closing = |mark: char| matches!(mark, '\u{2018}' | '\u{2019}' | '\u{201c}' | '\u{201d}');
    let Some((end, mark)) = characters.find(|(_, character)| is_closing(*character)) else { return (opening, None) };
    let is_apostrophe = rest.get(end + mark.len_utf8()..).is_some_and(|after| after.starts_with(char::is_alphanumeric));
    match rest.get(opening..end) {
        Some(inside) if !is_apostrophe && !inside.contains(['\'', '\\']) => {
            (end + mark.len_utf8(), Some(format!("'{inside}'")))
        }
        _ => (opening, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        tokens(source).unwrap().iter().map(|token| token.span.text(source)).collect()
    }

    #[test]
    fn splits_names_numbers_and_operators() {
        assert_eq!(
            texts("me.age>=60u&&x!=.5e-3 // never\n||0x1Fu-1.a"),
            ["me", ".", "age", ">=", "60u", "&&", "x", "!=", ".5e-3", "||", "0x1Fu", "-", "1", ".", "a"]
        );
    }

    #[test]
    fn keeps_every_kind_of_text_whole() {
        let source = r#"'a\'b' "c" r'\' b"d" '''e'f''' br"g" rb'h'"#;
        assert_eq!(texts(source), [r"'a\'b'", "\"c\"", r"r'\'", "b\"d\"", "'''e'f'''", "br\"g\"", "rb", "'h'"]);
        assert_eq!(texts("m.`content-type`.a"), ["m", ".", "`content-type`", ".", "a"]);
    }

    #[test]
    fn refuses_what_the_language_has_no_use_for() {
        for (source, start, end, suggestion) in [
            ("a = b", 2, 3, Some("==")),
            ("a & b", 2, 3, Some("&&")),
            ("a @ b", 2, 3, None),
            ("x == ‘a’", 5, 12, Some("'a'")),
            ("x == “a”", 5, 12, Some("'a'")),
            ("x == ‘a", 5, 8, None),
            ("x == ‘it’s’", 5, 8, None),
            ("a => b", 2, 4, Some(">=")),
            ("a =< b", 2, 4, Some("<=")),
            ("a =! b", 2, 4, Some("!=")),
            ("a.`b", 2, 3, None),
            ("a.`b\u{e9}`", 2, 3, None),
            ("'abc", 0, 4, None),
            ("'a\nb'", 0, 2, None),
            (r"'a\qb'", 2, 4, None),
            (r"'\u12'", 1, 5, None),
        ] {
            let fault = tokens(source).unwrap_err();
            assert_eq!((fault.fault, fault.span), (Fault::Syntax, Span::new(start, end)), "{source}");
            assert_eq!(fault.suggestion.as_deref(), suggestion, "{source}");
        }
    }
}
