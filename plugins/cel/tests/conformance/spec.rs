//! The tests of the specification, which `cargo xtask test` fetches.

use cel_interpreter::common::types::{
    CelBool, CelBytes, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelType, CelUInt,
};
use cel_interpreter::common::value::Val;
use daftar_cel::check::Typing;
use daftar_cel::constant::evaluate;
use daftar_cel::foreign::CrateValue;
use serde_json::Value as Json;
use std::collections::HashMap;

/// The expected result of an expression.
#[derive(Debug)]
pub enum Expected {
    Value(CrateValue),
    Error,
}

/// One test.
#[derive(Debug)]
pub struct Test {
    /// File, section and name.
    pub name: String,
    pub expression: String,
    pub variables: Vec<(String, CrateValue)>,
    pub container: String,
    pub expected: Expected,
}

/// All tests; without them a test is not run.
pub fn tests() -> Option<Vec<Test>> {
    let path = daftar_test_needs::cel_specification()?;
    let data = std::fs::read_to_string(path).expect("the file of the tests can be read");
    Some(data.lines().map(|line| test(&serde_json::from_str(line).expect("each line is JSON"))).collect())
}

fn test(json: &Json) -> Test {
    let text = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
    let variables = json["bindings"].as_object().into_iter().flatten();
    let expected = match (&json["value"], &json["evalError"]) {
        (Json::Null, Json::Null) => Expected::Value(Box::new(CelBool::from(true))),
        (Json::Null, _) => Expected::Error,
        (value, _) => Expected::Value(tagged(value)),
    };
    Test {
        name: format!("{}/{}/{}", text("file"), text("section"), text("name")),
        expression: text("expr"),
        variables: variables.map(|(name, bound)| (name.clone(), tagged(&bound["value"]))).collect(),
        container: text("container"),
        expected,
    }
}

/// Compares two values by value and type; NaN equals itself.
pub fn is_same(left: &dyn Val, right: &dyn Val) -> bool {
    if left.get_type().name() != right.get_type().name() {
        return false;
    }
    if let (Some(left), Some(right)) = (left.downcast_ref::<CelDouble>(), right.downcast_ref::<CelDouble>()) {
        return left.inner() == right.inner() || (left.inner().is_nan() && right.inner().is_nan());
    }
    if let (Some(left), Some(right)) = (left.downcast_ref::<CelList>(), right.downcast_ref::<CelList>()) {
        let (left, right) = (left.inner(), right.inner());
        return left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_same(&**left, &**right));
    }
    if let (Some(left), Some(right)) = (left.downcast_ref::<CelMap>(), right.downcast_ref::<CelMap>()) {
        let (left, right) = (left.inner(), right.inner());
        return left.len() == right.len()
            && left.iter().all(|(key, value)| {
                right.iter().any(|(other, found)| is_same(key.inner(), other.inner()) && is_same(&**value, &**found))
            });
    }
    left == right
}

/// The value of a `cel.expr.Value` in JSON.
fn tagged(json: &Json) -> CrateValue {
    let (tag, value) = json.as_object().and_then(|object| object.iter().next()).expect("one tag and a value");
    match tag.as_str() {
        "nullValue" => Box::new(CelNull),
        "boolValue" => Box::new(CelBool::from(value.as_bool().unwrap())),
        "int64Value" => Box::new(CelInt::from(integer(value))),
        "uint64Value" => Box::new(CelUInt::from(unsigned(value))),
        "doubleValue" => Box::new(CelDouble::from(number(value))),
        "stringValue" => Box::new(CelString::from(value.as_str().unwrap().to_owned())),
        "bytesValue" => bytes(value),
        "typeValue" => Box::new(CelType::new(value.as_str().unwrap())),
        "listValue" => list(value["values"].as_array().into_iter().flatten().map(tagged)),
        "mapValue" => map(value["entries"].as_array().into_iter().flatten().map(|entry| {
            let key = CelMapKey::try_from(tagged(&entry["key"])).expect("keys are keys");
            (key, tagged(&entry["value"]))
        })),
        "objectValue" => wrapped(value),
        other => panic!("no value of this kind is expected: {other}"),
    }
}

/// A value in a wrapper message.
fn wrapped(json: &Json) -> CrateValue {
    let value = &json["value"];
    match json["@type"].as_str().unwrap().trim_start_matches("type.googleapis.com/google.protobuf.") {
        "Int32Value" | "Int64Value" => Box::new(CelInt::from(integer(value))),
        "UInt32Value" | "UInt64Value" => Box::new(CelUInt::from(unsigned(value))),
        "FloatValue" | "DoubleValue" => Box::new(CelDouble::from(number(value))),
        "BytesValue" => bytes(value),
        "Duration" => ours(&format!("duration('{}')", value.as_str().unwrap())),
        "Timestamp" => ours(&format!("timestamp('{}')", value.as_str().unwrap())),
        "BoolValue" | "StringValue" | "Value" | "ListValue" | "Struct" => plain(value),
        other => panic!("no message of this kind is expected: {other}"),
    }
}

/// JSON in CEL: every number is a double.
fn plain(json: &Json) -> CrateValue {
    match json {
        Json::Null => Box::new(CelNull),
        Json::Bool(truth) => Box::new(CelBool::from(*truth)),
        Json::Number(_) => Box::new(CelDouble::from(number(json))),
        Json::String(text) => Box::new(CelString::from(text.clone())),
        Json::Array(items) => list(items.iter().map(plain)),
        Json::Object(entries) => map(entries.iter().map(|(key, value)| (CelMapKey::from(key.clone()), plain(value)))),
    }
}

fn list(items: impl Iterator<Item = CrateValue>) -> CrateValue {
    Box::new(CelList::from(items.collect::<Vec<_>>()))
}

fn map(entries: impl Iterator<Item = (CelMapKey<'static>, CrateValue)>) -> CrateValue {
    Box::new(CelMap::from(entries.collect::<HashMap<_, _>>()))
}

fn bytes(json: &Json) -> CrateValue {
    let value = ours(&format!("base64.decode('{}')", json.as_str().unwrap()));
    assert!(value.downcast_ref::<CelBytes>().is_some());
    value
}

fn ours(expression: &str) -> CrateValue {
    evaluate(expression, Typing::Static, Vec::new(), "").expect("the test's own value is written right")
}

fn integer(json: &Json) -> i64 {
    json.as_str().map_or_else(|| json.as_i64().unwrap(), |text| text.parse().unwrap())
}

fn unsigned(json: &Json) -> u64 {
    json.as_str().map_or_else(|| json.as_u64().unwrap(), |text| text.parse().unwrap())
}

fn number(json: &Json) -> f64 {
    match json.as_str() {
        None => json.as_f64().unwrap(),
        Some("NaN") => f64::NAN,
        Some("Infinity") => f64::INFINITY,
        Some("-Infinity") => f64::NEG_INFINITY,
        Some(text) => text.parse().unwrap(),
    }
}
