//! The certificate of HTTPS: readable, with its key, in force, for the name by which clients know the server.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustls::client::verify_server_name;
use rustls::pki_types::ServerName;
use rustls::server::ParsedCertificate;

use super::{Patient, age};
use crate::app::serve::certificate::look_at;
use daftar_domain::checkup::{Check, CheckArea};
use daftar_domain::config::TlsConfig;

const AREA: CheckArea = CheckArea::Certificate;
const SECONDS_OF_A_DAY: i64 = 86_400;

/// Looks at the files of `[server.tls]`.
pub(super) fn examine(patient: &Patient) -> Vec<Check> {
    let Some(tls) = &patient.config.server.tls else { return Vec::new() };
    let mut checks = Vec::new();
    match look_at(tls) {
        Err(reason) => {
            let remedy = format!(
                "let `[server.tls]` name a certificate and its key, both PEM: `openssl x509 -in {} -noout -subject -dates` shows what is there",
                tls.cert.display()
            );
            checks.push(Check::problem(AREA, "usable", reason, remedy));
        }
        Ok(seen) => {
            let shown = Patient::shown(&tls.cert);
            checks.push(Check::ok(AREA, "usable", format_args!("{shown} and its key belong together")));
            checks.push(in_force(patient, tls, &seen));
            checks.extend(name(patient, tls, &seen));
        }
    }
    checks.extend(key_mode(tls));
    checks
}

fn in_force(patient: &Patient, tls: &TlsConfig, seen: &crate::app::serve::certificate::Seen) -> Check {
    let shown = Patient::shown(&tls.cert);
    let renew =
        "renew it and put it into the same files: a running server takes it within `check_every_s`, or on SIGHUP";
    let (now, begins, ends) = (patient.now, seen.begins, seen.expires);
    if now < begins {
        let message = format!("{shown} holds from {begins} on, and it is {now}");
        return Check::problem(
            AREA,
            "validity",
            message,
            "set the machine's clock, or get a certificate that holds now",
        );
    }
    if ends <= now {
        let message = format!("{shown} expired {}, and clients refuse it", age(now, ends));
        return Check::problem(AREA, "validity", message, renew);
    }
    let days = ends.duration_since(now).as_secs().div_euclid(SECONDS_OF_A_DAY);
    if days < i64::try_from(tls.expiry_warning_days).unwrap_or(i64::MAX) {
        return Check::warning(AREA, "validity", format_args!("{shown} expires in {days} days, on {ends}"), renew);
    }
    Check::ok(AREA, "validity", format_args!("{shown} holds for {days} days more, until {ends}"))
}

/// Whether clients that go by `public_url` accept it.
fn name(patient: &Patient, tls: &TlsConfig, seen: &crate::app::serve::certificate::Seen) -> Option<Check> {
    let url = patient.config.server.public_url.as_deref()?;
    let host = host_of(url)?;
    let shown = Patient::shown(&tls.cert);
    let is_named = ServerName::try_from(host).is_ok_and(|name| {
        ParsedCertificate::try_from(&seen.leaf).is_ok_and(|leaf| verify_server_name(&leaf, &name).is_ok())
    });
    if is_named {
        return Some(Check::ok(AREA, "name", format_args!("{shown} is for `{host}`, the host of `public_url`")));
    }
    let message = format!(
        "{shown} is not for `{host}`, the host of `server.public_url`: clients that go by it refuse the server"
    );
    let remedy = "get a certificate whose subject alternative names have that host, or set `server.public_url` to the one that it is for";
    Some(Check::problem(AREA, "name", message, remedy))
}

/// The host of a URL without a path, without its port and brackets.
fn host_of(url: &str) -> Option<&str> {
    let (_, authority) = url.split_once("://")?;
    match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(host, _)| host),
        None => Some(authority.rsplit_once(':').map_or(authority, |(host, _)| host)),
    }
}

fn key_mode(tls: &TlsConfig) -> Option<Check> {
    let mode = fs::metadata(&tls.key).ok()?.permissions().mode() & 0o777;
    // Groups of accounts that may read certificates' keys are common; everybody is too many.
    (mode & 0o007 != 0).then(|| {
        let message = format!("every account may read the private key {} (mode {mode:03o})", Patient::shown(&tls.key));
        Check::warning(AREA, "key_mode", message, format_args!("`chmod 600 {}`", tls.key.display()))
    })
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
