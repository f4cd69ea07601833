//! Client address behind reverse proxies: `Forwarded` (RFC 7239) or `X-Forwarded-For`, read from the right.
//!
//! Each proxy appends the address of its peer. The last entry was therefore written by the nearest trusted proxy, and
//! every entry before the first untrusted address may be forged.
//!
//! **Invariant:** for an untrusted peer, the client address is the address of the peer for any headers.
//! Entries to the left of the first untrusted address are ignored. At an invalid entry the walk ends at the proxy that
//! wrote it.

#[cfg(test)]
mod tests;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use super::network::Network;

/// Maximum number of chained proxies. Further entries are not read.
pub const HOPS_MAX: usize = 16;
/// Maximum length of an entry that is an address with its port, in bytes.
const NODE_BYTES_MAX: usize = 64;
/// Maximum length of a line of `Forwarded`, in bytes: it can only be parsed from the left.
const LINE_BYTES_MAX: usize = 8 << 10;

/// The header in which trusted proxies forward the client address. The other header is ignored: a proxy that writes one
/// may pass on the other as received from a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`, with `X-Forwarded-Proto`.
    #[default]
    XForwardedFor,
    /// `Forwarded`.
    Forwarded,
}

impl ForwardedHeader {
    /// Returns its name, in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
        }
    }

    /// Returns the name of the header with the protocol of the request to the proxy, in lower case.
    #[must_use]
    pub fn protocol_name(self) -> &'static str {
        match self {
            Self::XForwardedFor => "x-forwarded-proto",
            Self::Forwarded => "forwarded",
        }
    }

    /// Returns the client address of a request sent by `peer`. `lines` are the lines of [`Self::name`] in the order
    /// received.
    pub fn caller<'l>(
        self,
        peer: IpAddr,
        trusted: &[Network],
        lines: impl DoubleEndedIterator<Item = &'l [u8]>,
    ) -> IpAddr {
        let mut walk = Walk { at: peer.to_canonical(), trusted, hops: 0 };
        if !walk.is_at_trusted() {
            return walk.at;
        }
        for line in lines.rev() {
            let goes_on = match self {
                Self::XForwardedFor => line.rsplit(|byte| *byte == b',').all(|entry| walk.step(plain_node(entry))),
                Self::Forwarded => {
                    let elements = Some(line).filter(|line| line.len() <= LINE_BYTES_MAX).and_then(elements);
                    elements.is_some_and(|elements| elements.iter().rev().all(|element| walk.step(element.address())))
                }
            };
            if !goes_on {
                break;
            }
        }
        walk.at
    }

    /// True if the request to the nearest proxy used HTTPS. `lines` are those of [`Self::protocol_name`]. Valid only
    /// for a trusted proxy.
    pub fn is_https<'l>(self, mut lines: impl DoubleEndedIterator<Item = &'l [u8]>) -> bool {
        let Some(last) = lines.next_back() else { return false };
        match self {
            Self::XForwardedFor => {
                let nearest = last.rsplit(|byte| *byte == b',').next().unwrap_or_default();
                nearest.trim_ascii().eq_ignore_ascii_case(b"https")
            }
            Self::Forwarded => {
                let elements = Some(last).filter(|line| line.len() <= LINE_BYTES_MAX).and_then(elements);
                elements.and_then(|elements| elements.last().map(Element::is_https)).unwrap_or(false)
            }
        }
    }
}

/// A walk along the proxies towards the client.
struct Walk<'t> {
    at: IpAddr,
    trusted: &'t [Network],
    hops: usize,
}

impl Walk<'_> {
    /// Moves to the address written by the current proxy; returns true if the walk continues from there.
    fn step(&mut self, written: Option<IpAddr>) -> bool {
        let Some(address) = written.filter(|_| self.hops < HOPS_MAX) else { return false };
        self.hops += 1;
        self.at = address.to_canonical();
        self.is_at_trusted()
    }

    fn is_at_trusted(&self) -> bool {
        self.trusted.iter().any(|network| network.contains(self.at))
    }
}

/// Parses an entry of `X-Forwarded-For`: an address, with or without a port. IPv6 addresses may have brackets.
fn plain_node(entry: &[u8]) -> Option<IpAddr> {
    let text = node_text(entry)?;
    text.parse().ok().or_else(|| node(text))
}

/// Parses a node of RFC 7239, section 6: an IPv4 address or an IPv6 address in brackets, with or without a port. None
/// for `unknown` and obfuscated identifiers.
fn node(text: &str) -> Option<IpAddr> {
    if let Some(inside) = text.strip_prefix('[') {
        let (address, port) = inside.split_once(']')?;
        let is_right = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        return address.parse::<Ipv6Addr>().ok().filter(|_| is_right).map(IpAddr::V6);
    }
    let (address, is_right) = match text.split_once(':') {
        Some((address, port)) => (address, is_port(port)),
        None => (text, true),
    };
    address.parse::<Ipv4Addr>().ok().filter(|_| is_right).map(IpAddr::V4)
}

/// True for a port, or an obfuscated port.
fn is_port(text: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let is_number = (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && text.parse::<u16>().is_ok()) || text.strip_prefix('_').is_some_and(is_name)
}

fn node_text(entry: &[u8]) -> Option<&str> {
    let entry = trimmed(entry);
    Some(entry).filter(|entry| entry.len() <= NODE_BYTES_MAX).and_then(|entry| core::str::from_utf8(entry).ok())
}

/// Trims spaces and tabs.
fn trimmed(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// The element written by one proxy.
#[derive(Debug, Default)]
struct Element {
    node: Option<Vec<u8>>,
    protocol: Option<Vec<u8>>,
    /// True if a parameter that must be unique occurs twice.
    is_ambiguous: bool,
}

impl Element {
    /// Returns the address in `for`, if it is one.
    fn address(&self) -> Option<IpAddr> {
        let written = self.node.as_deref().filter(|_| !self.is_ambiguous)?;
        node(node_text(written)?)
    }

    /// True if the request to the proxy used HTTPS.
    fn is_https(&self) -> bool {
        let protocol = self.protocol.as_deref().filter(|_| !self.is_ambiguous);
        protocol.is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"https"))
    }

    fn take(&mut self, name: &[u8], value: Vec<u8>) {
        let place = match name.to_ascii_lowercase().as_slice() {
            b"for" => &mut self.node,
            b"proto" => &mut self.protocol,
            // The interface and the host name of the request to the proxy are not used.
            _ => return,
        };
        self.is_ambiguous |= place.replace(value).is_some();
    }
}

/// Parses the elements of a line from the left; none if any part violates the RFC, because the boundaries of elements
/// are then unknown.
fn elements(line: &[u8]) -> Option<Vec<Element>> {
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

    /// Parses a token of RFC 9110, section 5.6.2.
    fn token(&mut self) -> Option<&'l [u8]> {
        let is_of_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
        let length = self.0.iter().position(|byte| !is_of_token(byte)).unwrap_or(self.0.len());
        let (token, rest) = self.0.split_at_checked(length).filter(|(token, _)| !token.is_empty())?;
        self.0 = rest;
        Some(token)
    }

    /// Parses a quoted string of RFC 9110, section 5.6.4, without its quotes.
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
