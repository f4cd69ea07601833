//! The tests of the CEL specification through the whole server: each as a rule, in the sandbox. The engine's own crate
//! runs them natively, where values are compared to the last detail.

use daftar_tests::{ApiClient, TestApp};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The tests that do not pass, with the reason.
const EXCLUDED: [(&str, &str); 1] = [(
    "timestamps/duration_converters/get_milliseconds",
    "the crate gives all of a span of time in milliseconds, not the part beyond whole seconds",
)];

/// Length of the expressions that combine tests: about the maximum.
const EXPRESSION_BYTES: usize = 7_500;

/// A value as a literal of an expression.
fn written(json: &Value) -> String {
    let (tag, value) = json.as_object().and_then(|object| object.iter().next()).expect("one tag and a value");
    match tag.as_str() {
        "nullValue" => "null".to_owned(),
        "boolValue" => value.to_string(),
        "int64Value" => format!("({})", value.as_str().unwrap()),
        "uint64Value" => format!("{}u", value.as_str().unwrap()),
        "doubleValue" => number(value),
        "stringValue" => text(value.as_str().unwrap()),
        "bytesValue" => format!("base64.decode('{}')", value.as_str().unwrap()),
        "typeValue" => match value.as_str().unwrap() {
            "google.protobuf.Duration" => "type(duration('1s'))".to_owned(),
            "google.protobuf.Timestamp" => "type(timestamp(0))".to_owned(),
            "optional_type" => "type(optional.none())".to_owned(),
            name => name.to_owned(),
        },
        "listValue" => {
            let items: Vec<String> = value["values"].as_array().into_iter().flatten().map(written).collect();
            format!("[{}]", items.join(", "))
        }
        "mapValue" => {
            let entries = value["entries"].as_array().into_iter().flatten();
            let entries: Vec<String> =
                entries.map(|entry| format!("{}: {}", written(&entry["key"]), written(&entry["value"]))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        "objectValue" => wrapped(value),
        other => panic!("no value of this kind is expected: {other}"),
    }
}

/// A value in a message that only wraps it.
fn wrapped(json: &Value) -> String {
    let value = &json["value"];
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match json["@type"].as_str().unwrap().trim_start_matches("type.googleapis.com/google.protobuf.") {
        "Int32Value" | "Int64Value" => plain(value),
        "UInt32Value" | "UInt64Value" => format!("{}u", plain(value)),
        "FloatValue" | "DoubleValue" => number(value),
        "BytesValue" => format!("base64.decode('{}')", value.as_str().unwrap()),
        "Duration" => format!("duration('{}')", value.as_str().unwrap()),
        "Timestamp" => format!("timestamp('{}')", value.as_str().unwrap()),
        _ => of_json(value),
    }
}

fn of_json(json: &Value) -> String {
    match json {
        Value::Number(_) => number(json),
        Value::String(string) => text(string),
        Value::Array(items) => format!("[{}]", items.iter().map(of_json).collect::<Vec<_>>().join(", ")),
        Value::Object(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|(key, value)| format!("{}: {}", text(key), of_json(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Null | Value::Bool(_) => json.to_string(),
    }
}

fn number(json: &Value) -> String {
    match json.as_str() {
        None => format!("({:?})", json.as_f64().unwrap()),
        Some("Infinity") => "(1.0 / 0.0)".to_owned(),
        Some("-Infinity") => "(-1.0 / 0.0)".to_owned(),
        Some("NaN") => "(0.0 / 0.0)".to_owned(),
        Some(other) => format!("({:?})", other.parse::<f64>().unwrap()),
    }
}

fn text(string: &str) -> String {
    let mut written = String::from("'");
    for character in string.chars() {
        match character {
            ' '..='~' if !matches!(character, '\'' | '\\') => written.push(character),
            other => write!(written, "\\U{:08x}", u32::from(other)).unwrap(),
        }
    }
    written + "'"
}

/// The rule that is true if the test passes; none for tests whose variables no rule can have.
fn rule(test: &Value) -> Option<String> {
    // A body contains no NUL; in texts and bytes with one, the escape has the same meaning.
    let expression = test["expr"].as_str().unwrap().replace('\0', "\\x00");
    let variables: Vec<(&String, String)> = test["bindings"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, bound)| (name, written(&bound["value"])))
        .collect();
    let is_sayable = |name: &String| !name.contains('.') && !["true", "false", "null"].contains(&name.as_str());
    if test["container"].is_string() || !variables.iter().all(|(name, _)| is_sayable(name)) {
        return None;
    }
    let holds = match &test["value"] {
        Value::Null if test["evalError"].is_null() => "result".to_owned(),
        Value::Null => "type(result) == type(result)".to_owned(),
        value if value["doubleValue"] == "NaN" => "result != result && type(result) == double".to_owned(),
        value => {
            let expected = written(value);
            format!("result == dyn({expected}) && type(result) == type(dyn({expected}))")
        }
    };
    let rule = format!("cel.bind(result, dyn({expression}\n), {holds})");
    Some(variables.into_iter().fold(rule, |rule, (name, value)| format!("cel.bind({name}, dyn({value}), {rule})")))
}

/// One test as a rule.
struct Said {
    name: String,
    rule: String,
    must_fail: bool,
}

/// Tests whether the server evaluates a rule as expected.
fn passes(client: &ApiClient, rule: &str, must_fail: bool) -> Result<(), String> {
    let body = json!({"expression": rule, "subjects": [{"type": "individual"}], "as_of": "2026-01-31"});
    let response = client.post("/Eligibility/$evaluate", &body);
    let (status, response) = (response.status, response.json());
    let result = &response["results"][0];
    let is_right = if must_fail {
        status == 422 || (result["outcome"] == "undetermined" && result["errors"][0]["code"].is_string())
    } else {
        result["outcome"] == "eligible"
    };
    if is_right { Ok(()) } else { Err(format!("{status} {response}")) }
}

/// Tests whose rules fit into one expression together, as a conjunction.
fn together(tests: &[Said]) -> Vec<Vec<&Said>> {
    let mut groups: Vec<Vec<&Said>> = Vec::new();
    let mut bytes = EXPRESSION_BYTES;
    for test in tests.iter().filter(|test| !test.must_fail) {
        bytes += test.rule.len() + 10;
        if bytes > EXPRESSION_BYTES {
            groups.push(Vec::new());
            bytes = test.rule.len() + 10;
        }
        groups.last_mut().expect("one was begun").push(test);
    }
    groups
}

#[test]
fn rules_conform_to_the_cel_specification() {
    let Some(path) = daftar_test_needs::cel_specification() else { return };
    let data = std::fs::read_to_string(path).unwrap();
    let app = TestApp::start();
    let client = app.client(&["eligibility:read"]);
    let (mut tests, mut unsayable, mut failures) = (Vec::new(), 0, Vec::new());
    for line in data.lines() {
        let test: Value = serde_json::from_str(line).unwrap();
        let part = |key: &str| test[key].as_str().unwrap_or_default().to_owned();
        let name = format!("{}/{}/{}", part("file"), part("section"), part("name"));
        let must_fail = !test["evalError"].is_null();
        let Some(rule) = rule(&test) else {
            unsayable += 1;
            continue;
        };
        match EXCLUDED.iter().find(|(excluded, _)| *excluded == name) {
            None => tests.push(Said { name, rule, must_fail }),
            Some((_, reason)) if passes(&client, &rule, must_fail).is_ok() => {
                failures.push(format!("{name} passes, although {reason}"));
            }
            Some(_) => {}
        }
    }
    let mut alone: Vec<&Said> = tests.iter().filter(|test| test.must_fail).collect();
    for group in together(&tests) {
        let rules: Vec<String> = group.iter().map(|test| format!("({})", test.rule)).collect();
        // If the conjunction fails, each test is run by itself.
        if passes(&client, &rules.join(" &&\n"), false).is_err() {
            alone.extend(group);
        }
    }
    for test in alone {
        if let Err(message) = passes(&client, &test.rule, test.must_fail) {
            failures.push(format!("{}: `{}`: {message}", test.name, test.rule));
        }
    }
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
    assert_eq!((tests.len(), unsayable), (1_605, 11), "tests passed, and not sayable as rules");
}
