//! For every field of every resource, two possible values.

use daftar::domain::field::fields_of;
use daftar::domain::scope::Resource;
use daftar_tests::records::{FEMALE, MALE, NATIONAL_ID, ROLE, reference};
use serde_json::{Value, json};

/// One field, with two different values.
pub struct Sample {
    /// Resource of the field.
    pub resource: Resource,
    /// Its name in grants.
    pub field: String,
    /// Two values.
    pub values: [Value; 2],
    /// True if a record may lack it.
    pub is_optional: bool,
}

impl Sample {
    fn new(resource: Resource, field: &str, values: [Value; 2], is_optional: bool) -> Self {
        Self { resource, field: field.to_owned(), values, is_optional }
    }

    /// The members of a body that give the field that value.
    pub fn members(&self, value: &Value) -> Value {
        match self.field.split_once('.') {
            Some((whole, key)) => json!({whole: {key: value}}),
            None => json!({self.field.as_str(): value}),
        }
    }

    /// The fields that contain a part of this one: a client without access to it has no access to them.
    pub fn is_revealed_by(&self, field: &str) -> bool {
        let derived: &[&str] = match (self.resource, self.field.as_str()) {
            (Resource::Group, "member") => &["quantity"],
            _ => &[],
        };
        field == self.field || derived.contains(&field)
    }

    /// A name that identifies the records of this field.
    pub fn name(&self) -> String {
        format!("{}-{}", self.resource.name(), self.field)
    }
}

/// Fields for which no test can give two values, with the reason.
const LEFT_OUT: &[(Resource, &str, &str)] = &[
    (Resource::Individual, "identifier", "always shown"),
    (Resource::Group, "identifier", "always shown"),
    (Resource::Program, "identifier", "always shown"),
    (Resource::ProgramMembership, "identifier", "always shown"),
    (Resource::Consent, "consent_id", "always shown"),
    (Resource::Consent, "status", "a withdrawal is a version of its own, which `meta` shows"),
    (Resource::Consent, "grantee", "a client that is not its grantee sees no consent at all"),
    (Resource::Group, "quantity", "told by `member`"),
    (Resource::Individual, "group_membership", "told by `member` of groups"),
];

/// A sample of every field of a resource; fails where one is missing.
pub fn samples(resource: Resource) -> Vec<Sample> {
    let is_left_out = |field: &str| LEFT_OUT.iter().any(|(of, left, _)| *of == resource && *left == field);
    let fields = fields_of(resource).iter().filter(|field| !is_left_out(field));
    fields
        .filter_map(|field| {
            let sample = match resource {
                Resource::Individual => of_individual(field),
                Resource::Group => of_group(field),
                Resource::Program => of_program(field),
                Resource::ProgramMembership => of_membership(field),
                Resource::Consent => of_consent(field),
                Resource::Vocabulary | Resource::Eligibility | Resource::Identifier => None,
            };
            let (name, values, is_optional) = sample?;
            Some(Sample::new(resource, name, values, is_optional))
        })
        .collect()
}

type Values = Option<(&'static str, [Value; 2], bool)>;

fn codes(field: &'static str, namespace: &str, codes: [&str; 2]) -> Values {
    Some((field, codes.map(|code| json!(format!("{namespace}#{code}"))), true))
}

fn lists(field: &'static str, namespace: &str, codes: [&str; 2]) -> Values {
    Some((field, codes.map(|code| json!([format!("{namespace}#{code}")])), true))
}

fn of_individual(field: &str) -> Values {
    match field {
        "active" => Some(("active", [json!(true), json!(false)], true)),
        "name" => Some(("name", [json!({"given": "Amina", "family": "Ba"}), json!({"text": "Berta"})], true)),
        "birth_date" => Some(("birth_date", [json!("1950-01-01"), json!("2001-05-05")], true)),
        "birth_date_estimated" => Some(("birth_date_estimated", [json!(true), json!(false)], true)),
        "deceased_date" => Some(("deceased_date", [json!("2020-01-01"), json!("2025-01-01")], true)),
        "registration_date" => registered(),
        "birth_place" => Some(("birth_place", [json!({"region": "R-1"}), json!({"region": "R-2", "city": "C"})], true)),
        "gender" => Some(("gender", [json!(FEMALE), json!(MALE)], true)),
        "marital_status" => codes("marital_status", "urn:un:unsd:pop-census:marital-status", ["S", "M"]),
        "country" => codes("country", "urn:iso:std:iso:3166-1", ["DE", "FR"]),
        "religion" => codes("religion", "urn:un:unsd:pop-census:religion", ["islam", "hinduism"]),
        "ethnocultural_status" => codes("ethnocultural_status", "urn:svc:vocab:ethnocultural", ["indigenous", "mixed"]),
        "education" => codes("education", "urn:unesco:isced:2011", ["1", "2"]),
        "occupation" => codes("occupation", "urn:ilo:isco-08", ["6111", "1311"]),
        "economic_activity" => codes("economic_activity", "urn:ilo:icse-93", ["1", "2"]),
        "pregnancy_status" => codes("pregnancy_status", "urn:svc:vocab:pregnancy-status", ["pregnant", "not"]),
        "languages" => lists("languages", "urn:iso:std:iso:639", ["en", "fr"]),
        "disability_codes" => lists("disability_codes", "urn:who:icf:b", ["b110", "b1100"]),
        "health_conditions" => lists("health_conditions", "urn:who:icd-11", ["1A00", "1A01"]),
        "telecom" => {
            let phone = |value: &str| json!([{"system": "phone", "value": value}]);
            Some(("telecom", [phone("+1"), phone("+2")], true))
        }
        "address" => addresses(),
        "income" => Some(("income", [json!({"amount": 10, "period": "month"}), json!({"amount": 99})], true)),
        "photo" => Some(("photo", [json!("BwgJ"), json!("CgsM")], true)),
        "relationship" => {
            let related =
                |person: &str| json!([{"target": {"reference": reference(person)}, "type": format!("{ROLE}#sibling")}]);
            Some(("relationship", [related("p-1"), related("p-2")], true))
        }
        "extension" => {
            let crops = |code: &str| json!({"crops": [format!("urn:fao:agrovoc#{code}")]});
            Some(("extension.farmer", [crops("c_12332"), crops("c_176")], true))
        }
        other => panic!("give `{other}` of individuals two values in the samples of this test"),
    }
}

fn registered() -> Values {
    Some(("registration_date", [json!("2026-01-01"), json!("2026-02-02")], true))
}

fn addresses() -> Values {
    let address = |district: &str, country: &str| json!([{"district": district, "region": "R", "country": country}]);
    let (one, other) = (address("D-1", "urn:iso:std:iso:3166-1#DE"), address("D-2", "urn:iso:std:iso:3166-1#FR"));
    Some(("address", [one, other], true))
}

fn of_group(field: &str) -> Values {
    let related = |group: &str| {
        let target = json!({"reference": format!("Group/{NATIONAL_ID}|{group}")});
        json!([{"target": target, "type": format!("{ROLE}#parent_organization")}])
    };
    let member = |person: &str| json!([{"entity": {"reference": reference(person)}, "role": format!("{ROLE}#head")}]);
    match field {
        "active" => Some(("active", [json!(true), json!(false)], true)),
        "name" => Some(("name", [json!("One"), json!("Other")], true)),
        "group_type" => codes("group_type", "urn:svc:vocab:group-type", ["household", "family"]),
        "housing_type" => codes("housing_type", "urn:un:unsd:pop-census:housing-type", ["1.1", "1.2.1"]),
        "relationship" => Some(("relationship", [related("g-1"), related("g-2")], true)),
        "address" => addresses(),
        "registration_date" => registered(),
        "member" => Some(("member", [member("p-1"), member("p-2")], true)),
        "extension" => {
            let crops = |code: &str| json!({"crops": [format!("urn:fao:agrovoc#{code}")]});
            Some(("extension.farmer", [crops("c_12332"), crops("c_176")], true))
        }
        other => panic!("give `{other}` of groups two values in the samples of this test"),
    }
}

fn of_program(field: &str) -> Values {
    match field {
        "active" => Some(("active", [json!(true), json!(false)], true)),
        "name" => Some(("name", [json!("One"), json!("Other")], false)),
        "description" => Some(("description", [json!("One"), json!("Other")], true)),
        "program_type" => Some(("program_type", [json!("cash"), json!("food")], true)),
        "target_type" => Some(("target_type", [json!("individual"), json!("group")], false)),
        "eligibility" => Some(("eligibility", [json!("me.active"), json!("not me.active")], true)),
        "enforce_eligibility" => Some(("enforce_eligibility", [json!(true), json!(false)], true)),
        "engine" => Some(("engine", [json!("eligibility-cel"), json!("misbehaving-engine")], true)),
        "period" => Some(("period", [json!({"end": "2026-01-31"}), json!({"start": "2026-01-01"})], true)),
        other => panic!("give `{other}` of programs two values in the samples of this test"),
    }
}

fn of_membership(field: &str) -> Values {
    let program = |id: &str| json!(format!("Program/{NATIONAL_ID}|{id}"));
    match field {
        "program" => Some(("program", [program("PR-1"), program("PR-2")], false)),
        "beneficiary" => Some(("beneficiary", [json!(reference("p-1")), json!(reference("p-2"))], false)),
        "status" => Some(("status", [json!("paused"), json!("draft")], false)),
        "enrollment_date" => Some(("enrollment_date", [json!("2025-01-01"), json!("2025-06-01")], false)),
        "exit_date" => Some(("exit_date", [json!("2025-12-01"), json!("2025-12-02")], false)),
        "exit_reason" => Some(("exit_reason", [json!("moved"), json!("died")], true)),
        "override" => Some(("override", [json!({"reason": "a"}), json!({"reason": "b"})], true)),
        other => panic!("give `{other}` of memberships two values in the samples of this test"),
    }
}

fn of_consent(field: &str) -> Values {
    match field {
        "subject" => Some(("subject", [json!(reference("p-1")), json!(reference("p-2"))], false)),
        "purpose" => Some(("purpose", [json!("vaccination"), json!("cash")], true)),
        "effective_date" => Some(("effective_date", [json!("2026-01-01"), json!("2026-02-01")], false)),
        "expiry_date" => Some(("expiry_date", [json!("2027-01-01"), json!("2027-02-01")], true)),
        "scopes" => Some(("scopes", [json!(["individual"]), json!(["individual", "program_membership"])], false)),
        "fields" => Some(("fields", [json!(["name"]), json!(["gender"])], true)),
        "legal_basis" => Some(("legal_basis", [json!("consent"), json!("public_task")], false)),
        other => panic!("give `{other}` of consents two values in the samples of this test"),
    }
}
