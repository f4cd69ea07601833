//! TLS to the database: always with a certificate that is checked, name and all.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Trusts the certificates of that file, or those of the system where there is none.
///
/// # Errors
/// What is wrong with them, as a sentence.
pub(super) fn connector(ca_file: Option<&Path>) -> Result<MakeRustlsConnect, String> {
    let Some(path) = ca_file else {
        let system = rustls::crypto::CryptoProvider::get_default().is_some();
        if !system {
            // Another part of the process may have been quicker: then there is one.
            let _is_first = rustls::crypto::ring::default_provider().install_default();
        }
        return match MakeRustlsConnect::with_native_certs() {
            Ok((connector, _)) => Ok(connector),
            Err(_) => Err("the system has no certificates of authorities: name a file of them".to_owned()),
        };
    };
    let shown = path.display();
    let mut roots = RootCertStore::empty();
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|error| format!("`{shown}` cannot be read: {error}"))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| format!("`{shown}` is no PEM file of certificates: {error}"))?;
        roots.add(certificate).map_err(|error| format!("a certificate of `{shown}` cannot be used: {error}"))?;
    }
    if roots.is_empty() {
        return Err(format!("`{shown}` holds no certificate"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
