//! A client of the API with its token.

use serde_json::Value;

use super::http::{Connection, Request, Response};

/// Base path of the API.
const BASE_PATH: &str = daftar::api::endpoint::BASE_PATH;

/// The credentials of a client.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// Its public name.
    pub id: String,
    /// Its secret.
    pub secret: String,
}

impl Credentials {
    /// Reads them from the response to the registration.
    #[must_use]
    pub fn read(created: &Value) -> Self {
        let text = |name: &str| created[name].as_str().unwrap_or_else(|| panic!("no `{name}`: {created}")).to_owned();
        Self { id: text("client_id"), secret: text("client_secret") }
    }
}

/// A client with a token, from an address of its own.
#[derive(Debug, Clone)]
pub struct ApiClient {
    connection: Connection,
    credentials: Credentials,
    token: String,
}

impl ApiClient {
    /// The client with these credentials and this token.
    #[must_use]
    pub fn new(connection: Connection, credentials: Credentials, token: String) -> Self {
        Self { connection, credentials, token }
    }

    /// Its public name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.credentials.id
    }

    /// Its credentials.
    #[must_use]
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Its token.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Its connection to the server.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// A request with its token, below the API's path unless it is a whole link.
    #[must_use]
    pub fn request(&self, method: &str, path: &str) -> Request {
        let target = if path.starts_with("http") { path.to_owned() } else { format!("{BASE_PATH}{path}") };
        self.connection.request(method, &target).bearer(&self.token)
    }

    /// Reads something.
    #[must_use]
    pub fn get(&self, path: &str) -> Response {
        self.request("GET", path).send()
    }

    /// Sends a JSON body.
    #[must_use]
    pub fn post(&self, path: &str, body: &Value) -> Response {
        self.request("POST", path).json(body).send()
    }

    /// Registers a person and returns the body of the response.
    #[track_caller]
    pub fn create_individual(&self, body: &Value) -> Value {
        self.post("/Individual", body).expect(201).json()
    }

    /// Registers a group and returns the body of the response.
    #[track_caller]
    pub fn create_group(&self, body: &Value) -> Value {
        self.post("/Group", body).expect(201).json()
    }

    /// Evaluates a rule and returns the body of the response.
    #[track_caller]
    #[must_use]
    pub fn evaluate(&self, body: &Value) -> Value {
        self.post("/Eligibility/$evaluate", body).expect(200).json()
    }

    /// The values of the identifiers that a search finds, in order.
    #[track_caller]
    #[must_use]
    pub fn found(&self, query: &str) -> Vec<String> {
        let page = self.get(&format!("/Individual?{query}")).expect(200).json();
        let people = page["data"].as_array().expect("a list of people");
        people.iter().map(|person| person["identifier"][0]["value"].as_str().expect("a value").to_owned()).collect()
    }
}
