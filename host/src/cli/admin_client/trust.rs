//! Whose word is taken for it that a distant server is the one that was meant.

use std::path::Path;
use std::sync::Arc;

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::cli::CliError;

/// Where systems keep the certificates of the authorities that they trust.
const SYSTEM_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Trusts the certificates in that file, or else those that this system trusts.
///
/// # Errors
/// When there is no such file, or no certificate in it.
pub fn trust(file: Option<&Path>) -> Result<TlsConfig, CliError> {
    let system = || SYSTEM_FILES.iter().map(Path::new).find(|file| file.is_file());
    let Some(file) = file.or_else(system) else {
        return Err(CliError::usage(
            "this system has no file of certificates that it trusts: name one with --admin-ca FILE",
        ));
    };
    let shown = file.display();
    let pem = std::fs::read(file).map_err(|error| CliError::cannot_read(file, &error))?;
    let certificates: Vec<Certificate<'static>> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            // The library may come to know other kinds of items.
            Ok(_) | Err(_) => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(CliError::input(format!("there is no certificate in `{shown}`; a PEM file is needed")));
    }
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&certificates))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}
