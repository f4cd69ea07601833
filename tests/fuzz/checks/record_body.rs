//! Bodies of records. The first byte chooses the kind of record.

use serde_json::{Map, Value, json};

use daftar_domain::consent::ConsentId;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::extension::ExtensionFields;
use daftar_http::api::dto::reader::Problems;
use daftar_http::api::dto::record::{
    Purpose, merge, read_consent, read_group, read_individual, read_membership, read_program,
};
use daftar_http::api::extract::body::parse_object;

/// Maximum number of problems, and length of the texts of one, in bytes.
const PROBLEMS_MAX: usize = 100;
const TEXT_BYTES_MAX: usize = 2_000;
/// A member that no record has, and that is far from every name.
const UNKNOWN: &str = "qqqqqqqqqqqqqqqq";

pub fn check(input: &[u8]) {
    let Some((choice, rest)) = input.split_first() else { return };
    let members = match parse_object(rest) {
        Ok(members) => members,
        Err(error) => {
            let detail = &error.0.detail;
            assert!(!detail.is_empty() && detail.len() <= TEXT_BYTES_MAX, "{detail}");
            return;
        }
    };
    let again = parse_object(&serde_json::to_vec(&members).unwrap()).expect("a body that was read can be written");
    assert_eq!(again, members);

    let found = problems(*choice, members.clone());
    assert!(found.len() <= PROBLEMS_MAX, "{}", found.len());
    found.iter().for_each(is_usable);
    // One more member is one more problem, and changes no other.
    if found.len() < PROBLEMS_MAX && !members.contains_key(UNKNOWN) {
        let mut more = members.clone();
        more.insert(UNKNOWN.to_owned(), json!(1));
        let mut now = problems(*choice, more);
        let added = now.iter().position(|problem| problem.field == UNKNOWN).expect("an unknown member is a problem");
        assert_eq!(now.remove(added).code, "unknown_field");
        assert_eq!(now.len(), found.len(), "{now:?} instead of {found:?}");
    }
    // A patch that is applied twice does what it does once (RFC 7396).
    let Value::Object(mut body) =
        json!({"name": {"family": "Diallo"}, "gender": "urn:x#1", "address": [{"line": ["1"]}]})
    else {
        return;
    };
    merge(&mut body, members.clone());
    let once = body.clone();
    merge(&mut body, members);
    assert_eq!(body, once);
}

/// The problems of a body of that kind of record.
fn problems(choice: u8, members: Map<String, Value>) -> Vec<FieldProblem> {
    let declared = ExtensionFields::default();
    let mut found = Problems::default();
    match choice % 6 {
        0 => drop(read_individual(members, &declared, &mut found)),
        1 => drop(read_group(members, &declared, &mut found)),
        2 => drop(read_program(members, &mut found)),
        3 => drop(read_membership(members, Purpose::Create, &mut found)),
        4 => drop(read_membership(members, Purpose::Replace, &mut found)),
        _ => drop(read_consent(ConsentId::from_bytes([1; 16]), members, &mut found)),
    }
    match found.finish(()) {
        Ok(()) => Vec::new(),
        Err(AppError::Invalid(problems)) => problems,
        Err(other) => panic!("{other}"),
    }
}

/// A problem names a place, is short, and is one line.
fn is_usable(problem: &FieldProblem) {
    let FieldProblem { field, code, message } = problem;
    assert!(!field.is_empty() && !code.is_empty() && !message.is_empty(), "{problem:?}");
    assert!(field.len() <= TEXT_BYTES_MAX && message.len() <= TEXT_BYTES_MAX, "{problem:?}");
    assert!(!field.contains(char::is_control) && !message.contains(char::is_control), "{problem:?}");
}
