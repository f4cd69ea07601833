//! Query strings of searches of every kind of record: decoding, filters, order and page.

use daftar_domain::extension::ExtensionFields;
use daftar_domain::record::RecordKind;
use daftar_domain::search::order::sort_fields;
use daftar_http::api::error::ApiError;
use daftar_http::api::extract::filters::{self, ENVELOPE, Filters, NamedFilter};
use daftar_http::api::extract::query::{Parameters, reference, subject_reference};
use daftar_http::api::routes::program;

/// Maximum length of a message, in bytes: it may list every parameter of a call.
const MESSAGE_BYTES_MAX: usize = 8_000;
/// Maximum number of words of one filter.
const WORDS_MAX: usize = 50;

static NAMED: [NamedFilter; 4] =
    [("identifier", None), ("name", Some("name")), ("active", Some("active")), ("address", Some("address"))];

pub fn check(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let Some(parameters) = read_or_explained(Parameters::parse(text)) else { return };
    let written = parameters.encode_without(&[]);
    let again = Parameters::parse(&written).expect("a query that was read can be written");
    assert_eq!(again.encode_without(&[]), written);
    assert!(again.names().eq(parameters.names()), "the names are the same");
    assert_eq!(again.sorted_without(&[]), parameters.sorted_without(&[]));
    for kind in RecordKind::ALL {
        of_kind(kind, &parameters);
    }
    if let Some(programs) = read_or_explained(program::read_conditions(&parameters)) {
        assert!(programs.name_words.len() <= WORDS_MAX);
    }
    for text in parameters.all("program") {
        let _program = read_or_explained(reference("program", text, &[RecordKind::Program]));
    }
    for text in parameters.all("beneficiary") {
        if let Some((kinds, _)) = read_or_explained(subject_reference("beneficiary", text)) {
            assert!(!kinds.is_empty(), "a beneficiary is an individual or a group");
        }
    }
    let _roles = read_or_explained(filters::codes(&parameters, "membership_role"));
    if let Some(page) = read_or_explained(parameters.page()) {
        assert!(page.count >= 1);
    }
    let _updated = read_or_explained(filters::last_updated(&parameters));
}

fn of_kind(kind: RecordKind, parameters: &Parameters) {
    let filters = Filters::new(kind, &NAMED, &ExtensionFields::default());
    let names = filters.names();
    let known: Vec<&str> = names.iter().map(String::as_str).chain(ENVELOPE).collect();
    let is_known = read_or_explained(parameters.expect_only(&known)).is_some();
    assert_eq!(is_known, parameters.names().all(|name| known.contains(&name)));
    if let Some(read) = read_or_explained(filters.conditions(parameters)) {
        assert!(read.codes.len() <= parameters.names().count(), "a condition for each parameter at most");
        assert!(read.texts.name_words.len() <= WORDS_MAX && read.texts.address_words.len() <= WORDS_MAX);
    }
    let _identifiers = read_or_explained(filters::identifiers(parameters, "identifier"));
    if let Some(keys) = read_or_explained(filters::sort(parameters, sort_fields(kind))) {
        let mut fields: Vec<_> = keys.iter().map(|key| key.field.name()).collect();
        let count = fields.len();
        fields.sort_unstable();
        fields.dedup();
        assert_eq!(fields.len(), count, "no field sorts twice");
    }
}

/// The value; none for an error, which must have a short text.
fn read_or_explained<T>(read: Result<T, ApiError>) -> Option<T> {
    read.inspect_err(|error| {
        let detail = &error.0.detail;
        assert!(!detail.is_empty() && detail.len() <= MESSAGE_BYTES_MAX, "{} bytes: {detail}", detail.len());
        assert!(!detail.contains(char::is_control), "{detail:?} is one line");
    })
    .ok()
}
