//! A connection: of a pool, or of a single owner.
//!
//! **Invariant:** a connection returns to its pool only after every response was received. If a caller stops waiting,
//! as when its client disconnects, the connection is closed: the next caller would wait for the old statement.
//!
//! **Invariant:** TLS to the database always verifies the certificate, including its name.

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

/// Maximum number of pending notifications; more are dropped.
const NOTIFICATIONS_MAX: usize = 1024;
/// Maximum number of prepared statements of one connection: more sort orders of searches exist than clients use.
const STATEMENTS_MAX: usize = 200;
/// Maximum number of concurrent cancel requests. Other statements end by their own timeout.
const CANCELLED_AT_ONCE: usize = 4;

/// Cancels statements that no caller waits for any more.
#[derive(Clone)]
pub(super) struct Canceller {
    tls: Option<MakeRustlsConnect>,
    limit: Duration,
    at_once: Arc<Semaphore>,
}

impl Canceller {
    /// Cancels over new connections, each of which may take that time at most.
    pub(super) fn new(tls: Option<MakeRustlsConnect>, limit: Duration) -> Self {
        Self { tls, limit, at_once: Arc::new(Semaphore::new(CANCELLED_AT_ONCE)) }
    }

    /// Cancels the statement of a connection, if possible, without waiting. Not for transactions whose outcome is
    /// resolved later: a cancelled commit that waits for a standby is visible to others before the standby has it.
    pub(super) fn cancel(&self, client: &Client) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let Ok(held) = Arc::clone(&self.at_once).try_acquire_owned() else { return };
        let (token, tls, limit) = (client.cancel_token(), self.tls.clone(), self.limit);
        runtime.spawn(async move {
            let requested = async {
                match tls {
                    Some(tls) => token.cancel_query(tls).await,
                    None => token.cancel_query(NoTls).await,
                }
            };
            // A statement that cannot be cancelled ends by its own timeout.
            let _is_asked = tokio::time::timeout(limit, requested).await;
            drop(held);
        });
    }
}

/// Work in flight on a connection of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Every response was received.
    Answered,
    /// One statement, outside a transaction.
    Statement,
    /// A transaction, or several statements.
    AtWork,
}

/// A connection of a pool. Returns to it when dropped, if no response is outstanding.
pub(super) struct Connection {
    /// `None` once it was closed.
    object: Option<Object>,
    answer_timeout: Duration,
    canceller: Canceller,
    stage: Stage,
}

impl Connection {
    pub(super) fn new(object: Object, answer_timeout: Duration, canceller: Canceller) -> Self {
        Self { object: Some(object), answer_timeout, canceller, stage: Stage::Answered }
    }

    /// Runs one statement.
    pub(super) async fn query(&mut self, statement: &str, values: Values<'_>) -> Result<Vec<Row>, Failure> {
        self.stage = Stage::Statement;
        let requested = async {
            let object = self.object()?;
            if object.statement_cache.size() >= STATEMENTS_MAX {
                object.statement_cache.clear();
            }
            let statement = object.prepare_cached(statement).await?;
            Ok(object.query(&statement, values).await?)
        };
        let answered = tokio::time::timeout(self.answer_timeout, requested).await;
        let answered = answered.unwrap_or_else(|_| Err(Failure::slow()));
        self.keep_unless(answered.as_ref().err());
        answered
    }

    /// The connection itself.
    pub(super) fn object(&self) -> Result<&Object, Failure> {
        self.object.as_ref().ok_or_else(gone)
    }

    /// The connection itself, for a transaction that always runs to its end: in a task that is never cancelled.
    pub(super) fn object_mut(&mut self) -> Result<&mut Object, Failure> {
        self.object.as_mut().ok_or_else(gone)
    }

    /// The connection itself, for a transaction that may be abandoned: then it is closed, unless [`Self::keep_unless`]
    /// was called with the outcome of the transaction.
    pub(super) fn at_work(&mut self) -> Result<&mut Object, Failure> {
        self.stage = Stage::AtWork;
        self.object_mut()
    }

    /// Every response was received; closes the connection if the failure means that it is unusable.
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
            Stage::Statement => {
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

/// A connection outside the pools.
pub(super) struct Link {
    pub(super) client: Client,
    /// Ends when the connection does.
    pub(super) notifications: mpsc::Receiver<Notification>,
    canceller: Canceller,
    task: JoinHandle<()>,
}

impl Link {
    /// Opens one.
    pub(super) async fn connect(config: &Config, canceller: Canceller) -> Result<Self, Failure> {
        match canceller.tls.clone() {
            Some(tls) => linked(config, tls, canceller).await,
            None => linked(config, NoTls, canceller).await,
        }
    }

    /// Cancels the statement of the connection; see [`Canceller::cancel`].
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
        // Ends when the connection does, or the client is dropped.
        while let Some(Ok(message)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notification) = message {
                // A connection that does not listen receives none; if the queue is full, its notifications are enough.
                let _is_heard = heard.try_send(notification);
            }
        }
    });
    Ok(Link { client, notifications, canceller, task })
}

/// Trusts the certificates of that file, or those of the system where there is none.
///
/// # Errors
/// A sentence on the fault in the certificates.
pub(super) fn tls_connector(ca_file: Option<&Path>) -> Result<MakeRustlsConnect, String> {
    let Some(path) = ca_file else {
        let system = rustls::crypto::CryptoProvider::get_default().is_some();
        if !system {
            // Another part of the process may have installed one before.
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
