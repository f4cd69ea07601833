//! Proxy between a store and its database, which breaks connections where a test wants it.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Fate of the next `COMMIT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Commit {
    /// It passes.
    Passes = 0,
    /// It reaches the database, but its response is lost: the connection breaks.
    LosesItsAnswer = 1,
    /// The connection breaks before it reaches the database.
    IsLost = 2,
}

struct State {
    next_commit: AtomicU8,
    /// True if the proxy disconnects everything after the next commit.
    cuts_then: AtomicBool,
    is_cut: watch::Sender<bool>,
    broken: AtomicUsize,
}

/// The proxy.
pub(super) struct Proxy {
    port: u16,
    state: Arc<State>,
}

impl Proxy {
    /// In front of that port on this machine.
    pub(super) async fn start(to: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            next_commit: AtomicU8::new(Commit::Passes as u8),
            cuts_then: AtomicBool::new(false),
            is_cut: watch::channel(false).0,
            broken: AtomicUsize::new(0),
        });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if !*shared.is_cut.borrow() {
                    tokio::spawn(passed(client, to, Arc::clone(&shared)));
                }
            }
        });
        Self { port, state }
    }

    /// The URL of a database through the proxy.
    pub(super) fn url(&self, database_url: &str) -> String {
        let (front, database) = database_url.rsplit_once('/').unwrap();
        let (front, _) = front.rsplit_once(':').unwrap();
        format!("{front}:{}/{database}", self.port)
    }

    /// Sets the fate of the next `COMMIT`, and whether everything is disconnected afterwards.
    pub(super) fn next_commit(&self, commit: Commit, cuts_then: bool) {
        self.state.cuts_then.store(cuts_then, Ordering::SeqCst);
        self.state.next_commit.store(commit as u8, Ordering::SeqCst);
    }

    /// Breaks every connection, and accepts no more; or accepts them again.
    pub(super) fn cut(&self, is_cut: bool) {
        self.state.is_cut.send_replace(is_cut);
    }

    /// Number of broken commits.
    pub(super) fn broken(&self) -> usize {
        self.state.broken.load(Ordering::SeqCst)
    }
}

async fn cut(is_cut: &mut watch::Receiver<bool>) {
    // The proxy outlives its connections.
    let _is_cut = is_cut.wait_for(|is_cut| *is_cut).await;
}

async fn passed(mut client: TcpStream, to: u16, state: Arc<State>) {
    let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).await else { return };
    let (mut requested, mut answered) = (vec![0; 65_536], vec![0; 65_536]);
    let mut is_cut = state.is_cut.subscribe();
    loop {
        tokio::select! {
            () = cut(&mut is_cut) => return,
            read = client.read(&mut requested) => {
                let Ok(length @ 1..) = read else { return };
                let message = &requested[..length];
                let is_commit = message.windows(7).any(|window| window == b"COMMIT\0");
                let fate = if is_commit { state.next_commit.swap(Commit::Passes as u8, Ordering::SeqCst) } else { 0 };
                if fate != Commit::Passes as u8 {
                    if fate == Commit::LosesItsAnswer as u8 {
                        server.write_all(message).await.unwrap();
                        // The database has committed when it responds.
                        let _answer = server.read(&mut answered).await;
                    }
                    state.broken.fetch_add(1, Ordering::SeqCst);
                    if state.cuts_then.load(Ordering::SeqCst) {
                        state.is_cut.send_replace(true);
                    }
                    return;
                }
                if server.write_all(message).await.is_err() { return }
            }
            read = server.read(&mut answered) => {
                let Ok(length @ 1..) = read else { return };
                if client.write_all(&answered[..length]).await.is_err() { return }
            }
        }
    }
}
