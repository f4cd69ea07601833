//! Networks as settings name them: an address and how many of its bits count (CIDR, RFC 4632 and RFC 4291 section 2.3).
//!
//! **Invariant:** an IPv4 address written as IPv6 (`::ffff:192.0.2.1`) is the IPv4 address, in a network as in what is looked up.

use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

use ipnet::IpNet;
use serde::Deserialize;

/// How many bits of the IPv6 form of an IPv4 address are the same for all of them.
const MAPPED_BITS: u8 = 96;
/// How much of a text that is no network is repeated in the error.
const SHOWN_CHARACTERS_MAX: usize = 60;

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

fn shown(text: &str) -> String {
    let mut shown: String =
        text.chars().take(SHOWN_CHARACTERS_MAX).map(|one| if one.is_control() { ' ' } else { one }).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Network {
    type Error = InvalidNetwork;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
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
