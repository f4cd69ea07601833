//! Registers that differ only in unreadable data are the same to a client, for any request and write: for a client
//! without access to some fields, for one that may only write, and for one that reads consented data.
//!
//! Codes in the records are deprecated, or their vocabularies removed: only a record that already contains one may
//! retain it.

use daftar_tests::records::{FEMALE, HOUSEHOLD, NATIONAL_ID, ROLE, household, path, person, reference, with};
use daftar_tests::{ApiClient, Response, TestApp, errors};
use serde_json::{Value, json};

use super::worlds::observable;
use crate::program;

const ORGANIZATION: &str = "Ministry of Health";
/// A local code that is deprecated later.
const DEPRECATED: &str = "urn:svc:vocab:ethnocultural#old";
const RELIGION: &str = "urn:un:unsd:pop-census:religion#islam";
const CURRENCY: &str = "urn:iso:std:iso:4217#USD";
const HOUSING: &str = "urn:un:unsd:pop-census:housing-type#1.1";
/// The packs that are removed once there are records.
const REMOVED: [&str; 5] = ["religion", "currency", "group-type", "housing-type", "relationship"];
/// Each write has its own record, and one more that other calls read.
const COMMON: &str = "X";

/// Kinds of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asker {
    /// All scopes, restricted to some fields.
    Limited,
    /// Scopes to create and change everything, and none to read.
    WriteOnly,
    /// All scopes; reads the consented fields.
    Consent,
}

/// One request.
#[derive(Debug, Clone)]
struct Call {
    method: &'static str,
    path: String,
    body: Option<Value>,
}

impl Call {
    fn get(path: impl Into<String>) -> Self {
        Self { method: "GET", path: path.into(), body: None }
    }

    fn send(method: &'static str, path: impl Into<String>, body: Value) -> Self {
        Self { method, path: path.into(), body: Some(body) }
    }

    fn ask(&self, client: &ApiClient) -> Response {
        let request = client.request(self.method, &self.path);
        self.body.iter().fold(request, |request, body| request.json(body)).send()
    }

    /// The same as an entry of a batch.
    fn entry(&self) -> Value {
        let request = json!({"method": self.method, "url": self.path.trim_start_matches('/')});
        match &self.body {
            Some(body) => json!({"request": request, "resource": body}),
            None => json!({"request": request}),
        }
    }

    /// The same in a batch of that kind, before an entry that is always rejected: a transaction then writes nothing.
    fn in_batch(&self, kind: &str) -> Self {
        let refused = json!({"request": {"method": "PATCH", "url": path("Individual", "absent").trim_start_matches('/')}, "resource": {}});
        Self::send("POST", "/$batch", json!({"type": kind, "entry": [self.entry(), refused]}))
    }
}

fn encoded(id: &str) -> String {
    format!("{}%7C{id}", NATIONAL_ID.replace('#', "%23"))
}

/// Attempted writes of a person, by name.
fn of_person(asker: Asker) -> Vec<(&'static str, Value)> {
    let mut bodies = Vec::new();
    for (field, codes) in [
        (
            "ethnocultural_status",
            [DEPRECATED, "urn:svc:vocab:ethnocultural#indigenous", "urn:svc:vocab:ethnocultural#none"],
        ),
        ("religion", [RELIGION, "urn:un:unsd:pop-census:religion#hinduism", "urn:un:unsd:pop-census:religion#none"]),
    ] {
        for code in codes {
            bodies.push(("PATCH", json!({field: code})));
            bodies.push(("PUT", json!({field: code, "active": true})));
        }
        bodies.push(("PATCH", json!({field: null})));
    }
    for income in [
        json!({"amount": 5}),
        json!({"period": "month"}),
        json!({"amount": 5, "currency": CURRENCY}),
        json!({"amount": 5, "currency": "urn:iso:std:iso:4217#EUR"}),
        json!({"currency": null, "amount": 7}),
        Value::Null,
    ] {
        bodies.push(("PATCH", json!({"income": income})));
        bodies.push(("PUT", json!({"income": income})));
    }
    bodies.push(("PATCH", json!({"active": false})));
    bodies.push(("PATCH", json!({"gender": FEMALE, "ethnocultural_status": DEPRECATED, "religion": RELIGION})));
    bodies.push(("PATCH", json!({"deceased_date": "1900-01-01"})));
    bodies.push(("PUT", json!({})));
    if asker == Asker::Limited {
        bodies.push(("PUT", json!({"name": {"text": "New"}, "active": true})));
    }
    bodies
}

fn entity(id: &str, more: Value) -> Value {
    with(json!({"entity": {"reference": reference(id)}}), more)
}

/// Attempted calls of a group, given its path.
fn of_group(at: &str) -> Vec<Call> {
    let role = format!("{ROLE}#spouse");
    let mut calls = Vec::new();
    for (field, codes) in [
        ("group_type", [HOUSEHOLD, "urn:svc:vocab:group-type#family"]),
        ("housing_type", [HOUSING, "urn:un:unsd:pop-census:housing-type#1.2.1"]),
    ] {
        calls.extend(codes.map(|code| Call::send("PATCH", at, json!({field: code}))));
    }
    for id in ["P", "Q", "R", "absent", "WAS"] {
        let member = path("/member", id).replace("//", "/");
        for body in [
            json!({}),
            json!({"inactive": true}),
            json!({"role": role}),
            json!({"role": null}),
            json!({"period": {"end": "2026-02-01"}}),
        ] {
            calls.push(Call::send("PATCH", format!("{at}{member}"), body));
        }
        for body in [json!({}), json!({"period": {"end": "2026-03-01"}})] {
            calls.push(Call::send("POST", format!("{at}/$remove-member"), entity(id, body)));
        }
        for body in [
            json!({}),
            json!({"role": role}),
            json!({"period": {"end": "2020-01-01"}}),
            json!({"period": {"start": "2030-01-01"}}),
            json!({"inactive": true}),
        ] {
            calls.push(Call::send("POST", format!("{at}/$add-member"), entity(id, body)));
        }
        for list in [json!([entity(id, json!({}))]), json!([entity(id, json!({"role": role}))]), json!([])] {
            calls.push(Call::send("PATCH", at, json!({"member": list})));
        }
    }
    calls.push(Call::send("PATCH", at, json!({"name": "New"})));
    calls
}

fn program_reference(id: &str) -> String {
    format!("Program/{NATIONAL_ID}|{id}")
}

/// Attempted calls of the membership of that number.
fn of_membership(asker: Asker, number: usize) -> Vec<Call> {
    let own = path("ProgramMembership", &format!("M{number}"));
    let of_beneficiary = path("ProgramMembership", &format!("B{number}"));
    let mut calls = Vec::new();
    let mut targets = vec![own.clone()];
    if asker != Asker::WriteOnly {
        targets.push(of_beneficiary.clone());
        targets.extend(["P1", "P2", "absent"].map(|id| format!("{of_beneficiary}?program=Program/{}", encoded(id))));
    }
    targets.extend(["P1", "P2", "absent"].map(|id| format!("{own}?program=Program/{}", encoded(id))));
    for target in targets {
        calls.push(Call::get(&target));
        let known = json!({
            "identifier": [{"system": NATIONAL_ID, "value": format!("M{number}")}],
            "beneficiary": reference(&format!("B{number}")), "status": "enrolled",
        });
        calls.push(Call::send("PUT", &target, json!({"status": "enrolled"})));
        calls.push(Call::send("PUT", &target, known.clone()));
        for program in ["P1", "P2", "absent"] {
            calls.push(Call::send("PUT", &target, with(known.clone(), json!({"program": program_reference(program)}))));
        }
        for beneficiary in ["R", "absent"] {
            let other = json!({"program": program_reference("P1"), "beneficiary": reference(beneficiary)});
            calls.push(Call::send("PUT", &target, with(known.clone(), other)));
        }
    }
    calls
}

fn reads() -> Vec<Call> {
    let mut calls = Vec::new();
    for (resource, id) in [("Individual", COMMON), ("Individual", "P"), ("Group", "G"), ("ProgramMembership", "M0")] {
        let at = path(resource, id);
        calls.push(Call::get(&at));
        calls.push(Call::get(format!("{at}?_elements=religion,income,member,group_type,program").replace(
            "religion,income,member,group_type,program",
            match resource {
                "Individual" => "religion,income,ethnocultural_status",
                "Group" => "member,group_type,quantity",
                _ => "program,status",
            },
        )));
        calls.push(Call::get(format!("/{resource}?identifier={}", encoded(id))));
    }
    calls.push(Call::get(format!("{}/groups", path("Individual", "P"))));
    calls.push(Call::get(format!("{}/membership-history", path("Group", "G"))));
    for query in [
        format!("religion={}", RELIGION.replace('#', "%23")),
        format!("ethnocultural_status={}", DEPRECATED.replace('#', "%23")),
        "_sort=religion".to_owned(),
        format!("group={}", encoded("G")),
        "_count=100".to_owned(),
        "_count=3".to_owned(),
    ] {
        calls.push(Call::get(format!("/Individual?{query}")));
    }
    for query in [
        format!("group_type={}", HOUSEHOLD.replace('#', "%23")),
        format!("member={}", encoded("P")),
        "_count=100".to_owned(),
    ] {
        calls.push(Call::get(format!("/Group?{query}")));
    }
    for query in [format!("program={}", encoded("P1")), format!("program={}", encoded("P2")), "_count=100".to_owned()] {
        calls.push(Call::get(format!("/ProgramMembership?{query}")));
    }
    calls
}

fn rules() -> Vec<Value> {
    let people = json!([reference(COMMON), reference("P"), reference("absent")]);
    let group = json!([format!("Group/{NATIONAL_ID}|G")]);
    [
        ("individual", "me.active", people.clone()),
        ("individual", "has(me.name) && !has(me.deceased_date)", people.clone()),
        ("individual", "has(me.religion)", people.clone()),
        ("individual", "me.income.amount > 5", people.clone()),
        ("individual", "members.size() > 0", people.clone()),
        ("individual", "programs.exists(p, p.status == 'enrolled')", people.clone()),
        ("individual", "programs.exists(p, has(p.program))", people),
        ("group", "has(me.name)", group.clone()),
        ("group", "members.exists(m, has(m.name))", group),
    ]
    .map(|(subject, expression, subjects)| json!({"subject": subject, "expression": expression, "subjects": subjects, "explain": true}))
    .into()
}

/// Evaluations, previews, and repeats of decisions, also of one changed to name earlier versions.
fn decide(client: &ApiClient, rule: &Value) -> Vec<Value> {
    let evaluated = client.post("/Eligibility/$evaluate", rule);
    let preview = json!({"subject": rule["subject"], "expression": rule["expression"], "sample": 100});
    let mut responses = vec![observable(&evaluated), observable(&client.post("/Eligibility/$preview", &preview))];
    if evaluated.status == 200 {
        let mut decision = evaluated.json()["decision"].take();
        let again = |decision: &Value| {
            observable(&client.post("/Eligibility/$evaluate", &with(rule.clone(), json!({"decision": decision}))))
        };
        responses.push(again(&decision));
        for version in decision["versions"].as_array_mut().unwrap() {
            version["version_id"] = json!("1");
        }
        responses.push(again(&decision));
        decision.as_object_mut().unwrap().remove("seal");
        responses.push(again(&decision));
    }
    responses
}

/// One of the registers: the first contains data that the other lacks.
struct World {
    holds: bool,
    app: TestApp,
    client: ApiClient,
    writer: ApiClient,
}

impl World {
    fn new(asker: Asker, holds: bool, counts: [usize; 3]) -> Self {
        let app = TestApp::start();
        let all = ["individual:all", "group:all", "program:all", "program_membership:all", "eligibility:read"];
        let writer = app.client(&all);
        let client = client(&app, asker);
        let world = Self { holds, app, client, writer };
        world.fill(counts);
        if asker == Asker::Consent {
            world.consent(counts);
        }
        world
    }

    /// Common and different data: codes that are no longer valid, members, programs, an earlier name.
    fn fill(&self, [people, groups, memberships]: [usize; 3]) {
        let admin = self.app.admin();
        let code = json!({"code": DEPRECATED, "labels": {"en": "Old"}});
        drop(admin.request("POST", "/local-codes").json(&code).send().expect(201));
        for id in ["P1", "P2"] {
            program::create(&self.app, id, json!({}));
        }
        let common = json!({"active": true, "gender": FEMALE, "name": {"given": "Awa"}});
        let was = |id: &str| json!([{"system": NATIONAL_ID, "value": id}, {"system": NATIONAL_ID, "value": "WAS", "period": {"end": "2020-01-01"}}]);
        for id in ["P", "Q"] {
            drop(self.writer.create_individual(&with(common.clone(), json!({"identifier": was(id)}))));
        }
        drop(self.writer.create_individual(&person("R", common.clone())));
        let held = json!({
            "ethnocultural_status": DEPRECATED, "religion": RELIGION, "birth_date": "1950-01-01",
            "income": {"amount": 10, "currency": CURRENCY, "period": "month"},
        });
        let names = (0..people).map(|number| format!("X{number}")).chain([COMMON.to_owned()]);
        for id in names {
            let body = person(&id, common.clone());
            drop(self.writer.create_individual(&if self.holds { with(body, held.clone()) } else { body }));
        }
        // A name that was corrected and is no longer returned.
        for given in [if self.holds { "One" } else { "Other" }, "Awa"] {
            let named = json!({"name": {"given": given}});
            drop(self.writer.request("PATCH", &path("Individual", COMMON)).json(&named).send().expect(200));
        }
        let member = if self.holds { "P" } else { "Q" };
        let held = json!({
            "member": [entity(member, json!({"role": format!("{ROLE}#spouse")}))], "group_type": HOUSEHOLD, "housing_type": HOUSING,
        });
        let bare = json!({"member": [entity(member, json!({}))]});
        for id in (0..groups).map(|number| format!("G{number}")).chain(["G".to_owned()]) {
            let body = person(&id, json!({"name": "Group"}));
            drop(self.writer.create_group(&with(body, if self.holds { held.clone() } else { bare.clone() })));
        }
        let program = program_reference(if self.holds { "P1" } else { "P2" });
        for number in 0..memberships {
            drop(self.writer.create_individual(&person(&format!("B{number}"), common.clone())));
            let body = person(
                &format!("M{number}"),
                json!({
                    "program": program, "beneficiary": reference(&format!("B{number}")), "status": "enrolled",
                }),
            );
            drop(self.writer.post("/ProgramMembership", &body).expect(201));
        }
        let deprecated = format!("/local-codes/{}/deprecate", DEPRECATED.replace('#', "%23"));
        drop(admin.request("POST", &deprecated).json(&json!({})).send().expect(200));
        for name in REMOVED {
            drop(admin.request("DELETE", &format!("/plugins/{name}?force=true")).send().expect(204));
        }
    }

    /// Consents to some fields: none of those that differ.
    fn consent(&self, [people, groups, memberships]: [usize; 3]) {
        let names = |prefix: &'static str, count: usize| (0..count).map(move |number| format!("{prefix}{number}"));
        let people = names("X", people)
            .chain([COMMON, "P", "Q", "R"].map(str::to_owned))
            .map(|id| (reference(&id), json!({"scopes": ["individual"], "fields": ["active", "gender", "name"]})));
        let groups = names("G", groups)
            .chain(["G".to_owned()])
            .map(|id| (format!("Group/{NATIONAL_ID}|{id}"), json!({"scopes": ["group"], "fields": ["name"]})));
        let memberships = names("B", memberships)
            .map(|id| (reference(&id), json!({"scopes": ["program_membership"], "fields": ["status", "beneficiary"]})));
        for (subject, more) in people.chain(groups).chain(memberships) {
            let body = json!({"subject": subject, "grantee": ORGANIZATION, "effective_date": "2026-03-01"});
            drop(self.app.admin().request("POST", "/consents").json(&with(body, more)).send().expect(201));
        }
    }
}

fn client(app: &TestApp, asker: Asker) -> ApiClient {
    let limited = |scope: &str, fields: &[&str]| json!({"scope": scope, "fields": fields});
    let scopes = match asker {
        Asker::Limited => json!([
            limited("individual:all", &["active", "gender", "name", "group_membership"]),
            limited("group:all", &["name"]),
            limited("program_membership:all", &["status", "beneficiary", "enrollment_date"]),
            "program:read",
            "eligibility:read",
        ]),
        Asker::WriteOnly => json!([
            "individual:create",
            "individual:update",
            "group:create",
            "group:update",
            "program_membership:create",
            "program_membership:update",
            "eligibility:read",
        ]),
        Asker::Consent => {
            json!(["individual:all", "group:all", "program:all", "program_membership:all", "eligibility:read"])
        }
    };
    let basis = (asker == Asker::Consent).then_some("consent");
    app.client_of(&app.admin().create_client(&json!({
        "name": "asking", "organization": ORGANIZATION, "legal_basis": basis, "scopes": scopes,
        "rate_limit_per_minute": 1_000_000, "rate_limit_per_day": 1_000_000,
    })))
}

/// Every call, each write on a record of its own so that it changes nothing for the others; and the number of records
/// that they require.
fn calls(asker: Asker) -> (Vec<Call>, [usize; 3]) {
    let mut calls = reads();
    let people = of_person(asker);
    for (number, (method, body)) in people.iter().enumerate() {
        let of = |id: &str| {
            let body = if *method == "PUT" { person(id, body.clone()) } else { body.clone() };
            Call::send(method, path("Individual", id), body)
        };
        calls.push(of(COMMON).in_batch("transaction"));
        calls.push(of(&format!("X{}", 2 * number)));
        calls.push(of(&format!("X{}", 2 * number + 1)).in_batch("batch"));
    }
    let groups = of_group("").len();
    for number in 0..groups {
        let of = |id: &str| of_group(&path("Group", id)).swap_remove(number);
        calls.push(of("G").in_batch("transaction"));
        calls.push(of(&format!("G{}", 2 * number)));
        calls.push(of(&format!("G{}", 2 * number + 1)).in_batch("batch"));
    }
    let memberships = of_membership(asker, 0).len();
    for number in 0..memberships {
        calls.push(of_membership(asker, 0).swap_remove(number).in_batch("transaction"));
        calls.push(of_membership(asker, 2 * number + 1).swap_remove(number));
        calls.push(of_membership(asker, 2 * number + 2).swap_remove(number).in_batch("batch"));
    }
    calls.extend(reads());
    (calls, [2 * people.len(), 2 * groups, 2 * memberships + 1])
}

fn check(asker: Asker) {
    let (calls, counts) = calls(asker);
    let [one, other] = [true, false].map(|holds| World::new(asker, holds, counts));
    let mut problems = Vec::new();
    let mut done = 0;
    for call in &calls {
        let responses = [&one, &other].map(|world| call.ask(&world.client));
        assert!(responses.iter().all(|response| response.status < 500), "{call:?}: {}", responses[0].text());
        done += usize::from(responses[0].status < 300 && call.method != "GET");
        let [one, other] = responses.map(|response| observable(&response));
        if one != other {
            problems.push(format!("{} {} {:?}:\n  {one}\n  {other}", call.method, call.path, call.body));
        }
    }
    assert!(done > 20, "only {done} writes of {} were done, so that little is tested", calls.len());
    assert!(problems.is_empty(), "{} of {} calls differ:\n{}", problems.len(), calls.len(), problems.join("\n"));
    for rule in rules() {
        let [one, other] = [&one, &other].map(|world| decide(&world.client, &rule));
        if one != other {
            problems.push(format!("{rule}:\n  {one:?}\n  {other:?}"));
        }
    }
    assert!(problems.is_empty(), "{} rules differ:\n{}", problems.len(), problems.join("\n"));
    // Something is hidden indeed.
    let seen = |world: &World| world.writer.get(&path("ProgramMembership", "M0")).expect(200).json()["program"].take();
    assert_ne!(seen(&one), seen(&other));
}

#[test]
fn no_response_reveals_restricted_fields_to_a_client() {
    check(Asker::Limited);
}

#[test]
fn no_response_reveals_replaced_values_to_a_write_only_client() {
    check(Asker::WriteOnly);
}

#[test]
fn no_response_reveals_data_without_consent() {
    check(Asker::Consent);
}

#[test]
fn a_write_only_client_does_not_find_the_head_of_a_household() {
    let app = TestApp::start();
    let writer = app.client(&["individual:create", "group:all"]);
    for id in ["P", "Q", "R"] {
        drop(writer.create_individual(&person(id, json!({}))));
    }
    drop(writer.create_group(&household("G", &[("Q", "spouse"), ("P", "head")])));
    let client = app.client(&["group:update"]);
    let add = |id: &str, role: &str| {
        let member = entity(id, json!({"role": format!("{ROLE}#{role}")}));
        client.post(&format!("{}/$add-member", path("Group", "G")), &member)
    };
    // The head, another member, and an individual that is none.
    let refused = ["P", "Q", "R"].map(|id| add(id, "head").expect(422));
    for response in &refused {
        assert_eq!(errors(&response.json()), [("role".to_owned(), "second_head".to_owned())]);
        assert_eq!(observable(response), observable(&refused[0]));
    }
    let group = writer.get(&path("Group", "G")).expect(200).json();
    assert_eq!((&group["meta"]["version_id"], group["member"].as_array().unwrap().len()), (&json!("1"), 2));
    // Other roles stay possible, and so does a head once there is none.
    for id in ["Q", "R", "P"] {
        drop(add(id, "spouse").expect(201));
    }
    drop(add("Q", "head").expect(201));
}
