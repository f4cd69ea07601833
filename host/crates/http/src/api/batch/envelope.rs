//! The envelope of a batch: its requests, read before any is executed. The `url` of an entry is written as on the wire,
//! below the API's base path.

use axum::http::{HeaderValue, Method, Uri};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::api::dto::reader::{ObjectReader, Problems, kind};
use crate::api::endpoint::BASE_PATH;
use daftar_domain::error::AppError;

/// Maximum number of entries in a transaction.
pub const TRANSACTION_ENTRIES_MAX: usize = 50;
/// Maximum number of entries in a batch.
pub const BATCH_ENTRIES_MAX: usize = 500;
/// Maximum length of `full_url` and `if_match`, in bytes.
const TEXT_BYTES_MAX: usize = 500;
/// Prefix of a placeholder.
pub(super) const PLACEHOLDER: &str = "urn:uuid:";

daftar_domain::named_enum! {
    /// Atomicity of the entries.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Kind {
        /// Atomic.
        Transaction = "transaction",
        /// Independent.
        Batch = "batch",
    }
}

/// Parsed requests of a batch.
#[derive(Debug)]
pub struct Envelope {
    /// Atomicity of the entries.
    pub kind: Kind,
    /// At least one entry.
    pub entries: Vec<Entry>,
}

/// One request of a batch.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Name by which other entries refer to the record that this one creates.
    pub placeholder: Option<Uuid>,
    /// GET, POST, PUT, PATCH or DELETE.
    pub method: Method,
    /// Path, beginning with the API's base path.
    pub uri: Uri,
    /// Record versions that a change accepts.
    pub if_match: Option<HeaderValue>,
    /// The body.
    pub resource: Option<Map<String, Value>>,
}

/// Reads an envelope.
///
/// # Errors
/// [`AppError::Invalid`] with every problem of the envelope, each under `entry[<n>]`.
pub fn read(members: Map<String, Value>) -> Result<Envelope, AppError> {
    let mut problems = Problems::default();
    let mut reader = ObjectReader::root(members);
    let named = reader.text("type", 100, &mut problems);
    let kind = named.and_then(|name| Kind::ALL.into_iter().find(|kind| kind.name() == name));
    let items = match reader.take("entry") {
        Some(Value::Array(items)) => items,
        Some(other) => {
            problems.add("entry", "wrong_type", format!("must be a list, not {}", self::kind(&other)));
            Vec::new()
        }
        None => {
            problems.add("entry", "required", "the list of requests is required");
            Vec::new()
        }
    };
    reader.finish(&mut problems);
    let Some(kind) = kind else {
        let message = "it says what this is: `transaction` (all or nothing) or `batch` (each entry by itself)";
        problems.add("type", "required", message);
        return Err(refused(problems));
    };
    let entries_max = match kind {
        Kind::Transaction => TRANSACTION_ENTRIES_MAX,
        Kind::Batch => BATCH_ENTRIES_MAX,
    };
    if items.is_empty() || items.len() > entries_max {
        let message =
            format!("{} entries are given, and 1 to {entries_max} are taken in a {}", items.len(), kind.name());
        problems.add("entry", if items.is_empty() { "empty" } else { "too_many" }, message);
        return Err(refused(problems));
    }
    let mut entries: Vec<Entry> = Vec::with_capacity(items.len());
    for (at, item) in items.into_iter().enumerate() {
        entries.extend(read_entry(&format!("entry[{at}]"), kind, item, &mut problems));
    }
    let envelope = problems.finish(Envelope { kind, entries })?;
    check_placeholders(&envelope.entries)?;
    Ok(envelope)
}

fn refused(problems: Problems) -> AppError {
    problems.finish(()).err().unwrap_or_else(|| AppError::internal("an envelope was rejected without a problem"))
}

fn read_entry(at: &str, kind: Kind, item: Value, problems: &mut Problems) -> Option<Entry> {
    let mut reader = ObjectReader::at(at.to_owned(), item, problems);
    let full_url = reader.text("full_url", TEXT_BYTES_MAX, problems);
    let placeholder = full_url.and_then(|text| read_placeholder(&reader.path_of("full_url"), &text, problems));
    let resource = reader.members("resource", problems);
    let has_resource = resource.is_some() || reader.is_problem("resource", problems);
    let request = reader.take("request");
    let path = reader.path_of("request");
    reader.finish(problems);
    let Some(request) = request else {
        problems.add(path, "required", "an entry has a request `{method, url}`");
        return None;
    };
    let mut reader = ObjectReader::at(path, request, problems);
    let method = reader.text("method", 20, problems);
    let url = reader.text("url", URL_BYTES_MAX, problems);
    let if_match = reader.text("if_match", TEXT_BYTES_MAX, problems);
    for (name, is_given) in [("method", method.is_some()), ("url", url.is_some())] {
        if !is_given && !reader.is_problem(name, problems) {
            problems.add(reader.path_of(name), "required", "a request has a method and a url");
        }
    }
    let method = method.and_then(|text| read_method(&reader.path_of("method"), &text, kind, problems));
    let uri = url.and_then(|text| problems.accept(&reader.path_of("url"), "invalid_url", read_url(&text)));
    let if_match = if_match.and_then(|text| {
        let value = HeaderValue::from_str(&text).map_err(|_| "must be the `etag` of a response, such as `\"3\"`");
        problems.accept(&reader.path_of("if_match"), "invalid", value)
    });
    reader.finish(problems);
    let method = method?;
    let takes_body = method != Method::GET && method != Method::DELETE;
    if takes_body != has_resource {
        let (code, message) = if takes_body {
            ("required", format!("a {method} needs the body of the request as its resource"))
        } else {
            ("unexpected", format!("a {method} has no resource"))
        };
        problems.add(format!("{at}.resource"), code, message);
    }
    if placeholder.is_some() && method != Method::POST {
        let message = "only what a POST creates can be referred to by a placeholder";
        problems.add(format!("{at}.full_url"), "invalid", message);
    }
    Some(Entry { placeholder, method, uri: uri?, if_match, resource })
}

fn read_placeholder(path: &str, text: &str, problems: &mut Problems) -> Option<Uuid> {
    let uuid = text.strip_prefix(PLACEHOLDER).and_then(|text| Uuid::try_parse(text).ok());
    problems.require(path, "invalid", uuid, || {
        format!("it is a placeholder `{PLACEHOLDER}<uuid>`, by which other entries refer to what this one creates")
    })
}

fn read_method(path: &str, text: &str, kind: Kind, problems: &mut Problems) -> Option<Method> {
    let known = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let method = known.into_iter().find(|method| method.as_str() == text);
    let message = || "it is one of `GET`, `POST`, `PUT`, `PATCH`, `DELETE`";
    let method = problems.require(path, "invalid", method, message)?;
    if kind == Kind::Transaction && method == Method::GET {
        let message =
            "a transaction writes, and does not read: put reads into a `batch`, or read what was written afterwards";
        problems.add(path, "not_in_transaction", message);
        return None;
    }
    Some(method)
}

fn check_placeholders(entries: &[Entry]) -> Result<(), AppError> {
    let mut problems = Problems::default();
    for (at, entry) in entries.iter().enumerate() {
        let Some(placeholder) = entry.placeholder else { continue };
        if let Some(earlier) = entries.iter().take(at).position(|other| other.placeholder == Some(placeholder)) {
            problems.add(
                format!("entry[{at}].full_url"),
                "duplicate",
                format!("entry[{earlier}] has the same placeholder"),
            );
        }
    }
    problems.finish(())
}

/// Maximum length of a URL, in bytes: the longest identifier, percent-encoded, with space for a query.
pub const URL_BYTES_MAX: usize = 8_192;

/// Reads `Individual/…`, `/Individual/…` or `/api/v2/Individual/…`.
///
/// # Errors
/// A sentence with the problem and the correct form.
pub(super) fn read_url(text: &str) -> Result<Uri, String> {
    if text.contains('#') {
        return Err("a `#` ends a URL: encode # as %23".to_owned());
    }
    let path = text.split('?').next().unwrap_or_default();
    let first = path.split('/').next().unwrap_or_default();
    if text.starts_with("//") || first.contains(':') {
        return Err(
            "it is relative to this API, such as `Individual/<system>%23<code>|<value>`: leave scheme and host out"
                .to_owned(),
        );
    }
    let below = path.strip_prefix(BASE_PATH).filter(|rest| rest.starts_with('/')).unwrap_or(path);
    let below = below.strip_prefix('/').unwrap_or(below);
    let resource = percent_decode_str(below.split('/').next().unwrap_or_default()).decode_utf8_lossy();
    if resource.is_empty() {
        return Err("it names no resource, such as `Individual`".to_owned());
    }
    if resource == "$batch" {
        return Err("a batch cannot contain another batch".to_owned());
    }
    let query = text.split_once('?').map(|(_, query)| format!("?{query}")).unwrap_or_default();
    let whole = format!("{BASE_PATH}/{below}{query}");
    whole.parse().map_err(|_| "it holds characters that a URL cannot: percent-encode them".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_value(body: Value) -> Result<Envelope, Vec<(String, &'static str)>> {
        let Value::Object(members) = body else { unreachable!() };
        read(members).map_err(|error| match error {
            AppError::Invalid(problems) => problems.into_iter().map(|problem| (problem.field, problem.code)).collect(),
            other => panic!("{other}"),
        })
    }

    fn refusal(body: Value) -> Vec<(String, &'static str)> {
        read_value(body).unwrap_err()
    }

    fn gets(count: usize) -> Value {
        json!(vec![json!({"request": {"method": "GET", "url": "Individual"}}); count])
    }

    fn deletes(count: usize) -> Value {
        json!(vec![json!({"request": {"method": "DELETE", "url": "Consent/x"}}); count])
    }

    #[test]
    fn takes_as_many_entries_as_each_kind_may_have() {
        for (kind, entries, is_taken) in [
            ("batch", gets(0), false),
            ("batch", gets(1), true),
            ("batch", gets(500), true),
            ("batch", gets(501), false),
            ("transaction", deletes(50), true),
            ("transaction", deletes(51), false),
        ] {
            let outcome = read_value(json!({"type": kind, "entry": entries}));
            assert_eq!(outcome.is_ok(), is_taken, "{kind}: {outcome:?}");
        }
    }

    #[test]
    fn names_everything_that_is_wrong_with_its_place() {
        let found = refusal(json!({"type": "transaction", "extra": 1, "entry": [
            {"request": {"method": "GET", "url": "Individual"}},
            {"request": {"method": "post", "url": "https://elsewhere/Individual"}, "resource": {}},
            {"request": {"method": "POST", "url": "Individual"}},
            {"request": {"method": "DELETE", "url": "Consent/x"}, "resource": {}},
            {"request": {"method": "PUT", "url": "Individual/x", "if_match": "\"1\"", "if_none_match": "*"}, "resource": 3, "full_url": "x"},
            {"resource": {}},
            7,
        ]}));
        let found: Vec<String> = found.into_iter().map(|(field, code)| format!("{field}: {code}")).collect();
        insta::assert_snapshot!(found.join("\n"), @r"
        extra: unknown_field
        entry[0].request.method: not_in_transaction
        entry[1].request.method: invalid
        entry[1].request.url: invalid_url
        entry[2].resource: required
        entry[3].resource: unexpected
        entry[4].full_url: invalid
        entry[4].resource: wrong_type
        entry[4].request.if_none_match: unknown_field
        entry[5].request: required
        entry[6]: wrong_type
        entry[6].request: required
        ");
    }

    #[test]
    fn a_placeholder_is_unique_and_only_on_a_create() {
        let uuid = "urn:uuid:6f8f3b1a-0c2b-4b4e-9d3e-0123456789ab";
        let create = |full_url: &str| json!({"full_url": full_url, "request": {"method": "POST", "url": "Individual"}, "resource": {}});
        let twice = refusal(
            json!({"type": "transaction", "entry": [create(uuid), create(&uuid.to_uppercase().replace("URN:UUID", "urn:uuid"))]}),
        );
        assert_eq!(twice, [("entry[1].full_url".to_owned(), "duplicate")]);
        let put = json!({"full_url": uuid, "request": {"method": "PUT", "url": "Individual/x"}, "resource": {}});
        assert_eq!(refusal(json!({"type": "batch", "entry": [put]})), [("entry[0].full_url".to_owned(), "invalid")]);
        assert_eq!(
            refusal(json!({"type": "batch", "entry": [create("urn:uuid:7")]})),
            [("entry[0].full_url".to_owned(), "invalid")]
        );
    }
}

#[cfg(test)]
mod url_tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_relative_url_is_one() {
        for text in [
            "Individual/urn:x%23a|1?_elements=name",
            "/Individual/urn:x%23a|1?_elements=name",
            "/api/v2/Individual/urn:x%23a|1?_elements=name",
        ] {
            assert_eq!(read_url(text).unwrap().to_string(), "/api/v2/Individual/urn:x%23a|1?_elements=name", "{text}");
        }
        assert_eq!(read_url("api/v2/Individual").unwrap(), "/api/v2/api/v2/Individual", "only with its slash");
        assert!(read_url("Individual/urn:x%23a%7C1/%24add-member").is_ok());
    }

    #[test]
    fn absolute_and_invalid_urls_are_rejected() {
        for (text, why) in [
            ("https://register.example/api/v2/Individual", "leave scheme and host out"),
            ("HTTP:Individual", "leave scheme and host out"),
            ("//register.example/Individual", "leave scheme and host out"),
            ("Individual/urn:x#a|1", "encode # as %23"),
            ("$batch", "cannot contain another batch"),
            ("/api/v2/%24batch", "cannot contain another batch"),
            ("", "names no resource"),
            ("/", "names no resource"),
            ("/api/v2/", "names no resource"),
            ("?_count=1", "names no resource"),
            ("Individual/a b", "percent-encode"),
            ("Individual/\u{7f}", "percent-encode"),
        ] {
            let refusal = read_url(text).unwrap_err();
            assert!(refusal.contains(why), "{text}: {refusal}");
        }
    }
}
