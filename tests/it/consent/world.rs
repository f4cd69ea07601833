//! A complete register, and the same register without the records hidden from a client whose legal basis is consent.
//!
//! **Invariant:** the records of both are created in the same order with the same bodies; additional records are hidden from the client.

use daftar_tests::records::{FEMALE, HOUSEHOLD, MALE, NATIONAL_ID, ROLE, path, person, reference, with};
use daftar_tests::{ApiClient, TestApp};
use serde_json::{Value, json};

use crate::program;

/// The client's organization.
pub const MINISTRY: &str = "Ministry of Health";
/// All scopes for records.
pub const SCOPES: &[&str] =
    &["individual:all", "group:all", "program:all", "program_membership:all", "consent:all", "eligibility:all"];

/// Extent of the register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// Only records with consent.
    Consented,
    /// Only the programs.
    Programs,
}

/// A register with a client that sees consented records.
pub struct World {
    pub app: TestApp,
    /// The client.
    pub client: ApiClient,
    /// The client that registered all records and sees all.
    pub writer: ApiClient,
    /// The consents that the client can read, in the order in which they were given.
    pub consents: Vec<String>,
    pub extent: Extent,
}

/// A client of an organization that sees consented records.
pub fn consent_client(app: &TestApp, more: Value) -> ApiClient {
    app.client_of(&app.admin().create_client(&with(
        json!({
            "name": "consenting", "legal_basis": "consent", "organization": MINISTRY, "scopes": SCOPES,
            "rate_limit_per_minute": 1_000_000, "rate_limit_per_day": 1_000_000,
        }),
        more,
    )))
}

/// Records a consent to the ministry and returns its name.
#[track_caller]
pub fn give(app: &TestApp, subject: &str, more: Value) -> String {
    let body = json!({
        "subject": subject, "grantee": MINISTRY, "scopes": ["individual", "group", "program_membership"],
        "effective_date": "2026-03-01",
    });
    let given = app.admin().request("POST", "/consents").json(&with(body, more)).send().expect(201).json();
    given["consent_id"].as_str().unwrap().to_owned()
}

/// A reference to a group in a body.
pub fn group_reference(id: &str) -> String {
    format!("Group/{NATIONAL_ID}|{id}")
}

fn program_reference(id: &str) -> String {
    format!("Program/{NATIONAL_ID}|{id}")
}

fn former(value: &str) -> Value {
    json!({"system": NATIONAL_ID, "value": value, "period": {"end": "2020-12-31"}})
}

fn own(value: &str) -> Value {
    json!({"system": NATIONAL_ID, "value": value})
}

impl World {
    /// A register of that extent.
    pub fn new(extent: Extent) -> Self {
        let app = TestApp::start();
        let (client, writer) = (consent_client(&app, json!({})), app.client(SCOPES));
        let mut world = Self { app, client, writer, consents: Vec::new(), extent };
        world.add_programs();
        if extent != Extent::Programs {
            world.add_people();
            world.add_groups();
            world.add_memberships();
        }
        world
    }

    fn has_hidden(&self) -> bool {
        self.extent == Extent::Whole
    }

    fn add_programs(&self) {
        for (id, more) in
            [("P", json!({"name": "Pension"})), ("G", json!({"name": "Cash for households", "target_type": "group"}))]
        {
            program::create(&self.app, id, more);
        }
    }

    fn hidden_person(&self, id: &str, more: Value) {
        if self.has_hidden() {
            drop(self.writer.create_individual(&person(id, more)));
        }
    }

    fn hidden_consent(&self, id: &str, more: Value) -> Option<String> {
        self.has_hidden().then(|| give(&self.app, &reference(id), more))
    }

    fn consent(&mut self, subject: &str, more: Value) {
        let id = give(&self.app, subject, more);
        self.consents.push(id);
    }

    /// 1 to 4 are visible, 2 of them in part; 6 is in both registers, visible as a beneficiary alone; H0 to H8 are
    /// hidden.
    fn add_people(&mut self) {
        let woman = |given: &str| json!({"name": {"given": given, "family": "Diallo"}, "gender": FEMALE, "birth_date": "1950-01-01"});
        self.hidden_person("H0", woman("Amina"));
        let more = with(woman("Amina"), json!({"address": [{"district": "Kano", "region": "North"}]}));
        drop(self.writer.create_individual(&person("1", more)));
        self.hidden_person("H1", with(woman("Awa"), json!({"address": [{"district": "Kano", "region": "North"}]})));
        let man = json!({"name": {"given": "Moussa"}, "gender": MALE, "birth_date": "1980-05-05", "active": false});
        drop(self.writer.create_individual(&person("2", man)));
        for id in ["H2", "H3", "H4", "H5"] {
            self.hidden_person(id, woman("Hawa"));
        }
        self.hidden_person("H7", json!({"identifier": [own("H7"), former("TAKEN-OVER")]}));
        self.hidden_person("H8", json!({"identifier": [own("H8"), former("CARRIED")]}));
        self.hidden_person("H9", json!({"identifier": [own("H9"), own("NOW-HIDDEN")]}));
        let third = json!({
            "identifier": [own("3"), own("TAKEN-OVER"), former("CARRIED"), former("NOW-HIDDEN")],
            "name": {"given": "Grace"}, "birth_date": "2000-02-29",
        });
        drop(self.writer.create_individual(&person("3", third)));
        drop(self.writer.create_individual(&person("4", json!({"gender": FEMALE, "birth_date": "1999-12-31"}))));
        drop(self.writer.create_individual(&person("6", json!({"identifier": [own("6"), own("6-OTHER")]}))));
        self.consent(&reference("1"), json!({}));
        self.consent(&reference("2"), json!({"scopes": ["individual"], "fields": ["name", "birth_date"]}));
        self.consent(&reference("3"), json!({"scopes": ["individual"], "expiry_date": "2026-03-01"}));
        self.consent(
            &reference("4"),
            json!({"scopes": ["individual"], "fields": ["gender"], "purpose": "vaccination"}),
        );
        self.consent(&reference("4"), json!({"scopes": ["individual"], "fields": ["name"]}));
        self.consent(&reference("6"), json!({"scopes": ["program_membership"]}));
        drop(self.hidden_consent("H2", json!({"effective_date": "2026-01-01", "expiry_date": "2026-02-28"})));
        drop(self.hidden_consent("H3", json!({"effective_date": "2026-03-02"})));
        drop(self.hidden_consent("H4", json!({"grantee": "World Food Programme"})));
        if let Some(id) = self.hidden_consent("H5", json!({})) {
            drop(self.app.admin().request("POST", &format!("/consents/{id}/withdraw")).send().expect(200));
        }
    }

    /// 20 and 23 are visible, 22 in part; 21 is hidden. Only 20 has a visible member and a relationship to a visible
    /// group.
    fn add_groups(&mut self) {
        let member =
            |id: &str, role: &str| json!({"entity": {"reference": reference(id)}, "role": format!("{ROLE}#{role}")});
        let members = |all: &[(&str, &str)]| -> Vec<Value> {
            let there = all.iter().filter(|(id, _)| self.has_hidden() || !id.starts_with('H'));
            there.map(|(id, role)| member(id, role)).collect()
        };
        let group = |id: &str, name: &str, all: &[(&str, &str)]| json!({"identifier": [own(id)], "name": name, "group_type": HOUSEHOLD, "member": members(all)});
        let households = [
            ("20", "Diallo", &[("H1", "child"), ("1", "head"), ("H2", "spouse"), ("2", "child")][..], false),
            ("21", "Hidden", &[("1", "child"), ("H1", "head")], true),
            ("22", "In part", &[("1", "child")], false),
            ("23", "Obscured", &[("H1", "head")], false),
        ];
        for (id, name, all, is_hidden) in households {
            if self.has_hidden() || !is_hidden {
                drop(self.writer.create_group(&group(id, name, all)));
            }
        }
        self.relate("20", &["21", "22"]);
        self.relate("23", &["21"]);
        self.consent(&group_reference("20"), json!({}));
        self.consent(&group_reference("22"), json!({"scopes": ["group"], "fields": ["name"]}));
        self.consent(&group_reference("23"), json!({"scopes": ["group"]}));
    }

    /// Records relationships of a group to other groups, as far as they exist.
    fn relate(&self, group: &str, others: &[&str]) {
        let there = others.iter().filter(|other| self.has_hidden() || **other != "21");
        let kind = format!("{ROLE}#affiliated_with");
        let relationships: Vec<Value> =
            there.map(|other| json!({"target": {"reference": group_reference(other)}, "type": kind})).collect();
        let body = json!({"relationship": relationships});
        drop(self.writer.request("PATCH", &path("Group", group)).json(&body).send().expect(200));
    }

    /// 1 and 6 in the pension, 20 in cash for households; H1 and 2 in the pension are hidden.
    fn add_memberships(&mut self) {
        let places = [
            ("P", reference("H1"), "enrolled", true),
            ("P", reference("1"), "enrolled", false),
            ("P", reference("2"), "draft", true),
            ("P", reference("6"), "paused", false),
            ("G", group_reference("20"), "enrolled", false),
            ("G", group_reference("22"), "draft", true),
        ];
        for (at, (program, beneficiary, status, is_hidden)) in places.into_iter().enumerate() {
            if self.has_hidden() || !is_hidden {
                let body = json!({
                    "identifier": [own(&format!("M{at}"))], "program": program_reference(program),
                    "beneficiary": beneficiary, "status": status,
                });
                drop(self.writer.post("/ProgramMembership", &body).expect(201));
            }
        }
    }
}
