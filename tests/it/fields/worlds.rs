//! Three registers that differ only in the value of one field of each of their records.

use daftar::domain::field::fields_of;
use daftar::domain::manifest::PluginName;
use daftar::domain::scope::Resource;
use daftar_tests::records::{NATIONAL_ID, person, reference, with};
use daftar_tests::{ApiClient, Response, TestApp, artifacts, redacted};
use serde_json::{Map, Value, json};

use super::samples::{Sample, samples};

const ORGANIZATION: &str = "Ministry of Health";
/// Resources for which all clients of this test have all scopes, unless specified otherwise.
const RESOURCES: [Resource; 5] =
    [Resource::Individual, Resource::Group, Resource::Program, Resource::ProgramMembership, Resource::Consent];

/// One of the registers.
pub struct World {
    app: TestApp,
    /// Number of the value: the first, the second, or none where a record may lack it.
    variant: usize,
}

impl World {
    /// A register with a record for each sample.
    pub fn new(variant: usize) -> Self {
        let active = PluginName::parse("eligibility-cel").ok();
        let app = TestApp::builder().config(|config| config.plugins.engine = active).start();
        let other = std::fs::read(artifacts::fixture("misbehaving-engine")).unwrap();
        drop(app.admin().install(&other).expect(201));
        let farmer = std::fs::read(artifacts::module("farmer-registry")).unwrap();
        drop(app.admin().install(&farmer).expect(201));
        for (code, label) in [("pregnant", "Pregnant"), ("not", "Not pregnant")] {
            let code = format!("urn:svc:vocab:pregnancy-status#{code}");
            let body = json!({"code": code, "labels": {"en": label}});
            drop(app.admin().request("POST", "/local-codes").json(&body).send().expect(201));
        }
        Self { app, variant }
    }

    /// A client with all scopes.
    pub fn unrestricted(&self) -> ApiClient {
        self.client(RESOURCES.map(|resource| json!(format!("{}:all", resource.name()))).to_vec())
    }

    /// A client with all scopes except for one field.
    pub fn restricted_from(&self, sample: &Sample) -> ApiClient {
        let fields = fields_of(sample.resource).iter().filter(|field| !sample.is_revealed_by(field));
        // A client without access to a key of `extension` has none to all of it.
        let fields: Vec<&&str> = fields.filter(|field| !sample.field.starts_with(&format!("{field}."))).collect();
        let grants = RESOURCES.map(|resource| {
            let scope = format!("{}:all", resource.name());
            if resource == sample.resource { json!({"scope": scope, "fields": fields}) } else { json!(scope) }
        });
        self.client(grants.to_vec())
    }

    fn client(&self, mut scopes: Vec<Value>) -> ApiClient {
        scopes.push(json!("eligibility:read"));
        let credentials = self.app.admin().create_client(&json!({
            "name": "test", "organization": ORGANIZATION, "scopes": scopes,
            "rate_limit_per_minute": 1_000_000, "rate_limit_per_day": 1_000_000,
        }));
        self.app.client_of(&credentials)
    }

    /// Writes a record for each sample: with the value of this register, and with the first of all others.
    pub fn fill(&self, resource: Resource, writer: &ApiClient) {
        let all = samples(resource);
        for sample in &all {
            let mut body = base(resource, sample);
            for other in all.iter().filter(|other| other.field != sample.field && goes_with(sample, other)) {
                body = with(body, other.members(&other.values[0]));
            }
            if sample.resource == Resource::ProgramMembership && sample.field == "beneficiary" {
                body = with(body, json!({"program": format!("Program/{NATIONAL_ID}|PR-3")}));
            }
            if let Some(value) = self.value(sample) {
                body = with(body, sample.members(value));
            }
            drop(self.write(resource, writer, &body).expect(201));
        }
    }

    /// The value of this register.
    pub fn value<'a>(&self, sample: &'a Sample) -> Option<&'a Value> {
        match sample.values.get(self.variant) {
            Some(value) => Some(value),
            None if sample.is_optional => None,
            None => Some(&sample.values[0]),
        }
    }

    fn write(&self, resource: Resource, writer: &ApiClient, body: &Value) -> Response {
        match resource {
            Resource::Individual => writer.post("/Individual", body),
            Resource::Group => writer.post("/Group", body),
            Resource::ProgramMembership => writer.post("/ProgramMembership", body),
            Resource::Program => self.app.admin().request("POST", "/programs").json(body).send(),
            Resource::Consent => self.app.admin().request("POST", "/consents").json(body).send(),
            Resource::Vocabulary | Resource::Eligibility | Resource::Identifier => panic!("there are no such records"),
        }
    }

    /// People and programs that the records of the samples refer to.
    pub fn furnish(&self, writer: &ApiClient) {
        let people = ["p-1", "p-2"].map(str::to_owned).into_iter();
        let enrolled = samples(Resource::ProgramMembership).into_iter().map(|sample| format!("b-{}", sample.field));
        for id in people.chain(enrolled) {
            drop(writer.create_individual(&person(&id, json!({"name": {"text": "A Person"}}))));
        }
        for id in ["g-1", "g-2"] {
            drop(writer.create_group(&person(id, json!({"name": "Some group"}))));
        }
        for id in ["PR-1", "PR-2", "PR-3"] {
            let identifier = json!([{"system": NATIONAL_ID, "value": id}]);
            let body = json!({"identifier": identifier, "name": id, "target_type": "individual"});
            drop(self.app.admin().request("POST", "/programs").json(&body).send().expect(201));
        }
    }

    /// The name of a consent, which each register generates.
    pub fn consent_id(&self, sample: &Sample) -> String {
        let page = self.app.admin().get("/consents?_count=100").expect(200).json();
        let place = samples(Resource::Consent).iter().position(|other| other.field == sample.field).unwrap();
        page["data"][place]["consent_id"].as_str().unwrap().to_owned()
    }
}

/// True if the record of one field can have another: exits require a status, enforcement an expression.
fn goes_with(sample: &Sample, other: &Sample) -> bool {
    !matches!(
        (sample.resource, sample.field.as_str(), other.field.as_str()),
        (Resource::ProgramMembership, "status", "exit_date" | "exit_reason")
            | (Resource::ProgramMembership, _, "status" | "beneficiary")
            | (Resource::Program, "eligibility", "enforce_eligibility")
    )
}

fn base(resource: Resource, sample: &Sample) -> Value {
    let identified = json!({"identifier": [{"system": NATIONAL_ID, "value": sample.name()}]});
    match resource {
        Resource::ProgramMembership => {
            with(identified, json!({"status": "exited", "beneficiary": reference(&format!("b-{}", sample.field))}))
        }
        Resource::Consent => json!({"grantee": ORGANIZATION}),
        _ => identified,
    }
}

/// A response without values that differ between registers at random: ports, random names, timestamps of the network.
pub fn observable(response: &Response) -> Value {
    let chance = ["date", "x-request-id", "x-ratelimit-remaining", "x-ratelimit-reset"];
    let headers = response.headers().iter().filter(|(name, _)| !chance.contains(&name.as_str()));
    let headers: Map<String, Value> =
        headers.map(|(name, value)| (name.clone(), json!(without_chance(value)))).collect();
    let body = without_chance(&response.text());
    let body = serde_json::from_str(&body).map_or(Value::String(body), |body| redacted(&body));
    json!({"status": response.status, "headers": headers, "body": body})
}

/// A text with ports, clients' ids, UUIDs and cursors masked.
fn without_chance(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut word = String::new();
    for character in text.chars().chain(['\n']) {
        if character.is_ascii_alphanumeric() || "-_".contains(character) {
            word.push(character);
            continue;
        }
        let is_port = masked.ends_with("127.0.0.1:") && word.bytes().all(|byte| byte.is_ascii_digit());
        let is_random = word.len() >= 32 && word.bytes().filter(u8::is_ascii_hexdigit).count() >= 24;
        masked.push_str(if is_port || is_random { "[chance]" } else { &word });
        masked.push(character);
        word.clear();
    }
    masked.pop();
    masked
}
