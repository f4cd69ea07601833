//! The certificate of HTTPS: read from its files, reloaded when they change, monitored for its expiry.
//!
//! **Invariant:** an invalid certificate never replaces a valid one. Certificate and key are replaced together or not
//! at all, so the two files may be changed sequentially.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_rustls::TlsAcceptor;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::time::Time;

use super::connection::TlsAcceptors;
use crate::app::StartError;
use daftar_auth::secret_file::FileStamp;
use daftar_domain::config::TlsConfig;
use daftar_domain::context::Clock;
use daftar_domain::error::TaskEnded;
use daftar_http::transport::Transport;

/// Maximum size of a file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The protocols that the server offers inside TLS, in order of preference.
const PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];
/// The same for connections that are rejected.
const REFUSED_PROTOCOLS: &[&[u8]] = &[b"http/1.1"];
const SECONDS_OF_A_DAY: i64 = 86_400;

/// The active certificate and its source files.
pub(super) struct CertificateKeeper {
    config: TlsConfig,
    provider: Arc<CryptoProvider>,
    shown: Arc<Shown>,
    transport: Arc<Transport>,
    clock: Arc<dyn Clock>,
    /// State of the files before they were first read.
    first: Stamps,
}

/// The certificate that handshakes use.
#[derive(Debug)]
struct Shown(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

/// States of the certificate file and of the key file.
type Stamps = [Option<FileStamp>; 2];

impl CertificateKeeper {
    /// Reads the files.
    ///
    /// # Errors
    /// [`StartError::Certificate`] naming the files and the problem.
    pub(super) fn start(
        config: &TlsConfig,
        transport: Arc<Transport>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, StartError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let first = stamps(config);
        let (pair, expires) = read(config, &provider).map_err(StartError::Certificate)?;
        transport.certificate_taken(expires.as_second());
        let shown = Arc::new(Shown(ArcSwap::from_pointee(pair)));
        let keeper = Arc::new(Self { config: config.clone(), provider, shown, transport, clock, first });
        keeper.warn_of_expiry(expires);
        Ok(keeper)
    }

    /// Returns the acceptor of handshakes: TLS 1.2 and 1.3 only.
    ///
    /// # Errors
    /// [`StartError::Certificate`] if the cryptography provider does not support these versions.
    pub(super) fn acceptors(&self) -> Result<TlsAcceptors, StartError> {
        Ok(TlsAcceptors { served: self.acceptor(PROTOCOLS)?, refused: self.acceptor(REFUSED_PROTOCOLS)? })
    }

    fn acceptor(&self, protocols: &[&[u8]]) -> Result<TlsAcceptor, StartError> {
        let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&self.provider));
        let builder = builder
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(|error| StartError::Certificate(format!("TLS cannot be spoken: {error}")))?;
        let resolver: Arc<dyn ResolvesServerCert> = Arc::<Shown>::clone(&self.shown);
        let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Monitors the files for as long as the future is polled: checks them periodically and on request.
    pub(super) async fn keep_fresh(self: Arc<Self>, mut requested: Option<Signal>) {
        let mut ticks = tokio::time::interval(Duration::from_secs(self.config.check_every_s));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut last = Watch { taken: self.first, refused: None, warned_on: self.today() };
        loop {
            let is_requested = async {
                match &mut requested {
                    Some(requested) => requested.recv().await,
                    None => std::future::pending().await,
                }
            };
            let is_requested = tokio::select! {
                _ = is_requested => true,
                _ = ticks.tick() => false,
            };
            let keeper = Arc::clone(&self);
            match tokio::task::spawn_blocking(move || keeper.look(last, is_requested)).await {
                Ok(watch) => last = watch,
                Err(error) => {
                    let error = TaskEnded::from(error);
                    tracing::error!(error = %error, "the certificate is no longer checked for changes");
                    return;
                }
            }
        }
    }

    /// Checks the files once, and loads a changed certificate if it is valid.
    fn look(&self, last: Watch, is_requested: bool) -> Watch {
        let now = stamps(&self.config);
        let today = self.today();
        if now == last.taken && !is_requested {
            if last.refused.is_some() {
                self.transport.certificate_is_current();
            }
            if today != last.warned_on {
                self.warn_of_expiry(expiry_of(&self.shown.0.load()));
            }
            return Watch { refused: None, warned_on: today, ..last };
        }
        match read(&self.config, &self.provider) {
            Ok((pair, expires)) => {
                let is_other = self.shown.0.load().cert != pair.cert;
                self.shown.0.store(Arc::new(pair));
                self.transport.certificate_taken(expires.as_second());
                if is_other || is_requested {
                    tracing::info!(tls.expires = %expires, "the certificate was taken from its files");
                }
                self.warn_of_expiry(expires);
                // Files that changed during the read are checked again.
                Watch { taken: now, refused: None, warned_on: today }
            }
            Err(reason) => {
                self.transport.certificate_refused();
                // One log entry for each change, not for each check.
                if is_requested || last.refused != Some(now) {
                    tracing::error!(
                        error = %reason,
                        "the certificate in the files cannot be used, so the one before stays in use; it is tried again when a file changes and on SIGHUP"
                    );
                }
                if today != last.warned_on {
                    self.warn_of_expiry(expiry_of(&self.shown.0.load()));
                }
                Watch { refused: Some(now), warned_on: today, ..last }
            }
        }
    }

    fn warn_of_expiry(&self, expires: Timestamp) {
        let left_s = expires.as_second().saturating_sub(self.clock.now().as_second());
        let days = left_s.div_euclid(SECONDS_OF_A_DAY);
        if left_s <= 0 {
            tracing::error!(tls.expires = %expires, "the certificate has expired, and clients refuse it: renew it");
        } else if days < i64::try_from(self.config.expiry_warning_days).unwrap_or(i64::MAX) {
            tracing::warn!(tls.expires = %expires, tls.days_left = days, "the certificate expires soon: renew it");
        }
    }

    fn today(&self) -> i64 {
        self.clock.now().as_second().div_euclid(SECONDS_OF_A_DAY)
    }
}

/// Returns the signal by which an operator requests a reload of the files. Signals are received from this call on;
/// without a receiver the signal ends the process.
pub fn hangups() -> Option<Signal> {
    let heard = signal(SignalKind::hangup());
    heard
        .inspect_err(|error| {
            tracing::warn!(error = %error, "SIGHUP cannot be received; the certificate is still checked periodically");
        })
        .ok()
}

/// State of the last check.
#[derive(Debug, Clone, Copy)]
struct Watch {
    /// State of the files of the active certificate.
    taken: Stamps,
    /// State of files that could not be used.
    refused: Option<Stamps>,
    /// The day on which the expiry of the certificate was last checked, in days since 1970.
    warned_on: i64,
}

fn stamps(config: &TlsConfig) -> Stamps {
    [&config.cert, &config.key].map(|path| FileStamp::of(path))
}

/// Contents of the files of a valid certificate.
pub(in crate::app) struct Seen {
    /// The certificate itself, without the issuing certificates.
    pub leaf: CertificateDer<'static>,
    /// Start of its validity.
    pub begins: Timestamp,
    /// End of its validity.
    pub expires: Timestamp,
}

/// Reads the files like a server start, for a check.
///
/// # Errors
/// The files that cannot be used, and the reason.
pub(in crate::app) fn inspect(config: &TlsConfig) -> Result<Seen, String> {
    let (pair, expires) = read(config, &rustls::crypto::ring::default_provider())?;
    let leaf = pair.end_entity_cert().map_err(|error| error.to_string())?.clone().into_owned();
    let begins = validity(&leaf).map_or(Timestamp::MIN, |(begins, _)| begins);
    Ok(Seen { leaf, begins, expires })
}

/// Reads both files, and checks that the key belongs to the certificate.
fn read(config: &TlsConfig, provider: &CryptoProvider) -> Result<(CertifiedKey, Timestamp), String> {
    let reported = |reason: String| {
        let (cert, key) = (config.cert.display(), config.key.display());
        format!("the certificate `{cert}` with the key `{key}` cannot be used: {reason}")
    };
    let pem = bytes(&config.cert).map_err(reported)?;
    let chain: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let chain = chain.map_err(|error| reported(format!("the certificate file is no PEM: {error}")))?;
    if chain.is_empty() {
        return Err(reported(
            "there is no certificate in the certificate file, which begins with `-----BEGIN CERTIFICATE-----`"
                .to_owned(),
        ));
    }
    let pem = bytes(&config.key).map_err(reported)?;
    let key = PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|error| reported(format!("there is no private key in the key file: {error}")))?;
    let pair = CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            reported("the key is not the certificate's: were both files renewed?".to_owned())
        }
        other => reported(other.to_string()),
    })?;
    let expires = pair.end_entity_cert().ok().and_then(|leaf| expiry(leaf));
    let expires = expires.ok_or_else(|| reported("the certificate does not say until when it holds".to_owned()))?;
    Ok((pair, expires))
}

fn expiry_of(pair: &CertifiedKey) -> Timestamp {
    // The timestamp was already parsed when the certificate was loaded.
    pair.end_entity_cert().ok().and_then(|leaf| expiry(leaf)).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let fault = |error: std::io::Error| format!("`{}`: {error}", path.display());
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)).map_err(fault)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("`{}` has more than {FILE_BYTES_MAX} bytes", path.display()));
    }
    Ok(bytes)
}

/// Returns the expiry of a certificate; `None` if the bytes are no certificate. The TLS peer validates its other
/// fields.
pub(super) fn expiry(certificate: &[u8]) -> Option<Timestamp> {
    validity(certificate).map(|(_, end)| end)
}

/// Returns start and end of the validity of a certificate; `None` if the bytes are no certificate.
pub(super) fn validity(certificate: &[u8]) -> Option<(Timestamp, Timestamp)> {
    let validity = Certificate::from_der(certificate).ok()?.tbs_certificate.validity;
    Some((timestamp(validity.not_before), timestamp(validity.not_after)))
}

fn timestamp(time: Time) -> Timestamp {
    let second = i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
    // The last second of 9999 means that there is no expiry. It is later than the maximum timestamp.
    Timestamp::from_second(second).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod expiry_tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// Creates a certificate that is valid from 2026-01-02 until the last second of a day.
    fn certificate(year: i32, month: u8, day: u8) -> Vec<u8> {
        let pair = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(2026, 1, 2);
        parameters.not_after = rcgen::date_time_ymd(year, month, day) + Duration::from_secs(86_399);
        parameters.self_signed(&pair).unwrap().der().to_vec()
    }

    #[test]
    fn reads_both_forms_of_time() {
        let end = |year, month, day| expiry(&certificate(year, month, day)).map(|at| at.to_string());
        assert_eq!(end(2026, 3, 1).as_deref(), Some("2026-03-01T23:59:59Z"));
        assert_eq!(end(2049, 12, 31).as_deref(), Some("2049-12-31T23:59:59Z"), "the last of two digits");
        assert_eq!(end(2050, 1, 1).as_deref(), Some("2050-01-01T23:59:59Z"), "the first of four");
        assert_eq!(end(9999, 12, 31).as_deref(), Some(Timestamp::MAX.to_string().as_str()), "no end");
    }

    #[test]
    fn a_time_that_is_none_is_no_validity() {
        let sound = certificate(2031, 7, 9);
        let begin = b"\x17\x0d260102000000Z";
        let at = sound.windows(begin.len()).position(|part| part == begin).unwrap();
        let with = |time: &[u8; 15]| {
            let mut certificate = sound.clone();
            certificate[at..at + time.len()].copy_from_slice(time);
            validity(&certificate).map(|(begin, _)| begin.to_string())
        };
        assert_eq!(with(begin).as_deref(), Some("2026-01-02T00:00:00Z"));
        assert_eq!(with(b"\x17\x0d700101000001Z").as_deref(), Some("1970-01-01T00:00:01Z"), "the last century");
        for wrong in [
            b"\x17\x0d261302000000Z",
            b"\x17\x0d260230000000Z",
            b"\x17\x0d260102240000Z",
            b"\x17\x0d+60102000000Z",
            b"\x17\x0d26010200000\xd9\xa1",
            b"\x17\x0d2601020000000",
            b"\x18\x0d260102000000Z",
            b"\x04\x0d260102000000Z",
        ] {
            assert_eq!(with(wrong), None, "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn finds_the_end_of_validity_in_a_certificate() {
        let certificate = certificate(2031, 7, 9);
        assert_eq!(expiry(&certificate).map(|at| at.to_string()).as_deref(), Some("2031-07-09T23:59:59Z"));
        assert_eq!(validity(&certificate).unwrap().0.to_string(), "2026-01-02T00:00:00Z");
        for length in 0..certificate.len() {
            assert_eq!(expiry(&certificate[..length]), None, "a certificate that was cut");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_fail(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _expiry = expiry(&bytes);
            let _expiry = expiry(&[&[0x30, 0x82, 0x01, 0x00, 0x30, 0x81, 0xc0], bytes.as_slice()].concat());
        }
    }
}
