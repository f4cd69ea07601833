//! Changes of the certificate files, in every order, and the certificate that is active in the meantime.

use std::fs;

use super::*;
use daftar_domain::config::ConnectionsConfig;
use daftar_domain::context::FakeClock;

/// A folder with a certificate, its keeper, and the clock.
struct Files {
    folder: tempfile::TempDir,
    keeper: Arc<CertificateKeeper>,
    watch: Watch,
    clock: FakeClock,
}

/// Creates a certificate that is valid until the first day of that month of 2026, and its key.
fn made(month: u8) -> (String, String) {
    let pair = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    parameters.not_after = rcgen::date_time_ymd(2026, month, 1);
    (parameters.self_signed(&pair).unwrap().pem(), pair.serialize_pem())
}

fn start(folder: &Path, clock: &FakeClock) -> Result<Arc<CertificateKeeper>, StartError> {
    let config = TlsConfig {
        cert: folder.join("cert.pem"),
        key: folder.join("key.pem"),
        handshake_timeout_ms: 1_000,
        check_every_s: 1,
        expiry_warning_days: 30,
    };
    let transport = Arc::new(Transport::new(&ConnectionsConfig::default()));
    CertificateKeeper::start(&config, transport, Arc::new(clock.clone()))
}

impl Files {
    fn new(month: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (cert, key) = made(month);
        fs::write(folder.path().join("cert.pem"), cert).unwrap();
        fs::write(folder.path().join("key.pem"), key).unwrap();
        let clock = FakeClock::new("2026-01-10T12:00:00Z".parse().unwrap());
        let keeper = start(folder.path(), &clock).unwrap();
        let watch = Watch { taken: keeper.first, refused: None, warned_on: keeper.today() };
        Self { folder, keeper, watch, clock }
    }

    /// Replaces a file atomically, like tools that renew certificates.
    fn replace(&self, name: &str, text: &str) {
        let new = self.folder.path().join("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.folder.path().join(name)).unwrap();
    }

    /// Checks once; returns the expiry of the active certificate, and true if the files contain another one.
    fn look(&mut self) -> (String, bool) {
        self.watch = self.keeper.look(self.watch, false);
        let usage = self.keeper.transport.usage();
        let expires = expiry_of(&self.keeper.shown.0.load());
        assert_eq!(usage.certificate_expires_s, Some(expires.as_second()));
        (expires.to_string(), usage.certificate_is_stale)
    }
}

const BEFORE: &str = "2026-06-01T00:00:00Z";
const AFTER: &str = "2026-12-01T00:00:00Z";

#[test]
fn files_that_change_sequentially_are_loaded_together() {
    let (cert, key) = made(12);
    for order in [[("cert.pem", &cert), ("key.pem", &key)], [("key.pem", &key), ("cert.pem", &cert)]] {
        let mut files = Files::new(6);
        assert_eq!(files.look(), (BEFORE.to_owned(), false));
        let [(first, text), (second, other)] = order;
        files.replace(first, text);
        assert_eq!(files.look(), (BEFORE.to_owned(), true), "{first} alone is of no use");
        assert_eq!(files.look(), (BEFORE.to_owned(), true));
        files.replace(second, other);
        assert_eq!(files.look(), (AFTER.to_owned(), false));
        assert_eq!(files.keeper.transport.usage().certificates_taken, 2);
        assert_eq!(files.look(), (AFTER.to_owned(), false));
        assert_eq!(files.keeper.transport.usage().certificates_taken, 2, "what has not changed is not read");
    }
}

#[test]
fn an_unusable_certificate_leaves_the_current_one_in_use() {
    let mut files = Files::new(6);
    let (cert, key) = (fs::read_to_string(files.folder.path().join("cert.pem")).unwrap(), made(12).1);
    for broken in ["", "nonsense", key.as_str(), &cert[..cert.len() / 2]] {
        files.replace("cert.pem", broken);
        assert_eq!(files.look(), (BEFORE.to_owned(), true), "{broken}");
    }
    fs::remove_file(files.folder.path().join("cert.pem")).unwrap();
    assert_eq!(files.look(), (BEFORE.to_owned(), true));
    files.replace("cert.pem", &cert);
    assert_eq!(files.look(), (BEFORE.to_owned(), false), "the old file is put back");
}

#[test]
fn links_that_lead_elsewhere_are_a_change() {
    let mut files = Files::new(6);
    for (number, month) in [(1, 7), (2, 12)] {
        let folder = files.folder.path().join(number.to_string());
        fs::create_dir(&folder).unwrap();
        let (cert, key) = made(month);
        for (name, text) in [("cert.pem", cert), ("key.pem", key)] {
            fs::write(folder.join(name), text).unwrap();
            let (link, place) = (files.folder.path().join("link"), files.folder.path().join(name));
            std::os::unix::fs::symlink(folder.join(name), &link).unwrap();
            fs::rename(link, place).unwrap();
        }
        assert_eq!(files.look(), (format!("2026-{month:02}-01T00:00:00Z"), false));
    }
}

#[test]
fn the_reason_names_the_files_and_the_fault() {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeClock::new("2026-01-10T12:00:00Z".parse().unwrap());
    let ((cert, key), (_, other)) = (made(6), made(6));
    let reported = |cert: &str, key: &str| {
        fs::write(folder.path().join("cert.pem"), cert).unwrap();
        fs::write(folder.path().join("key.pem"), key).unwrap();
        start(folder.path(), &clock).err().unwrap().to_string()
    };
    let long = "x".repeat((1 << 20) + 1);
    let (cert, key, other) = (cert.as_str(), key.as_str(), other.as_str());
    for (cert, key, what) in [
        (cert, other, "the key is not the certificate's"),
        (key, key, "there is no certificate in the certificate file"),
        (cert, cert, "there is no private key in the key file"),
        ("", key, "there is no certificate"),
        (long.as_str(), key, "more than 1048576 bytes"),
    ] {
        let reported = reported(cert, key);
        assert!(reported.contains(what) && reported.contains("cert.pem` with the key `"), "{reported}");
        assert!(!reported.contains("-----BEGIN PRIVATE"), "{reported}");
    }
}

#[test]
fn a_day_is_checked_while_the_files_are_unusable() {
    let mut files = Files::new(6);
    files.replace("cert.pem", "nonsense");
    drop(files.look());
    let first = files.watch.warned_on;
    files.clock.set("2026-05-21T00:00:00Z".parse().unwrap());
    assert_eq!(files.look(), (BEFORE.to_owned(), true));
    assert!(files.watch.warned_on > first, "the day of the last warning is stored");
    assert_eq!(files.watch.warned_on, files.keeper.today());
}

#[test]
fn a_day_is_checked_once() {
    let mut files = Files::new(6);
    files.clock.set("2026-05-20T12:00:00Z".parse().unwrap());
    drop(files.look());
    let first = files.watch.warned_on;
    files.clock.set("2026-05-21T00:00:00Z".parse().unwrap());
    drop(files.look());
    assert_eq!(files.watch.warned_on, first + 1);
}
