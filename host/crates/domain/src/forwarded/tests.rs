//! Chains of proxies, and forged entries.

use proptest::prelude::*;

use super::*;

const PEER: &str = "10.0.0.1";

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn trusted() -> Vec<Network> {
    ["10.0.0.0/8", "2001:db8:1::/48"].iter().map(|text| Network::parse(text).unwrap()).collect()
}

fn found(header: ForwardedHeader, peer: &str, lines: &[&str]) -> String {
    header.caller(address(peer), &trusted(), lines.iter().map(|line| line.as_bytes())).to_string()
}

fn plain(lines: &[&str]) -> String {
    found(ForwardedHeader::XForwardedFor, PEER, lines)
}

fn forwarded(lines: &[&str]) -> String {
    found(ForwardedHeader::Forwarded, PEER, lines)
}

#[test]
fn headers_of_an_untrusted_peer_are_ignored() {
    for peer in ["192.0.2.1", "::ffff:192.0.2.1"] {
        assert_eq!(found(ForwardedHeader::XForwardedFor, peer, &["198.51.100.7"]), "192.0.2.1");
        assert_eq!(found(ForwardedHeader::Forwarded, peer, &["for=198.51.100.7"]), "192.0.2.1");
    }
    assert_eq!(found(ForwardedHeader::XForwardedFor, "2001:db8:2::1", &["198.51.100.7"]), "2001:db8:2::1");
    let untrusted = ForwardedHeader::XForwardedFor.caller(address(PEER), &[], [&b"198.51.100.7"[..]].into_iter());
    assert_eq!(untrusted.to_string(), PEER, "without trusted proxies no header is trusted");
}

#[test]
fn the_first_untrusted_address_from_the_right_is_the_client() {
    for (lines, expected) in [
        (&["198.51.100.7"][..], "198.51.100.7"),
        (&["198.51.100.7, 10.0.0.2"], "198.51.100.7"),
        (&["198.51.100.7", "10.0.0.2, 10.0.0.3"], "198.51.100.7"),
        (&["203.0.113.1, 198.51.100.7"], "198.51.100.7"),
        (&["203.0.113.1", "198.51.100.7"], "198.51.100.7"),
        (&["127.0.0.1, 198.51.100.7,10.0.0.2"], "198.51.100.7"),
        (&["10.9.9.9, 198.51.100.7"], "198.51.100.7"),
        (&["198.51.100.7:4711"], "198.51.100.7"),
        (&["\t198.51.100.7 \t"], "198.51.100.7"),
        (&["::ffff:198.51.100.7"], "198.51.100.7"),
        (&["[::ffff:198.51.100.7]:1, ::ffff:10.0.0.2"], "198.51.100.7"),
        (&["2001:db8:2::9"], "2001:db8:2::9"),
        (&["[2001:db8:2::9]"], "2001:db8:2::9"),
        (&["[2001:db8:2::9]:443, 2001:db8:1::1"], "2001:db8:2::9"),
        (&["2001:DB8:2:0::9"], "2001:db8:2::9"),
        // All of them are trusted: the first one is the client.
        (&["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        (&[], PEER),
    ] {
        assert_eq!(plain(lines), expected, "{lines:?}");
    }
}

#[test]
fn an_invalid_entry_ends_the_walk_at_the_proxy_that_wrote_it() {
    for (lines, expected) in [
        (&[""][..], PEER),
        (&["unknown"], PEER),
        (&["198.51.100.7, unknown, 10.0.0.2"], "10.0.0.2"),
        (&["198.51.100.7, _hidden"], PEER),
        (&["198.51.100.7,"], PEER),
        (&["198.51.100.7, , 10.0.0.2"], "10.0.0.2"),
        (&["198.51.100.7", ""], PEER),
        (&["198.51.100.7 10.0.0.2"], PEER),
        (&["\"198.51.100.7\""], PEER),
        (&["for=198.51.100.7"], PEER),
        (&["198.51.100.7/32"], PEER),
        (&["198.51.100"], PEER),
        (&["0198.51.100.7"], PEER),
        (&["0xc6336407"], PEER),
        (&["3325256711"], PEER),
        (&["198.51.100.7:"], PEER),
        (&["198.51.100.7:70000"], PEER),
        (&["198.51.100.7:+1"], PEER),
        (&["[198.51.100.7]"], PEER),
        (&["[2001:db8:2::9"], PEER),
        (&["[2001:db8:2::9]x"], PEER),
        (&["fe80::1%eth0"], PEER),
        (&["198.51.100.7\u{0}"], PEER),
        (&["198.51.100.7\u{a0}"], PEER),
        (&["１９８.51.100.7"], PEER),
        (&["localhost"], PEER),
    ] {
        assert_eq!(plain(lines), expected, "{lines:?}");
    }
}

#[test]
fn forwarded_is_parsed_by_its_rfc() {
    for (lines, expected) in [
        (&["for=198.51.100.7"][..], "198.51.100.7"),
        (&["For=\"198.51.100.7:4711\""], "198.51.100.7"),
        (&["FOR=\"[2001:db8:2::9]\""], "2001:db8:2::9"),
        (&["for=\"[2001:db8:2::9]:443\";proto=https;by=203.0.113.60"], "2001:db8:2::9"),
        (&["proto=http; by=10.0.0.1 ;for=198.51.100.7 ; host=\"a,b;for=1.2.3.4\""], "198.51.100.7"),
        (&["for=203.0.113.1, for=198.51.100.7, for=10.0.0.2"], "198.51.100.7"),
        (&["for=203.0.113.1,for=198.51.100.7", "for=10.0.0.2"], "198.51.100.7"),
        (&["for=\"198.51\\.100.7\""], "198.51.100.7"),
        (&["for=\"198.51.100.7:_port\""], "198.51.100.7"),
        (&["for=\"[::ffff:198.51.100.7]\""], "198.51.100.7"),
        (&["extension=x;for=198.51.100.7"], "198.51.100.7"),
        (&["for=\"evil\\\", for=1.2.3.4\", for=198.51.100.7"], "198.51.100.7"),
        (&[], PEER),
    ] {
        assert_eq!(forwarded(lines), expected, "{lines:?}");
    }
}

#[test]
fn forwarded_that_violates_its_rfc_ends_the_walk() {
    for (lines, expected) in [
        (&["for=unknown"][..], PEER),
        (&["for=_hidden, for=10.0.0.2"], "10.0.0.2"),
        (&["for=\"_SEVKISEK\""], PEER),
        (&["for=198.51.100.7, proto=https"], PEER),
        (&["for=198.51.100.7;for=203.0.113.9"], PEER),
        (&["for=198.51.100.7;proto=http;proto=https"], PEER),
        (&["for=2001:db8:2::9"], PEER),
        (&["for=\"2001:db8:2::9\""], PEER),
        (&["for=[2001:db8:2::9]"], PEER),
        (&["for = 198.51.100.7"], PEER),
        (&["for=198.51.100.7:80"], PEER),
        (&["for=\"198.51.100.7"], PEER),
        // An unclosed quote of a client swallows the element that the trusted proxy appended.
        (&["for=\"evil, for=198.51.100.7"], PEER),
        (&["for=\"evil", "for=198.51.100.7"], "198.51.100.7"),
        (&["for=\"evil", "for=10.0.0.2"], "10.0.0.2"),
        (&["garbage, for=198.51.100.7"], PEER),
        (&["for=198.51.100.7,"], PEER),
        (&["198.51.100.7"], PEER),
        (&["for=\"198.51.100.7\u{7f}\""], PEER),
    ] {
        assert_eq!(forwarded(lines), expected, "{lines:?}");
    }
    let line = |bytes: usize| {
        let tail = ", for=198.51.100.7";
        format!("host={}{tail}", "x".repeat(bytes - "host=".len() - tail.len()))
    };
    for (bytes, expected) in
        [(LINE_BYTES_MAX - 1, "198.51.100.7"), (LINE_BYTES_MAX, "198.51.100.7"), (LINE_BYTES_MAX + 1, PEER)]
    {
        assert_eq!(forwarded(&[&line(bytes)]), expected, "{bytes}");
    }
}

#[test]
fn chains_are_followed_up_to_the_limit() {
    let chain = |proxies: usize| format!("198.51.100.7{}", ", 10.0.0.2".repeat(proxies));
    for (proxies, expected) in
        [(HOPS_MAX - 2, "198.51.100.7"), (HOPS_MAX - 1, "198.51.100.7"), (HOPS_MAX, "10.0.0.2"), (5_000, "10.0.0.2")]
    {
        assert_eq!(plain(&[&chain(proxies)]), expected, "{proxies}");
        let lines: Vec<String> = chain(proxies).split(", ").map(|node| format!("for={node}")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(forwarded(&lines), expected, "{proxies}");
    }
}

#[test]
fn the_protocol_is_that_of_the_nearest_proxy() {
    let plain = |lines: &[&str]| ForwardedHeader::XForwardedFor.is_https(lines.iter().map(|line| line.as_bytes()));
    assert!(plain(&["https"]) && plain(&["http, HTTPS "]) && plain(&["http", "https"]));
    assert!(!plain(&[]) && !plain(&["http"]) && !plain(&["https, http"]) && !plain(&["https", "http"]));
    assert!(!plain(&["https,"]) && !plain(&["httpss"]));
    let forwarded = |lines: &[&str]| ForwardedHeader::Forwarded.is_https(lines.iter().map(|line| line.as_bytes()));
    assert!(forwarded(&["for=1.2.3.4;Proto=\"HTTPS\""]) && forwarded(&["proto=http, proto=https"]));
    assert!(!forwarded(&["proto=https, proto=http"]) && !forwarded(&["proto=https;proto=https"]));
    assert!(!forwarded(&["proto=https", "for=1.2.3.4"]) && !forwarded(&["proto=\"https"]) && !forwarded(&[]));
}

proptest! {
    #[test]
    fn no_bytes_cause_a_panic(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8)) {
        for header in [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded] {
            let _answer = header.caller(address(PEER), &trusted(), lines.iter().map(Vec::as_slice));
            let _answer = header.is_https(lines.iter().map(Vec::as_slice));
        }
    }

    #[test]
    fn an_appended_address_wins_over_any_forged_entry(sent in "[ -~]{0,120}") {
        prop_assert_eq!(plain(&[&format!("{sent}, 198.51.100.7")]), "198.51.100.7");
        prop_assert_eq!(plain(&[&sent, "198.51.100.7, 10.0.0.2"]), "198.51.100.7");
        prop_assert_eq!(forwarded(&[&sent, "for=198.51.100.7, for=10.0.0.2"]), "198.51.100.7");
    }

    #[test]
    fn a_forged_prefix_of_a_line_yields_the_client_or_the_proxy(sent in "[ -~]{0,120}") {
        let found = forwarded(&[&format!("{sent}, for=198.51.100.7")]);
        prop_assert!(found == "198.51.100.7" || found == PEER, "{}", found);
    }
}
