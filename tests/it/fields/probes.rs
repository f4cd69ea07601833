//! Requests by which a client could try to learn one field of a record.

use daftar::domain::scope::Resource;
use daftar_tests::ApiClient;
use daftar_tests::Response;
use daftar_tests::records::{NATIONAL_ID, person, reference, with};
use serde_json::{Value, json};

use super::samples::{Sample, samples};

/// One request.
#[derive(Debug, Clone)]
pub struct Probe {
    pub method: &'static str,
    pub path: String,
    pub body: Option<Value>,
    pub if_match: Option<&'static str>,
    pub aim: Aim,
}

/// Use of the field by a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// None; the response is compared.
    Look,
    /// It selects, orders or decides by the field: rejected naming it, where others succeed.
    Use,
    /// It writes the field: rejected naming it.
    Write,
}

impl Probe {
    fn get(path: impl Into<String>) -> Self {
        Self { method: "GET", path: path.into(), body: None, if_match: None, aim: Aim::Look }
    }

    fn send(method: &'static str, path: impl Into<String>, body: Value) -> Self {
        Self { method, path: path.into(), body: Some(body), if_match: None, aim: Aim::Look }
    }

    fn aiming(self, aim: Aim) -> Self {
        Self { aim, ..self }
    }

    /// Sends it.
    pub fn ask(&self, client: &ApiClient) -> Response {
        let request = client.request(self.method, &self.path);
        let request = self.body.iter().fold(request, |request, body| request.json(body));
        self.if_match.iter().fold(request, |request, tag| request.header("If-Match", tag)).send()
    }
}

/// A value in a query: a code's URI, the first of a list, a bare word.
fn queried(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Bool(is_true) => is_true.to_string(),
        Value::Array(items) => return queried(items.first()?),
        Value::Null | Value::Number(_) | Value::Object(_) => return None,
    };
    Some(encoded(&text))
}

/// A percent-encoded text for a query.
fn encoded(text: &str) -> String {
    text.replace('#', "%23").replace('|', "%7C").replace(' ', "%20")
}

/// All requests of a client about the record of a sample; `path` is its address.
pub fn probes(sample: &Sample, path: &str) -> Vec<Probe> {
    let collection = path.rsplit_once('/').map_or(path, |(collection, _)| collection);
    let field = sample.field.as_str();
    let mut all = vec![
        Probe::get(path),
        Probe::get(format!("{path}?_elements={field}")),
        Probe::get(format!("{path}?_elements=meta,{}", field.split('.').next().unwrap_or(field))),
    ];
    // The registers differ in the records of other fields too: a page contains this one alone.
    let own = match (sample.resource, field) {
        (Resource::ProgramMembership, "beneficiary") => {
            format!("program={}", encoded(&format!("Program/{NATIONAL_ID}|PR-3")))
        }
        (Resource::ProgramMembership, _) => format!("beneficiary={}", encoded(&reference(&format!("b-{field}")))),
        _ => format!("identifier={}", encoded(&format!("{NATIONAL_ID}|{}", sample.name()))),
    };
    if sample.resource != Resource::Consent {
        all.push(Probe::get(format!("{collection}?{own}")));
        all.push(Probe::get(format!("{collection}?{own}&_elements={field}")));
        for order in ["", "-"] {
            all.push(Probe::get(format!("{collection}?_count=100&_sort={order}{field}")).aiming(Aim::Use));
        }
        for value in sample.values.iter().filter_map(queried) {
            for name in [field.to_owned(), format!("{field}:below"), format!("{field}:missing")] {
                all.push(Probe::get(format!("{collection}?{name}={value}")).aiming(Aim::Use));
            }
        }
    }
    all.extend(match sample.resource {
        Resource::Individual => of_individual(sample, path),
        Resource::Group => of_group(sample, path),
        Resource::Program => of_program(sample, path),
        Resource::ProgramMembership => of_membership(sample, path),
        Resource::Consent | Resource::Vocabulary | Resource::Eligibility | Resource::Identifier => Vec::new(),
    });
    let entry = |method: &str, more: Value| {
        let entry = with(json!({"request": {"method": method, "url": path.trim_start_matches('/')}}), more);
        Probe::send("POST", "/$batch", json!({"type": "batch", "entry": [entry]}))
    };
    all.push(entry("GET", json!({})));
    all.push(entry("PATCH", json!({"resource": sample.members(&sample.values[0])})));
    let again = all.first().cloned();
    all.extend(again);
    all
}

fn rule(subject: &str, expression: String, of: String) -> Probe {
    let body = json!({"subject": subject, "expression": expression, "subjects": [of], "explain": true});
    Probe::send("POST", "/Eligibility/$evaluate", body)
}

fn of_individual(sample: &Sample, path: &str) -> Vec<Probe> {
    let (field, id) = (sample.field.as_str(), sample.name());
    let filters: &[&str] = match field {
        "name" => &["name=amina", "name=berta"],
        "birth_date" => &["birth_date=ge2000-01-01", "birth_date=lt2000-01-01"],
        "address" => {
            &["address=D-1", "district=D-1", "district=D-2", "region=R", "address.country=urn:iso:std:iso:3166-1%23DE"]
        }
        _ => &[],
    };
    let mut all: Vec<Probe> =
        filters.iter().map(|filter| Probe::get(format!("/Individual?{filter}")).aiming(Aim::Use)).collect();
    all.push(Probe::get(format!("{path}/groups")));
    let read = match field {
        "name" => "name.given",
        "income" => "income.amount",
        "extension.farmer" => "extension.farmer.crops",
        other => other,
    };
    all.push(rule("individual", format!("has(me.{read})"), reference(&id)).aiming(Aim::Use));
    all.push(rule("individual", format!("me.active || has(me.{read})"), reference(&id)).aiming(Aim::Use));
    all.push(rule("individual", format!("members.exists(m, has(m.{read}))"), reference(&id)).aiming(Aim::Use));
    all.push(rule("individual", "true".to_owned(), reference(&id)));
    // A response about other fields, explained, with the household.
    let other = if field == "active" { "has(me.gender)" } else { "me.active" };
    all.push(rule("individual", other.to_owned(), reference(&id)));
    all.push(rule("individual", format!("{other} && size(members) >= 0"), reference(&id)));
    let question = json!({"expression": format!("has(me.{read}) && {other}"), "subject": "individual"});
    all.push(Probe::send("POST", "/Eligibility/$validate", question));
    all.extend(writes(sample, path, &person(&id, json!({"active": true}))));
    // A day known to the client must not be tested against a hidden one.
    all.push(Probe::send("PATCH", path, json!({"deceased_date": "1900-01-01"})));
    all.push(Probe::send("PATCH", path, json!({"birth_date": "2026-02-01"})));
    all
}

fn of_group(sample: &Sample, path: &str) -> Vec<Probe> {
    let (field, id) = (sample.field.as_str(), sample.name());
    let of = format!("Group/{NATIONAL_ID}|{id}");
    let mut all = vec![Probe::get(format!("{path}/membership-history"))];
    let read = if field == "extension.farmer" { "extension.farmer.crops" } else { field };
    if field == "member" {
        all[0].aim = Aim::Use;
        for person in ["p-1", "p-2"] {
            let places = format!("{}/groups", daftar_tests::records::path("Individual", person));
            all.push(Probe::get(places).aiming(Aim::Use));
            all.push(Probe::get(daftar_tests::records::path("Individual", person)));
            let entity = json!({"entity": {"reference": reference(person)}});
            all.push(Probe::send("POST", format!("{path}/$add-member"), entity.clone()).aiming(Aim::Write));
            all.push(Probe::send("POST", format!("{path}/$remove-member"), entity).aiming(Aim::Write));
            let place = format!("{path}/member/{}%7C{person}", NATIONAL_ID.replace('#', "%23"));
            all.push(Probe::send("PATCH", place, json!({"inactive": true})).aiming(Aim::Write));
        }
        let group = encoded(of.trim_start_matches("Group/"));
        all.push(Probe::get(format!("/Individual?group={group}")).aiming(Aim::Use));
        all.push(Probe::get("/Individual?group=none").aiming(Aim::Use));
        let head = "urn:svc:vocab:relationship%23head";
        all.push(Probe::get(format!("/Individual?membership_role={head}")).aiming(Aim::Use));
        all.push(rule("group", "size(members) > 0".to_owned(), of.clone()).aiming(Aim::Use));
        all.push(rule("individual", "size(members) > 0".to_owned(), reference("p-1")).aiming(Aim::Use));
        all.push(rule("individual", "is_head(me)".to_owned(), reference("p-1")).aiming(Aim::Use));
    } else {
        all.push(rule("group", format!("has(me.{read})"), of.clone()).aiming(Aim::Use));
    }
    all.push(rule("group", "true".to_owned(), of));
    let body = with(person(&id, json!({})), json!({"active": true}));
    all.extend(writes(sample, path, &body));
    all
}

fn of_program(sample: &Sample, _path: &str) -> Vec<Probe> {
    let mut all = Vec::new();
    match sample.field.as_str() {
        "name" => all.push(Probe::get("/Program?name=one").aiming(Aim::Use)),
        "period" => all.push(Probe::get("/Program?status=current").aiming(Aim::Use)),
        "eligibility" | "engine" | "target_type" => {
            let program = format!("Program/{NATIONAL_ID}|{}", sample.name());
            let body = json!({"program": program, "subjects": [reference("p-1")]});
            all.push(Probe::send("POST", "/Eligibility/$evaluate", body).aiming(Aim::Use));
        }
        _ => {}
    }
    all
}

fn of_membership(sample: &Sample, path: &str) -> Vec<Probe> {
    let field = sample.field.as_str();
    let mut all = Vec::new();
    let own = format!("b-{field}");
    let people = if field == "beneficiary" { vec!["p-1", "p-2"] } else { vec![own.as_str()] };
    for person in people {
        let place = daftar_tests::records::path("ProgramMembership", person);
        all.push(Probe::get(place.clone()));
        let expression = match field {
            "override" => "size(programs) > 0".to_owned(),
            "beneficiary" => "size(programs) > 0".to_owned(),
            other => format!("programs.exists(p, has(p.{other}))"),
        };
        let aim = if field == "override" { Aim::Look } else { Aim::Use };
        all.push(rule("individual", expression, reference(person)).aiming(aim));
        for program in ["PR-1", "PR-2", "PR-3"] {
            let aim = if field == "program" { Aim::Use } else { Aim::Look };
            let program = encoded(&format!("Program/{NATIONAL_ID}|{program}"));
            all.push(Probe::get(format!("{place}?program={program}")).aiming(aim));
        }
    }
    // The replacement of a membership: as far as the client can know it, and then with the field.
    let identified = person(&sample.name(), json!({}));
    let known = samples(Resource::ProgramMembership);
    let known = known.iter().filter(|other| other.field != field);
    let whole = known.fold(identified, |body, other| {
        let value = match other.field.as_str() {
            "status" => json!(if field == "status" { "paused" } else { "exited" }),
            "beneficiary" => json!(reference(&own)),
            "program" if field == "beneficiary" => json!(format!("Program/{NATIONAL_ID}|PR-3")),
            "exit_date" | "exit_reason" if field == "status" => return body,
            _ => other.values[0].clone(),
        };
        with(body, other.members(&value))
    });
    all.push(Probe::send("PUT", path, whole.clone()));
    let mut least = whole.clone();
    for optional in ["enrollment_date", "exit_date", "exit_reason", "override"] {
        least.as_object_mut().unwrap().remove(optional);
    }
    all.push(Probe::send("PUT", path, least));
    for value in &sample.values {
        all.push(Probe::send("PUT", path, with(whole.clone(), sample.members(value))).aiming(Aim::Write));
    }
    if field == "enrollment_date" {
        let early = json!({"exit_date": "2024-01-01", "status": "exited"});
        all.push(Probe::send("PUT", path, with(whole.clone(), early)));
    }
    if field == "status" {
        let removed = with(whole.clone(), json!({"enrollment_date": null}));
        all.push(Probe::send("PUT", path, removed).aiming(Aim::Write));
        all.push(Probe::send("PUT", path, with(whole, json!({"exit_date": "2026-01-01"}))));
    }
    all
}

/// Attempted writes: the field itself in every way, then everything else.
fn writes(sample: &Sample, path: &str, whole: &Value) -> Vec<Probe> {
    let mut all = Vec::new();
    for value in sample.values.iter().chain([&Value::Null]) {
        let members = sample.members(value);
        all.push(Probe::send("PATCH", path, members.clone()).aiming(Aim::Write));
        all.push(Probe::send("PUT", path, with(whole.clone(), members.clone())).aiming(Aim::Write));
        if !value.is_null() {
            let collection = path.rsplit_once('/').map_or(path, |(collection, _)| collection);
            let new = with(with(whole.clone(), members), identified(&format!("new-{}", sample.name())));
            all.push(Probe::send("POST", collection, new).aiming(Aim::Write));
        }
    }
    for tag in ["\"1\"", "\"99\""] {
        all.push(Probe { if_match: Some(tag), ..Probe::send("PATCH", path, json!({})) });
    }
    for other in samples(sample.resource).iter().filter(|other| other.field != sample.field) {
        for value in other.values.iter().chain([&Value::Null]) {
            all.push(Probe::send("PATCH", path, other.members(value)));
        }
    }
    all.push(Probe::send("PUT", path, whole.clone()));
    all
}

fn identified(id: &str) -> Value {
    json!({"identifier": [{"system": NATIONAL_ID, "value": id}]})
}
