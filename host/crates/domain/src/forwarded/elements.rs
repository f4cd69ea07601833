//! One line of `Forwarded` (RFC 7239, section 4): elements behind commas, in each of them pairs behind semicolons.

use core::net::IpAddr;

use super::{node, node_text};

/// What one proxy wrote.
#[derive(Debug, Default)]
pub(super) struct Element {
    node: Option<Vec<u8>>,
    protocol: Option<Vec<u8>>,
    /// A parameter that may stand once stands twice, so that nobody can say which is meant.
    is_ambiguous: bool,
}

impl Element {
    /// For whom the proxy asked, where it says it by an address.
    pub(super) fn address(&self) -> Option<IpAddr> {
        let written = self.node.as_deref().filter(|_| !self.is_ambiguous)?;
        node(node_text(written)?)
    }

    /// Whether the proxy was asked by HTTPS.
    pub(super) fn is_https(&self) -> bool {
        let protocol = self.protocol.as_deref().filter(|_| !self.is_ambiguous);
        protocol.is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"https"))
    }

    fn take(&mut self, name: &[u8], value: Vec<u8>) {
        let place = match name.to_ascii_lowercase().as_slice() {
            b"for" => &mut self.node,
            b"proto" => &mut self.protocol,
            // By which of its addresses, and by which name the proxy was asked: nothing here goes by that.
            _ => return,
        };
        self.is_ambiguous |= place.replace(value).is_some();
    }
}

/// The elements of a line from the left; none where any of it is not as the RFC has it, since nobody can say then where an element
/// begins.
pub(super) fn read(line: &[u8]) -> Option<Vec<Element>> {
    let mut cursor = Cursor(line);
    let mut elements = Vec::new();
    loop {
        let mut element = Element::default();
        let ended = loop {
            cursor.skip_spaces();
            if !matches!(cursor.0.first(), None | Some(b',' | b';')) {
                let name = cursor.token()?;
                cursor.expect(b'=')?;
                let value = if cursor.0.first() == Some(&b'"') { cursor.quoted()? } else { cursor.token()?.to_vec() };
                element.take(name, value);
                cursor.skip_spaces();
            }
            match cursor.next() {
                Some(b';') => {}
                Some(b',') => break false,
                None => break true,
                Some(_) => return None,
            }
        };
        elements.push(element);
        if ended {
            return Some(elements);
        }
    }
}

struct Cursor<'l>(&'l [u8]);

impl<'l> Cursor<'l> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn skip_spaces(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.0 {
            self.0 = rest;
        }
    }

    /// A token of RFC 9110, section 5.6.2.
    fn token(&mut self) -> Option<&'l [u8]> {
        let is_of_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
        let length = self.0.iter().position(|byte| !is_of_token(byte)).unwrap_or(self.0.len());
        let (token, rest) = self.0.split_at_checked(length).filter(|(token, _)| !token.is_empty())?;
        self.0 = rest;
        Some(token)
    }

    /// A quoted string of RFC 9110, section 5.6.4, without its quotes.
    fn quoted(&mut self) -> Option<Vec<u8>> {
        self.expect(b'"')?;
        let is_text = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
        let mut value = Vec::new();
        loop {
            match self.next()? {
                b'"' => return Some(value),
                b'\\' => value.push(self.next().filter(|byte| is_text(*byte))?),
                byte if is_text(byte) => value.push(byte),
                _ => return None,
            }
        }
    }
}
