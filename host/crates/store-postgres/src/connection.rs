//! One connection: of a pool, or somebody's own.
//!
//! **Invariant:** a connection goes back into its pool only when everything that was asked on it is answered. Whoever stops waiting, as a
//! request does whose client has left, takes the connection with him: else the next one would wait behind the old statement.
//!
//! **Invariant:** TLS to the database is always with a certificate that is checked, name and all.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Object;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Notification, Row, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::database::Values;
use super::failure::{Failure, Meaning};

/// How many notifications wait to be heard; of more only that there were some.
const NOTIFICATIONS_MAX: usize = 1024;
/// The most prepared statements of one connection: there are more orders of searches than anybody asks for.
const STATEMENTS_MAX: usize = 200;
/// How many statements are cancelled at once. Those beyond end by the bound that every statement has.
const CANCELLED_AT_ONCE: usize = 4;

/// Has the database leave what nobody waits for any more.
#[derive(Clone)]
pub(super) struct Canceller {
    tls: Option<MakeRustlsConnect>,
    limit: Duration,
    at_once: Arc<Semaphore>,
}

impl Canceller {
    /// Asks by connections of its own, each of which takes so long at most.
    pub(super) fn new(tls: Option<MakeRustlsConnect>, limit: Duration) -> Self {
        Self { tls, limit, at_once: Arc::new(Semaphore::new(CANCELLED_AT_ONCE)) }
    }

    /// Cancels what is done on a connection, if it can; nobody waits for it. Not for transactions that somebody will ask after: a commit that
    /// is cancelled while it waits for a standby is seen by others before that has it.
    pub(super) fn cancel(&self, client: &Client) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let Ok(held) = Arc::clone(&self.at_once).try_acquire_owned() else { return };
        let (token, tls, limit) = (client.cancel_token(), self.tls.clone(), self.limit);
        runtime.spawn(async move {
            let asked = async {
                match tls {
                    Some(tls) => token.cancel_query(tls).await,
                    None => token.cancel_query(NoTls).await,
                }
            };
            // Where it cannot be cancelled it ends by its own bound.
            let _is_asked = tokio::time::timeout(limit, asked).await;
            drop(held);
        });
    }
}

/// What continues on a connection of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Everything was answered.
    Answered,
    /// One statement, which stands for itself.
    Asked,
    /// A transaction, or several statements.
    AtWork,
}

/// A connection of a pool. Goes back into it, unless what happened on it says otherwise.
pub(super) struct Connection {
    /// Absent once it was closed.
    object: Option<Object>,
    answer_timeout: Duration,
    canceller: Canceller,
    stage: Stage,
}

impl Connection {
    pub(super) fn new(object: Object, answer_timeout: Duration, canceller: Canceller) -> Self {
        Self { object: Some(object), answer_timeout, canceller, stage: Stage::Answered }
    }

    /// Asks one thing.
    pub(super) async fn query(&mut self, statement: &str, values: Values<'_>) -> Result<Vec<Row>, Failure> {
        self.stage = Stage::Asked;
        let asked = async {
            let object = self.object()?;
            if object.statement_cache.size() >= STATEMENTS_MAX {
                object.statement_cache.clear();
            }
            let statement = object.prepare_cached(statement).await?;
            Ok(object.query(&statement, values).await?)
        };
        let answered = tokio::time::timeout(self.answer_timeout, asked).await;
        let answered = answered.unwrap_or_else(|_| Err(Failure::slow()));
        self.keep_unless(answered.as_ref().err());
        answered
    }

    /// The connection itself.
    pub(super) fn object(&self) -> Result<&Object, Failure> {
        self.object.as_ref().ok_or_else(gone)
    }

    /// The connection itself, for a transaction that is brought to its end whatever happens: by a task that waits for nobody.
    pub(super) fn object_mut(&mut self) -> Result<&mut Object, Failure> {
        self.object.as_mut().ok_or_else(gone)
    }

    /// The connection itself, for a transaction that may be left in the middle: it is closed then, unless it was told by
    /// [`Self::keep_unless`] how the transaction ended.
    pub(super) fn at_work(&mut self) -> Result<&mut Object, Failure> {
        self.stage = Stage::AtWork;
        self.object_mut()
    }

    /// Everything was answered; closes the connection where the failure says that it is of no more use.
    pub(super) fn keep_unless(&mut self, failure: Option<&Failure>) {
        self.stage = Stage::Answered;
        if failure.is_some_and(Failure::is_of_connection) {
            self.close();
        }
    }

    fn close(&mut self) {
        drop(self.object.take().map(Object::take));
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        match self.stage {
            Stage::Answered => return,
            Stage::Asked => {
                if let Some(object) = &self.object {
                    self.canceller.cancel(object);
                }
            }
            Stage::AtWork => {}
        }
        self.close();
    }
}

fn gone() -> Failure {
    Failure::new(Meaning::Unreachable, "the connection is closed")
}

/// A connection of its own.
pub(super) struct Link {
    pub(super) client: Client,
    /// Ends when the connection does.
    pub(super) notifications: mpsc::Receiver<Notification>,
    canceller: Canceller,
    task: JoinHandle<()>,
}

impl Link {
    /// Makes one.
    pub(super) async fn connect(config: &Config, canceller: Canceller) -> Result<Self, Failure> {
        match canceller.tls.clone() {
            Some(tls) => linked(config, tls, canceller).await,
            None => linked(config, NoTls, canceller).await,
        }
    }

    /// Has the database leave what is done on the connection; see [`Canceller::cancel`].
    pub(super) fn cancel(&self) {
        self.canceller.cancel(&self.client);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn linked<T>(config: &Config, tls: T, canceller: Canceller) -> Result<Link, Failure>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, mut connection) = config.connect(tls).await?;
    let (heard, notifications) = mpsc::channel(NOTIFICATIONS_MAX);
    let task = tokio::spawn(async move {
        // Ends when the connection does, or the client goes.
        while let Some(Ok(message)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notification) = message {
                // Whoever does not listen needs none; where too many wait, those that wait tell enough.
                let _is_heard = heard.try_send(notification);
            }
        }
    });
    Ok(Link { client, notifications, canceller, task })
}

/// Trusts the certificates of that file, or those of the system where there is none.
///
/// # Errors
/// What is wrong with them, as a sentence.
pub(super) fn tls_connector(ca_file: Option<&Path>) -> Result<MakeRustlsConnect, String> {
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
