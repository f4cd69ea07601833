//! The certificate of HTTPS: readable, with its key, valid, for the host name by which clients reach the server.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;

use rustls::client::verify_server_name;
use rustls::pki_types::ServerName;
use rustls::server::ParsedCertificate;

use super::{Patient, SECONDS_OF_A_DAY, age};
use crate::app::serve::certificate::inspect;
use daftar_domain::checkup::{Check, CheckArea};
use daftar_domain::config::{ServerConfig, TlsConfig};

const CERTIFICATE: CheckArea = CheckArea::Certificate;

/// Checks the files of `[server.tls]`.
pub(super) fn certificate(patient: &Patient) -> Vec<Check> {
    let Some(tls) = &patient.config.server.tls else { return Vec::new() };
    let mut checks = Vec::new();
    match inspect(tls) {
        Err(reason) => {
            let remedy = format!(
                "let `[server.tls]` name a certificate and its key, both PEM: `openssl x509 -in {} -noout -subject -dates` shows what is there",
                tls.cert.display()
            );
            checks.push(Check::problem(CERTIFICATE, "usable", reason, remedy));
        }
        Ok(seen) => {
            let shown = Patient::shown(&tls.cert);
            checks.push(Check::ok(CERTIFICATE, "usable", format_args!("{shown} and its key belong together")));
            checks.push(certificate_in_use(patient, tls, &seen));
            checks.extend(certificate_name(patient, tls, &seen));
        }
    }
    checks.extend(key_mode(tls));
    checks
}

fn certificate_in_use(patient: &Patient, tls: &TlsConfig, seen: &crate::app::serve::certificate::Seen) -> Check {
    let shown = Patient::shown(&tls.cert);
    let renew =
        "renew it and put it into the same files: a running server takes it within `check_every_s`, or on SIGHUP";
    let (now, begins, ends) = (patient.now, seen.begins, seen.expires);
    if now < begins {
        let message = format!("{shown} holds from {begins} on, and it is {now}");
        return Check::problem(
            CERTIFICATE,
            "validity",
            message,
            "set the machine's clock, or get a certificate that holds now",
        );
    }
    if ends <= now {
        let message = format!("{shown} expired {}, and clients refuse it", age(now, ends));
        return Check::problem(CERTIFICATE, "validity", message, renew);
    }
    let days = ends.duration_since(now).as_secs().div_euclid(SECONDS_OF_A_DAY);
    if days < i64::try_from(tls.expiry_warning_days).unwrap_or(i64::MAX) {
        return Check::warning(
            CERTIFICATE,
            "validity",
            format_args!("{shown} expires in {days} days, on {ends}"),
            renew,
        );
    }
    Check::ok(CERTIFICATE, "validity", format_args!("{shown} holds for {days} days more, until {ends}"))
}

/// Checks that clients that use `public_url` accept the certificate.
fn certificate_name(patient: &Patient, tls: &TlsConfig, seen: &crate::app::serve::certificate::Seen) -> Option<Check> {
    let url = patient.config.server.public_url.as_deref()?;
    let host = host_of(url)?;
    let shown = Patient::shown(&tls.cert);
    let is_named = ServerName::try_from(host).is_ok_and(|name| {
        ParsedCertificate::try_from(&seen.leaf).is_ok_and(|leaf| verify_server_name(&leaf, &name).is_ok())
    });
    if is_named {
        return Some(Check::ok(CERTIFICATE, "name", format_args!("{shown} is for `{host}`, the host of `public_url`")));
    }
    let message = format!(
        "{shown} is not for `{host}`, the host of `server.public_url`: clients that go by it refuse the server"
    );
    let remedy = "get a certificate whose subject alternative names have that host, or set `server.public_url` to the one that it is for";
    Some(Check::problem(CERTIFICATE, "name", message, remedy))
}

/// Returns the host of a URL without a path, without its port and brackets.
fn host_of(url: &str) -> Option<&str> {
    let (_, authority) = url.split_once("://")?;
    match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(host, _)| host),
        None => Some(authority.rsplit_once(':').map_or(authority, |(host, _)| host)),
    }
}

fn key_mode(tls: &TlsConfig) -> Option<Check> {
    let mode = fs::metadata(&tls.key).ok()?.permissions().mode() & 0o777;
    // Key files that a group may read are common; access for all accounts is too permissive.
    (mode & 0o007 != 0).then(|| {
        let message = format!("every account may read the private key {} (mode {mode:03o})", Patient::shown(&tls.key));
        Check::warning(CERTIFICATE, "key_mode", message, format_args!("`chmod 600 {}`", tls.key.display()))
    })
}

const LISTENERS: CheckArea = CheckArea::Listeners;

/// Checks every address.
pub(super) fn listeners(patient: &Patient) -> Vec<Check> {
    let server = &patient.config.server;
    let mut checks = Vec::new();
    let addresses = [
        ("server.listen", Some(server.listen)),
        ("server.admin_listen", Some(server.admin_listen)),
        ("server.metrics_listen", server.metrics_listen),
    ];
    for (key, address) in addresses {
        let Some(address) = address else { continue };
        checks.push(if patient.is_server() {
            Check::ok(LISTENERS, "address", format_args!("this server has {address} (`{key}`)"))
        } else {
            free(key, address)
        });
    }
    checks.extend(proxies(server));
    checks.extend(public_url(server));
    checks
}

/// Checks that a server could listen on the address. Listens briefly and accepts no connection.
fn free(key: &str, address: SocketAddr) -> Check {
    match TcpListener::bind(address) {
        Ok(_) => Check::ok(LISTENERS, "address", format_args!("{address} (`{key}`) is free")),
        Err(error) => {
            let message = format!("{address} (`{key}`) cannot be listened on: {error}");
            let remedy = format!(
                "stop what listens there (`ss -ltnp 'sport = :{}'` names it), or set another `{key}`",
                address.port()
            );
            Check::problem(LISTENERS, "address", message, remedy)
        }
    }
}

fn proxies(server: &ServerConfig) -> Vec<Check> {
    let mut checks = Vec::new();
    if server.trusted_proxies.is_empty() {
        return checks;
    }
    // Networks that contain most of the internet are rejected when the configuration is loaded.
    let count = server.trusted_proxies.len();
    checks.push(Check::ok(LISTENERS, "proxies", format_args!("{count} proxies or networks of them are trusted")));
    if server.tls.is_some() && server.listen.ip().is_loopback() {
        let message =
            "proxies are trusted, and `server.listen` is on loopback with HTTPS: only proxies of this machine reach it";
        let remedy = "leave `[server.tls]` out where the proxy of this machine speaks HTTPS, or listen on an address that others reach";
        checks.push(Check::warning(LISTENERS, "proxies_reach", message, remedy));
    }
    checks
}

fn public_url(server: &ServerConfig) -> Option<Check> {
    let is_for_others = !server.listen.ip().is_loopback() || !server.trusted_proxies.is_empty();
    match server.public_url.as_deref() {
        None if is_for_others => {
            let message = "other machines reach this server, and `server.public_url` is not set: responses contain its own address";
            let remedy =
                "set `server.public_url` to the URL by which clients know it, such as `https://registry.example.org`";
            Some(Check::warning(LISTENERS, "public_url", message, remedy))
        }
        None => None,
        Some(url) if is_for_others && url.starts_with("http://") => {
            let message = format!("`server.public_url` is {url}: clients would send their secrets without HTTPS");
            Some(Check::warning(LISTENERS, "public_url", message, "begin it with `https://`"))
        }
        Some(url) => Some(Check::ok(LISTENERS, "public_url", format_args!("clients know this server as {url}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_url_is_without_its_port() {
        for (url, host) in [
            ("https://registry.example.org", "registry.example.org"),
            ("https://registry.example.org:8443", "registry.example.org"),
            ("https://192.0.2.1:8443", "192.0.2.1"),
            ("https://[2001:db8::1]:8443", "2001:db8::1"),
            ("https://[2001:db8::1]", "2001:db8::1"),
        ] {
            assert_eq!(host_of(url), Some(host));
        }
    }
}

#[cfg(test)]
mod listeners_tests {
    use super::*;
    use daftar_domain::checkup::CheckState;
    use daftar_domain::config::Config;

    fn server(text: &str) -> ServerConfig {
        Config::parse(&format!("[server]\n{text}")).unwrap().server
    }

    #[test]
    fn an_address_in_use_is_a_problem_with_the_command_that_names_the_process() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let check = free("server.listen", address);
        assert_eq!(check.state, CheckState::Problem);
        assert!(check.remedy.unwrap().contains(&format!("sport = :{}", address.port())));
        drop(taken);
        assert_eq!(free("server.listen", address).state, CheckState::Ok);
    }

    #[test]
    fn proxies_that_cannot_reach_the_server_are_warned_of() {
        let states = |text: &str| proxies(&server(text)).iter().map(|check| check.state).collect::<Vec<_>>();
        assert!(states("").is_empty());
        assert_eq!(states("trusted_proxies = ['10.1.2.3']"), [CheckState::Ok]);
        let tls = "trusted_proxies = ['10.1.2.3']\n[server.tls]\ncert = 'c'\nkey = 'k'";
        assert_eq!(states(tls), [CheckState::Ok, CheckState::Warning]);
    }

    #[test]
    fn the_url_of_a_server_that_others_reach_is_known_and_https() {
        let state = |text: &str| public_url(&server(text)).map(|check| check.state);
        assert_eq!(state(""), None);
        assert_eq!(state("trusted_proxies = ['10.1.2.3']"), Some(CheckState::Warning));
        assert_eq!(state("trusted_proxies = ['10.1.2.3']\npublic_url = 'http://a.example'"), Some(CheckState::Warning));
        assert_eq!(state("trusted_proxies = ['10.1.2.3']\npublic_url = 'https://a.example'"), Some(CheckState::Ok));
        assert_eq!(state("public_url = 'http://127.0.0.1:8080'"), Some(CheckState::Ok));
    }
}
