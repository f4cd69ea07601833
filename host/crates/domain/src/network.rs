//! Networks as settings name them: an address and how many of its bits count (CIDR, RFC 4632 and RFC 4291 section 2.3).
//!
//! **Invariant:** an IPv4 address written as IPv6 (`::ffff:192.0.2.1`) is the IPv4 address, in a network as in what is looked up.
//!
//! **Invariant:** an origin is written as browsers write it in `Origin`, so that the two are compared byte by byte.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use serde::Deserialize;

use super::hidden::shown;

/// How many bits of the IPv6 form of an IPv4 address are the same for all of them.
const MAPPED_BITS: u8 = 96;

/// All addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Network(IpNet);

/// A text that is no network; says what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNetwork {
    /// What stands before the `/` is no address.
    #[error(
        "`{0}` is no network: write an address and how many of its bits count, such as `10.1.0.0/16` or `2001:db8::/32`"
    )]
    Address(String),
    /// What stands behind it is no number of bits.
    #[error(
        "`{text}` does not say how many bits of the address count: behind the `/` stands a number from {least} to {most}"
    )]
    Prefix {
        /// What was written.
        text: String,
        /// The smallest number that makes sense.
        least: u8,
        /// The greatest.
        most: u8,
    },
    /// The address is not the first of its network, so that one of the two is a slip.
    #[error(
        "`{text}` is not the first address of its network: write `{network}` for the network, or `{address}` for the one address"
    )]
    HostBits {
        /// What was written.
        text: String,
        /// The network that it lies in.
        network: Network,
        /// The address alone.
        address: IpAddr,
    },
}

impl Network {
    /// Reads `address/bits`, or an address, which is a network of its own.
    ///
    /// # Errors
    /// [`InvalidNetwork`].
    pub fn parse(text: &str) -> Result<Self, InvalidNetwork> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let given: IpAddr = address.parse().map_err(|_| InvalidNetwork::Address(shown(text)))?;
        let address = given.to_canonical();
        let mapped_bits = if given == address { 0 } else { MAPPED_BITS };
        let most = IpNet::from(address).max_prefix_len();
        let bits = match prefix {
            None => Some(most),
            Some(prefix) if prefix.bytes().all(|byte| byte.is_ascii_digit()) => {
                prefix.parse::<u8>().ok().and_then(|bits| bits.checked_sub(mapped_bits))
            }
            Some(_) => None,
        };
        let network = bits.and_then(|bits| IpNet::new(address, bits).ok());
        let network = network.ok_or_else(|| InvalidNetwork::Prefix {
            text: shown(text),
            least: mapped_bits,
            most: most.saturating_add(mapped_bits),
        })?;
        if network.network() == address {
            return Ok(Self(network));
        }
        Err(InvalidNetwork::HostBits { text: shown(text), network: Self(network.trunc()), address })
    }

    /// Whether an address lies in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }

    /// Whether it has more addresses than an organization has of its own: more than `10.0.0.0/8` or `fc00::/7`, the biggest
    /// networks that are nobody's in the internet (RFC 1918, RFC 4193).
    #[must_use]
    pub fn is_wider_than_any_private_one(&self) -> bool {
        self.0.prefix_len() < if self.0.addr().is_ipv4() { 8 } else { 7 }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

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

texts!(WebOrigin);
read_by_parse!(Network or InvalidNetwork, WebOrigin or InvalidWebOrigin);

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
}

fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok_and(|parsed| parsed.to_string() == address);
    }
    let is_of_host = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    host.split('.').all(|label| !label.is_empty() && label.len() <= 63 && label.bytes().all(is_of_host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        Network::parse(text).unwrap()
    }

    #[test]
    fn holds_its_addresses_and_no_others() {
        for (text, inside, outside) in [
            (
                "10.1.0.0/16",
                &["10.1.0.0", "10.1.255.255", "::ffff:10.1.2.3"][..],
                &["10.0.255.255", "10.2.0.0", "::10.1.2.3"][..],
            ),
            ("192.0.2.7", &["192.0.2.7", "::ffff:192.0.2.7"], &["192.0.2.6", "192.0.2.8"]),
            ("192.0.2.7/32", &["192.0.2.7"], &["192.0.2.6"]),
            ("192.0.2.6/31", &["192.0.2.6", "192.0.2.7"], &["192.0.2.5", "192.0.2.8"]),
            ("::ffff:10.0.0.0/104", &["10.255.0.1", "::ffff:10.0.0.1"], &["11.0.0.0"]),
            ("2001:db8::/32", &["2001:db8::", "2001:db8:ffff::1"], &["2001:db9::", "10.0.0.1"]),
            ("2001:db8::1", &["2001:db8::1"], &["2001:db8::2"]),
            ("0.0.0.0/0", &["255.255.255.255", "0.0.0.0"], &["::1", "2001:db8::1"]),
            ("::/0", &["::1", "2001:db8::1"], &["10.0.0.1", "::ffff:10.0.0.1"]),
        ] {
            for address in inside {
                assert!(network(text).contains(address.parse().unwrap()), "{text} {address}");
            }
            for address in outside {
                assert!(!network(text).contains(address.parse().unwrap()), "{text} {address}");
            }
        }
    }

    #[test]
    fn says_what_is_wrong_and_what_would_be_right() {
        let told = |text: &str| Network::parse(text).unwrap_err().to_string();
        assert_eq!(
            told("10.1.2.3/8"),
            "`10.1.2.3/8` is not the first address of its network: write `10.0.0.0/8` for the network, or `10.1.2.3` for the one address"
        );
        assert!(told("2001:db8::1/64").contains("write `2001:db8::/64`"));
        for wrong in [
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/ 8",
            "10.0.0.0/-1",
            "10.0.0.0/255.0.0.0",
            "10.0.0.0/8/8",
        ] {
            assert!(told(wrong).contains("a number from 0 to 32"), "{wrong}: {}", told(wrong));
        }
        assert!(told("2001:db8::/129").contains("a number from 0 to 128"));
        assert!(told("::ffff:10.0.0.0/95").contains("a number from 96 to 128"));
        for wrong in ["", "proxy", "10.0.0", "010.0.0.1", "10.0.0.1:80", "[::1]", "fe80::1%eth0", "*", "10.*"] {
            assert!(told(wrong).contains("is no network"), "{wrong}: {}", told(wrong));
        }
        assert!(told(&"x".repeat(500)).len() < 300);
    }

    #[test]
    fn knows_what_no_organization_has_of_its_own() {
        for wide in ["0.0.0.0/0", "128.0.0.0/1", "10.0.0.0/7", "::/0", "fc00::/6"] {
            assert!(network(wide).is_wider_than_any_private_one(), "{wide}");
        }
        for fine in ["10.0.0.0/8", "127.0.0.0/8", "fc00::/7", "2001:db8::/32", "192.0.2.1"] {
            assert!(!network(fine).is_wider_than_any_private_one(), "{fine}");
        }
    }
}

#[cfg(test)]
mod web_origin_tests {
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
