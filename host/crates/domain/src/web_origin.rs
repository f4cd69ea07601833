//! Web origins (RFC 6454): where a page comes from that calls the API in a browser.
//!
//! **Invariant:** an origin is written as browsers write it in `Origin`, so that the two are compared byte by byte.

use core::fmt;
use core::net::Ipv6Addr;

use serde::Deserialize;

/// The longest origin, in bytes: the longest name of a host, with scheme and port.
const BYTES_MAX: usize = 270;
/// Hosts that may serve pages without HTTPS: they are this machine.
const LOCAL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Scheme, host, and a port that is not the scheme's own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct WebOrigin(String);

/// A text that is no origin; says what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWebOrigin {
    /// Everybody, or nobody in particular.
    #[error(
        "`{0}` lets pages of strangers call the register with the tokens of whoever looks at them: name each origin, such as `https://portal.example.org`"
    )]
    Wildcard(String),
    /// A page that anybody on its way can change.
    #[error(
        "`{0}` is served without HTTPS, so that anybody on its way may put a script into it: name an origin with `https://`; `http://localhost:PORT` is taken"
    )]
    Plain(String),
    /// Browsers write it in another way, so that it would never match.
    #[error(
        "`{0}` is not as browsers write an origin: `https://`, the host in lower case, a port only if it is not 443, and nothing behind it"
    )]
    Form(String),
}

impl WebOrigin {
    /// Reads an origin.
    ///
    /// # Errors
    /// [`InvalidWebOrigin`].
    pub fn parse(text: &str) -> Result<Self, InvalidWebOrigin> {
        let shown = || text.chars().take(60).map(|one| if one.is_control() { ' ' } else { one }).collect();
        if text == "null" || text.contains('*') {
            return Err(InvalidWebOrigin::Wildcard(shown()));
        }
        let form = || InvalidWebOrigin::Form(shown());
        let (scheme, rest) = text.split_once("://").filter(|_| text.len() <= BYTES_MAX).ok_or_else(form)?;
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (rest, None),
        };
        let is_default = matches!((scheme, port), ("https", Some("443")) | ("http", Some("80")));
        let is_written_so = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|number| number.to_string() == port));
        if !is_host(host) || is_default || !is_written_so {
            return Err(form());
        }
        match scheme {
            "https" => Ok(Self(text.to_owned())),
            "http" if LOCAL_HOSTS.contains(&host) => Ok(Self(text.to_owned())),
            "http" => Err(InvalidWebOrigin::Plain(shown())),
            _ => Err(form()),
        }
    }

    /// As browsers write it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok_and(|parsed| parsed.to_string() == address);
    }
    let is_of_host = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    host.split('.').all(|label| !label.is_empty() && label.len() <= 63 && label.bytes().all(is_of_host))
}

impl fmt::Display for WebOrigin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl TryFrom<String> for WebOrigin {
    type Error = InvalidWebOrigin;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_origins_as_browsers_write_them() {
        for right in [
            "https://portal.example.org",
            "https://portal.example.org:8443",
            "https://xn--bcher-kva.example",
            "https://192.0.2.1",
            "https://[2001:db8::1]:8443",
            "http://localhost:3000",
            "http://127.0.0.1",
            "http://[::1]:5173",
        ] {
            assert_eq!(WebOrigin::parse(right).unwrap().as_str(), right);
        }
    }

    #[test]
    fn says_what_is_wrong_and_what_would_be_right() {
        let told = |text: &str| WebOrigin::parse(text).unwrap_err();
        for text in ["*", "null", "https://*", "https://*.example.org"] {
            assert_eq!(told(text), InvalidWebOrigin::Wildcard(text.to_owned()));
        }
        for text in ["http://portal.example.org", "http://localhost.example.org", "http://192.0.2.1:8080"] {
            assert_eq!(told(text), InvalidWebOrigin::Plain(text.to_owned()));
        }
        for text in [
            "",
            "portal.example.org",
            "https://",
            "https://portal.example.org/",
            "https://portal.example.org/app",
            "https://portal.example.org:443",
            "https://portal.example.org:",
            "https://portal.example.org:08443",
            "https://portal.example.org:70000",
            "https://Portal.example.org",
            "HTTPS://portal.example.org",
            "https://portal..example.org",
            "https://user@portal.example.org",
            "https://[2001:DB8::1]",
            "https://[2001:db8::1",
            "ftp://portal.example.org",
            "https://bücher.example",
            " https://portal.example.org",
        ] {
            assert_eq!(told(text), InvalidWebOrigin::Form(text.to_owned()), "{text}");
        }
        assert!(told(&format!("https://{}", "a".repeat(300))).to_string().len() < 300);
    }
}
