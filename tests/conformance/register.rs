//! Content of the register that is fuzzed.

use std::path::Path;

use daftar_tests::records::NATIONAL_ID;
use daftar_tests::{ApiClient, Credentials, Server, process, token};
use serde_json::{Value, json};

const RESOURCES: [&str; 7] =
    ["individual", "group", "program", "program_membership", "consent", "vocabulary", "eligibility"];
const ORGANIZATION: &str = "Ministry of Health";
const TAX_ID: &str = "urn:svc:vocab:id-type#tax_id";

/// Fills the register and returns the token of a client with all scopes.
pub fn fill(server: &Server, data_dir: &Path) -> String {
    let scopes: Vec<String> = RESOURCES.iter().map(|resource| format!("{resource}:all")).collect();
    let mut arguments = vec!["client", "create", "--name", "conformance", "--organization", ORGANIZATION, "--json"];
    scopes.iter().for_each(|scope| arguments.extend(["--scope", scope]));
    arguments.extend(["--rate-limit-per-minute", "10000000", "--rate-limit-per-day", "10000000"]);
    let credentials = Credentials::read(&process::run(data_dir, &arguments).expect_success().json());
    let token = token::fetch(&server.connection(), &credentials);
    let client = ApiClient::new(server.connection(), credentials, token.clone());
    for number in 1..=30 {
        drop(client.create_individual(&person(number)));
    }
    drop(client.create_group(&household()));
    let program = format!("{TAX_ID}|PENSION");
    let create =
        ["program", "create", "--identifier", &program, "--name", "Old-age pension", "--target-type", "individual"];
    drop(process::run(data_dir, &create).expect_success());
    let membership = json!({
        "program": format!("Program/{program}"), "beneficiary": reference(1), "status": "enrolled",
    });
    drop(client.post("/ProgramMembership", &membership).expect(201));
    token
}

fn person(number: u32) -> Value {
    json!({
        "identifier": [{"system": NATIONAL_ID, "value": format!("PERSON-{number}")}],
        "name": {"given": "Amina", "family": format!("Diallo {number}")},
        "birth_date": format!("19{}-03-08", 30 + number),
        "gender": format!("urn:iso:std:iso:5218#{}", number % 3),
        "country": "urn:iso:std:iso:3166-1#SN",
    })
}

fn household() -> Value {
    json!({
        "identifier": [{"system": TAX_ID, "value": "HOUSEHOLD-1"}],
        "group_type": "urn:svc:vocab:group-type#household",
        "member": [{"entity": {"reference": reference(1)}, "role": "urn:svc:vocab:relationship#head"}],
    })
}

fn reference(number: u32) -> String {
    format!("Individual/{NATIONAL_ID}|PERSON-{number}")
}
