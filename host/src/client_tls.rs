//! Certificates that the program trusts as a client of an administered server or a collector.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Paths of the CA certificates on supported systems.
const SYSTEM_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Reason why no certificates are trusted.
#[derive(Debug)]
pub(crate) enum TrustError {
    /// No file was specified, and the system has none.
    NoFile,
    /// The file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// The file contains no certificate.
    NoCertificate(PathBuf),
}

/// Trusts the certificates in the file, or else those of the system.
///
/// # Errors
/// When the file does not exist or contains no certificate.
pub(crate) fn trust(file: Option<&Path>) -> Result<TlsConfig, TrustError> {
    let system = || SYSTEM_FILES.iter().map(Path::new).find(|file| file.is_file());
    let file = file.or_else(system).ok_or(TrustError::NoFile)?;
    let pem = std::fs::read(file).map_err(|error| TrustError::Unreadable(file.to_owned(), error))?;
    let certificates: Vec<Certificate<'static>> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            // Future versions of the library may return other kinds of items.
            Ok(_) | Err(_) => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(TrustError::NoCertificate(file.to_owned()));
    }
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&certificates))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}
