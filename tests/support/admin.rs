//! The administrator of a server under test.

use serde_json::{Value, json};

use super::client::Credentials;
use super::http::{Connection, Request, Response};

/// A client of the admin API with the admin token.
#[derive(Debug, Clone)]
pub struct Admin {
    connection: Connection,
    token: String,
}

impl Admin {
    /// On that listener with that token.
    #[must_use]
    pub fn new(connection: Connection, token: String) -> Self {
        Self { connection, token }
    }

    /// The admin token.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// A request below the admin API's path.
    #[must_use]
    pub fn request(&self, method: &str, path: &str) -> Request {
        let path = format!("{}{path}", daftar::admin::router::BASE_PATH);
        self.connection.request(method, &path).bearer(&self.token)
    }

    /// The metrics page.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.connection.request("GET", "/metrics").bearer(&self.token).send().expect(200).text()
    }

    /// Reads something.
    #[must_use]
    pub fn get(&self, path: &str) -> Response {
        self.request("GET", path).send()
    }

    /// Registers a client with this body.
    #[must_use]
    pub fn create_client(&self, body: &Value) -> Credentials {
        Credentials::read(&self.request("POST", "/clients").json(body).send().expect(201).json())
    }

    /// Disables a client.
    pub fn disable(&self, client_id: &str) {
        drop(self.request("POST", &format!("/clients/{client_id}/disable")).send().expect(200));
    }

    /// Enables a client again.
    pub fn enable(&self, client_id: &str) {
        drop(self.request("POST", &format!("/clients/{client_id}/enable")).send().expect(200));
    }

    /// Grants a scope.
    pub fn grant(&self, client_id: &str, scope: &str) {
        let request = self.request("POST", &format!("/clients/{client_id}/grants"));
        drop(request.json(&json!({"scope": scope})).send().expect(200));
    }

    /// Grants a scope on these fields only.
    pub fn grant_fields(&self, client_id: &str, scope: &str, fields: &[&str]) {
        let request = self.request("POST", &format!("/clients/{client_id}/grants"));
        drop(request.json(&json!({"scope": scope, "fields": fields})).send().expect(200));
    }

    /// Revokes a scope.
    pub fn revoke(&self, client_id: &str, scope: &str) {
        drop(self.request("DELETE", &format!("/clients/{client_id}/grants/{scope}")).send().expect(200));
    }

    /// Tries to install a plugin.
    #[must_use]
    pub fn install(&self, package: &[u8]) -> Response {
        self.request("POST", "/plugins").body("application/wasm", package).send()
    }

    /// Returns the sorted names of the installed plugins.
    #[must_use]
    pub fn plugin_names(&self) -> Vec<String> {
        let plugins = self.get("/plugins").expect(200).json();
        let plugins = plugins["data"].as_array().expect("a list of plugins");
        plugins.iter().map(|plugin| plugin["name"].as_str().expect("a plugin has a name").to_owned()).collect()
    }
}
