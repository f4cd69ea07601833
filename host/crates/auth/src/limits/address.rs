//! An address as limits see it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whom an address stands for: one IPv4 address, or one IPv6 network of 64 bits, the least that a household is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum AddressKey {
    V4([u8; 4]),
    V6([u8; 8]),
}

impl AddressKey {
    /// The key of an address; an IPv4 address written as IPv6 is the IPv4 address.
    pub(super) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

impl fmt::Display for AddressKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::V4(octets) => write!(formatter, "{}", Ipv4Addr::from(octets)),
            Self::V6([a, b, c, d, e, f, g, h]) => {
                let network = Ipv6Addr::from([a, b, c, d, e, f, g, h, 0, 0, 0, 0, 0, 0, 0, 0]);
                write!(formatter, "{network}/64")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> String {
        AddressKey::of(text.parse().unwrap()).to_string()
    }

    #[test]
    fn a_network_of_64_bits_is_one_key() {
        assert_eq!(key("2001:db8:1:2::1"), "2001:db8:1:2::/64");
        assert_eq!(key("2001:db8:1:2:ffff::"), key("2001:db8:1:2::1"));
        assert_ne!(key("2001:db8:1:3::1"), key("2001:db8:1:2::1"));
    }

    #[test]
    fn an_ipv4_address_is_the_same_in_both_writings() {
        assert_eq!(key("203.0.113.9"), "203.0.113.9");
        assert_eq!(key("::ffff:203.0.113.9"), "203.0.113.9");
        assert_ne!(key("203.0.113.8"), key("203.0.113.9"));
    }
}
