//! The register that all clients call: the server's own program, started by the first test and stopped after the last.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use daftar_tests::{Credentials, Server, process};
use tempfile::TempDir;

/// The scopes of a client; none of them for groups.
const SCOPES: [&str; 2] = ["individual:read", "individual:create"];

/// A running server and its folder.
pub(super) struct Register {
    server: Server,
    data_dir: PathBuf,
    _folder: TempDir,
}

impl Register {
    /// The one that runs, or a new one.
    pub(super) fn running() -> Arc<Self> {
        static RUNNING: Mutex<Weak<Register>> = Mutex::new(Weak::new());
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.upgrade().unwrap_or_else(|| {
            let register = Arc::new(Self::start());
            *running = Arc::downgrade(&register);
            register
        })
    }

    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = folder.path().join("data");
        let server = Server::serve(&data_dir, &[]);
        Self { server, data_dir, _folder: folder }
    }

    /// Its address, without a path.
    pub(super) fn url(&self) -> &str {
        &self.server.url
    }

    /// A new client with the limits of all.
    pub(super) fn client(&self, name: &str) -> Credentials {
        let mut arguments = vec!["client", "create", "--name", name, "--json"];
        arguments.extend(SCOPES.iter().flat_map(|scope| ["--scope", scope]));
        Credentials::read(&process::run(&self.data_dir, &arguments).expect_success().json())
    }

    /// Changes a client during its calls: `disable`, `enable`, or `revoke`, after which it requires another token.
    pub(super) fn change(&self, client: &Credentials, what: &str) {
        let commands: &[&str] = match what {
            "revoke" => &["disable", "enable"],
            "disable" => &["disable"],
            "enable" => &["enable"],
            other => panic!("unknown change `{other}` of a client"),
        };
        for command in commands {
            drop(process::run(&self.data_dir, &["client", command, &client.id]).expect_success());
        }
    }
}
