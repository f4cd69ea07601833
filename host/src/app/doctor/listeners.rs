//! Addresses: free, or held by the server itself; proxies and the URL for clients make sense together.

use std::net::{SocketAddr, TcpListener};

use super::Patient;
use daftar_domain::checkup::{Check, CheckArea};
use daftar_domain::config::ServerConfig;

const AREA: CheckArea = CheckArea::Listeners;

/// Looks at every address.
pub(super) fn examine(patient: &Patient) -> Vec<Check> {
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
            Check::ok(AREA, "address", format_args!("this server has {address} (`{key}`)"))
        } else {
            free(key, address)
        });
    }
    checks.extend(proxies(server));
    checks.extend(public_url(server));
    checks
}

/// Whether a server could listen there. It is listened for a moment, and nobody is taken in.
fn free(key: &str, address: SocketAddr) -> Check {
    match TcpListener::bind(address) {
        Ok(_) => Check::ok(AREA, "address", format_args!("{address} (`{key}`) is free")),
        Err(error) => {
            let message = format!("{address} (`{key}`) cannot be listened on: {error}");
            let remedy = format!(
                "stop what listens there (`ss -ltnp 'sport = :{}'` names it), or set another `{key}`",
                address.port()
            );
            Check::problem(AREA, "address", message, remedy)
        }
    }
}

fn proxies(server: &ServerConfig) -> Vec<Check> {
    let mut checks = Vec::new();
    if server.trusted_proxies.is_empty() {
        return checks;
    }
    // Networks that are most of the internet are refused with the settings.
    let count = server.trusted_proxies.len();
    checks.push(Check::ok(AREA, "proxies", format_args!("{count} proxies or networks of them are trusted")));
    if server.tls.is_some() && server.listen.ip().is_loopback() {
        let message =
            "proxies are trusted, and `server.listen` is on loopback with HTTPS: only proxies of this machine reach it";
        let remedy = "leave `[server.tls]` out where the proxy of this machine speaks HTTPS, or listen on an address that others reach";
        checks.push(Check::warning(AREA, "proxies_reach", message, remedy));
    }
    checks
}

fn public_url(server: &ServerConfig) -> Option<Check> {
    let is_for_others = !server.listen.ip().is_loopback() || !server.trusted_proxies.is_empty();
    match server.public_url.as_deref() {
        None if is_for_others => {
            let message = "others reach this server, and `server.public_url` is not set: what it tells clients has its own address in it";
            let remedy =
                "set `server.public_url` to the URL by which clients know it, such as `https://registry.example.org`";
            Some(Check::warning(AREA, "public_url", message, remedy))
        }
        None => None,
        Some(url) if is_for_others && url.starts_with("http://") => {
            let message = format!("`server.public_url` is {url}: clients would send their secrets without HTTPS");
            Some(Check::warning(AREA, "public_url", message, "begin it with `https://`"))
        }
        Some(url) => Some(Check::ok(AREA, "public_url", format_args!("clients know this server as {url}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::checkup::CheckState;
    use daftar_domain::config::Config;

    fn server(text: &str) -> ServerConfig {
        Config::parse(&format!("[server]\n{text}")).unwrap().server
    }

    #[test]
    fn an_address_that_somebody_has_is_a_problem_with_the_command_that_names_them() {
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
