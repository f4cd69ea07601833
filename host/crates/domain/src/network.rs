//! IP networks in settings: an address and a prefix length (CIDR, RFC 4632 and RFC 4291 section 2.3).
//!
//! **Invariant:** an IPv4-mapped IPv6 address (`::ffff:192.0.2.1`) equals the IPv4 address, in networks and in lookups.
//!
//! **Invariant:** an origin has the form of the `Origin` header of browsers, so that both are compared byte by byte.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize, Serializer};

use super::hidden::shown;

/// Length of the common prefix of IPv4-mapped IPv6 addresses, in bits.
const MAPPED_BITS: u8 = 96;

/// A network: all addresses with a common prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Network(IpNet);

/// Error: a text is not a network. The message states the valid form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNetwork {
    /// The part before the `/` is not an address.
    #[error("`{0}` is not a network: write an address and a prefix length, such as `10.1.0.0/16` or `2001:db8::/32`")]
    Address(String),
    /// The part after the `/` is not a prefix length.
    #[error("`{text}` has no valid prefix length: write a number from {least} to {most} after the `/`")]
    Prefix {
        /// The input.
        text: String,
        /// Minimum prefix length.
        least: u8,
        /// Maximum prefix length.
        most: u8,
    },
    /// The address is not the first of its network: it is unclear whether the network or the address is meant.
    #[error(
        "`{text}` is not the first address of its network: write `{network}` for the network, or `{address}` for the single address"
    )]
    HostBits {
        /// The input.
        text: String,
        /// The network that contains the address.
        network: Network,
        /// The address alone.
        address: IpAddr,
    },
}

impl Network {
    /// Parses `address/bits`, or an address, which is a network with a single address.
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

    /// True if the network contains the address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }

    /// True if the network is larger than any private one: `10.0.0.0/8` or `fc00::/7` (RFC 1918, RFC 4193).
    #[must_use]
    pub fn is_wider_than_any_private_one(&self) -> bool {
        self.0.prefix_len() < if self.0.addr().is_ipv4() { 8 } else { 7 }
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Maximum length of an origin, in bytes: the longest host name, with scheme and port.
const BYTES_MAX: usize = 270;
/// Hosts permitted without HTTPS: the local machine.
const LOCAL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Scheme, host, and a port other than the default of the scheme.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String")]
pub struct WebOrigin(String);

/// Error: a text is not an origin. The message states the valid form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWebOrigin {
    /// A wildcard or `null`.
    #[error(
        "`{0}` lets any page call the register with the tokens of its visitors: list each origin, such as `https://portal.example.org`"
    )]
    Wildcard(String),
    /// An origin without HTTPS, which an attacker on the network can modify.
    #[error(
        "`{0}` is served without HTTPS, so that an attacker on the network can inject scripts: use an origin with `https://`; `http://localhost:PORT` is permitted"
    )]
    Plain(String),
    /// Not the form of browsers, so that it would never match.
    #[error(
        "`{0}` is not an origin in the form of browsers: `https://`, the host in lower case, a port only if it is not 443, and nothing after it"
    )]
    Form(String),
}

texts!(WebOrigin);
read_by_parse!(Network or InvalidNetwork, WebOrigin or InvalidWebOrigin);

impl WebOrigin {
    /// Parses an origin.
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
    fn contains_its_addresses_only() {
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
    fn errors_state_the_problem_and_the_valid_form() {
        let reported = |text: &str| Network::parse(text).unwrap_err().to_string();
        assert_eq!(
            reported("10.1.2.3/8"),
            "`10.1.2.3/8` is not the first address of its network: write `10.0.0.0/8` for the network, or `10.1.2.3` for the single address"
        );
        assert!(reported("2001:db8::1/64").contains("write `2001:db8::/64`"));
        for wrong in [
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/ 8",
            "10.0.0.0/-1",
            "10.0.0.0/255.0.0.0",
            "10.0.0.0/8/8",
        ] {
            assert!(reported(wrong).contains("a number from 0 to 32"), "{wrong}: {}", reported(wrong));
        }
        assert!(reported("2001:db8::/129").contains("a number from 0 to 128"));
        assert!(reported("::ffff:10.0.0.0/95").contains("a number from 96 to 128"));
        for wrong in ["", "proxy", "10.0.0", "010.0.0.1", "10.0.0.1:80", "[::1]", "fe80::1%eth0", "*", "10.*"] {
            assert!(reported(wrong).contains("is not a network"), "{wrong}: {}", reported(wrong));
        }
        assert!(reported(&"x".repeat(500)).len() < 300);
    }

    #[test]
    fn recognizes_networks_larger_than_private_ones() {
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
    fn accepts_origins_in_the_form_of_browsers() {
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
    fn errors_state_the_problem_and_the_valid_form() {
        let reported = |text: &str| WebOrigin::parse(text).unwrap_err();
        for text in ["*", "null", "https://*", "https://*.example.org"] {
            assert_eq!(reported(text), InvalidWebOrigin::Wildcard(text.to_owned()));
        }
        for text in ["http://portal.example.org", "http://localhost.example.org", "http://192.0.2.1:8080"] {
            assert_eq!(reported(text), InvalidWebOrigin::Plain(text.to_owned()));
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
            assert_eq!(reported(text), InvalidWebOrigin::Form(text.to_owned()), "{text}");
        }
        assert!(reported(&format!("https://{}", "a".repeat(300))).to_string().len() < 300);
    }
}
