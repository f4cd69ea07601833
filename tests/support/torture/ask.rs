//! Asking a server that may be killed at any moment.

use std::path::Path;

use serde_json::Value;

use crate::support::http::{Connection, Response};
use crate::support::process::Server;

/// A way to a server, to its API and to its administrator's.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    token: String,
    ways: Option<(Connection, Connection, String)>,
}

impl Ask {
    pub(super) fn new(token: String) -> Self {
        Self { token, ways: None }
    }

    /// The same to that server.
    pub(super) fn at(&self, server: &Server, data_dir: &Path) -> Self {
        let read = |name: &str| std::fs::read_to_string(data_dir.join(name)).expect("a running server leaves it");
        let running: Value = serde_json::from_str(&read("server.json")).expect("JSON");
        let port = running["admin_url"].as_str().and_then(|url| url.rsplit(':').next()?.parse().ok());
        let admin =
            Connection::to_operator(std::sync::Arc::new(port.map(std::sync::atomic::AtomicU16::new).expect("a port")));
        let token = read("admin.token").trim().to_owned();
        Self { token: self.token.clone(), ways: Some((server.connection(), admin, token)) }
    }

    /// Asks the API; none where no whole answer came.
    pub(super) fn api(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Option<Response> {
        let (connection, _, _) = self.ways.as_ref()?;
        let target = format!("{}{path}", daftar::api::endpoint::BASE_PATH);
        let request = connection.request(method, &target).bearer(&self.token);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
        let request = body.into_iter().fold(request, |request, body| request.json(body));
        request.try_send()
    }

    /// Asks the administrator's API.
    pub(super) fn admin(&self, method: &str, path: &str, body: Option<&Value>) -> Option<Response> {
        let (_, connection, token) = self.ways.as_ref()?;
        let target = format!("{}{path}", daftar::admin::router::BASE_PATH);
        let request = connection.request(method, &target).bearer(token);
        let request = body.into_iter().fold(request, |request, body| request.json(body));
        request.try_send()
    }
}
