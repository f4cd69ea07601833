//! Requests that the document shows. A test sends each of them to a server and holds the answer to what is told here.

use serde_json::Value;

/// One request with the status of its answer.
#[derive(Debug, Clone)]
pub struct Example {
    /// What the document calls it; once an operation.
    pub name: &'static str,
    /// What it shows.
    pub summary: &'static str,
    /// The status of the answer.
    pub status: u16,
    /// Parameters of path, query and header that differ from what the parameters themselves show.
    pub parameters: Vec<(&'static str, String)>,
    /// The body.
    pub body: Option<Value>,
}

impl Example {
    /// A request that succeeds with 200.
    #[must_use]
    pub fn new(name: &'static str, summary: &'static str) -> Self {
        Self { name, summary, status: 200, parameters: Vec::new(), body: None }
    }

    /// Is answered with that status.
    #[must_use]
    pub fn answered(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Sends that value of a parameter.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.parameters.push((name, value.into()));
        self
    }

    /// Sends that body.
    #[must_use]
    pub fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }
}
