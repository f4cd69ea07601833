//! Comparison of replayed responses with the first response to a request with an idempotency key.

use jiff::Timestamp;
use serde_json::Value;

use super::register::Register;
use super::step::Step;
use crate::support::http::Response;

/// Members of a response that depend on other records, or on the day: they are compared with the model.
const COMPUTED: [&str; 4] = ["group_membership", "quantity", "entity", "beneficiary"];
/// The path of the API in a URL. The rest of the URL depends on the server.
const BASE_PATH: &str = "/api/v2/";

/// A stored outcome of a request with an idempotency key.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) step: Step,
    pub(super) at: Timestamp,
    /// True if it expired before the clock was set back.
    pub(super) may_be_deleted: bool,
    etag: Option<String>,
    /// The body, in the form of [`comparable`].
    body: Value,
    /// The enrolment that it created.
    enrolment: Option<usize>,
}

impl Stored {
    /// The outcome of an operation that has been applied to the register.
    pub(super) fn new(step: Step, register: &Register, response: &Response) -> Self {
        let is_enrolment = matches!(step, Step::Enrol { .. });
        let enrolment = if is_enrolment { register.enrolments.len().checked_sub(1) } else { None };
        let (etag, body) = (response.header("etag").map(ToOwned::to_owned), comparable(response.json()));
        Self { step, at: register.now, may_be_deleted: false, etag, body, enrolment }
    }
}

impl Register {
    /// Compares a replayed response with the first one: it has the same version of the record, and present references.
    pub(super) fn check_replayed(&self, stored: &Stored, response: &Response) -> Result<(), String> {
        let (etag, body) = (response.header("etag"), response.json());
        if etag != stored.etag.as_deref() {
            return Err(format!("the `ETag` of a replayed response is {etag:?}, and was {:?}", stored.etag));
        }
        let (shown, known) = (comparable(body.clone()), &stored.body);
        if shown != *known {
            return Err(format!("a replayed response is {shown}, and was {known}"));
        }
        let (shown, known): (Vec<Value>, Vec<String>) = match (stored.step, stored.enrolment) {
            (Step::AddMember { group, .. }, _) => {
                let members = body["member"].as_array().map(Vec::as_slice).unwrap_or_default();
                let shown: Vec<Value> = members.iter().map(|member| member["entity"]["reference"].clone()).collect();
                let members = self.groups.get(&group).map(|group| group.members.as_slice()).unwrap_or_default();
                let known = members.iter().take(shown.len()).map(|member| self.called(member.person)).collect();
                (shown, known)
            }
            (_, Some(enrolment)) => {
                (vec![body["beneficiary"].clone()], vec![self.called(self.enrolments[enrolment].person)])
            }
            _ => (Vec::new(), Vec::new()),
        };
        if shown == known { Ok(()) } else { Err(format!("a replayed response names {shown:?} and not {known:?}")) }
    }
}

/// A body without computed members, and with URLs as any server writes them.
fn comparable(body: Value) -> Value {
    match body {
        Value::Object(members) => {
            let members = members.into_iter().filter(|(name, _)| !COMPUTED.contains(&name.as_str()));
            Value::Object(members.map(|(name, value)| (name, comparable(value))).collect())
        }
        Value::Array(items) => items.into_iter().map(comparable).collect(),
        Value::String(text) => {
            let path = text.split_once(BASE_PATH).filter(|_| text.starts_with("http"));
            let path = path.map(|(_, path)| path.to_owned());
            Value::String(path.unwrap_or(text))
        }
        other => other,
    }
}
