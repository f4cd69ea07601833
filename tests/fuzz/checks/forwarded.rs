//! `Forwarded` and `X-Forwarded-For`. The first byte chooses the header and the peer, the rest are lines of the header.

use std::net::IpAddr;

use daftar_domain::forwarded::ForwardedHeader;
use daftar_domain::network::Network;

/// The address of a trusted proxy, and of any other peer.
const PROXY: &str = "10.0.0.1";
const OTHER: &str = "203.0.113.9";
/// An address that is in no trusted network.
const CLIENT: &str = "192.0.2.200";
const FORWARDED_CLIENT: &str = "for=192.0.2.200";

pub fn check(input: &[u8]) {
    let Some((choice, rest)) = input.split_first() else { return };
    let (header, write, https) = match choice & 1 {
        0 => (ForwardedHeader::XForwardedFor, CLIENT, ["https", "http"]),
        _ => (ForwardedHeader::Forwarded, FORWARDED_CLIENT, ["proto=https", "proto=http"]),
    };
    let peer: IpAddr = if choice & 2 == 0 { PROXY } else { OTHER }.parse().unwrap();
    let client: IpAddr = CLIENT.parse().unwrap();
    let trusted = ["10.0.0.0/8", "fd00::/8"].map(|network| Network::parse(network).unwrap());
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    let lines: Vec<&[u8]> = rest.split(|byte| *byte == b'\n').collect();
    let caller = |lines: &[&[u8]]| header.caller(peer, &trusted, lines.iter().copied());
    let before = |line: &'static str| [vec![line.as_bytes()], lines.clone()].concat();
    let after = |line: &'static str| [lines.clone(), vec![line.as_bytes()]].concat();

    let found = caller(&lines);
    assert_eq!(found.to_canonical(), found, "the address is canonical");
    if !is_trusted(peer) {
        assert_eq!(found, peer, "headers of an untrusted peer count for nothing");
        return;
    }
    // A client writes the lines to the left of those of the proxies.
    let forged = caller(&before(write));
    assert!(forged == found || (is_trusted(found) && forged == client), "{found} became {forged}");
    // The nearest proxy writes the last line.
    assert_eq!(caller(&after(write)), client, "the nearest proxy is right");
    for (line, is_https) in https.into_iter().zip([true, false]) {
        assert_eq!(header.is_https(after(line).iter().copied()), is_https, "the nearest proxy is right");
    }
}
