//! The functions of the CEL crate used on plain values: conversions, mixed comparisons, regular expressions.
//!
//! **Invariant:** functions are looked up in the crate's standard library once, when the rule is checked, by the static type
//! of their argument; evaluating a row calls them directly.

use crate::foreign::Environment;
use crate::tree::Type;
use crate::value::Value;
use cel_interpreter::common::functions::Function;
use cel_interpreter::common::traits::Comparer;
use cel_interpreter::common::types::{CelBool, CelDouble, CelInt, CelString};
use cel_interpreter::common::value::CowVal;
use std::borrow::Cow;
use std::cmp::Ordering;

/// A function of the crate that takes one value.
#[derive(Clone, Copy, Debug)]
pub struct Conversion(Function);

/// The names of the conversions, which are those of their result types.
pub const CONVERSIONS: [(&str, Type); 4] =
    [("int", Type::Integer), ("double", Type::Number), ("string", Type::Text), ("bool", Type::Boolean)];

impl Environment {
    /// The conversion of that name for values of that type, if there is one.
    pub fn conversion(&self, name: &str, argument: &Type) -> Option<Conversion> {
        let sample = match argument {
            Type::Boolean => CowVal::owned(CelBool::from(false)),
            Type::Integer => CowVal::owned(CelInt::from(0)),
            Type::Number => CowVal::owned(CelDouble::from(0.0)),
            Type::Text => CowVal::owned(CelString::from("")),
            Type::Date
            | Type::Coded(_)
            | Type::Record(_)
            | Type::List(_)
            | Type::Nothing
            | Type::Other(_)
            | Type::Dynamic => return None,
        };
        self.functions().find_overload(name, &[sample]).map(Conversion)
    }

    /// The crate's `matches`.
    pub fn matcher(&self) -> Matcher {
        let samples = [CowVal::owned(CelString::from("")), CowVal::owned(CelString::from(""))];
        Matcher(self.functions().find_overload("matches", &samples))
    }
}

impl Conversion {
    /// The converted value; none if it cannot be converted.
    pub fn apply<'a>(self, value: &Value<'_>) -> Option<Value<'a>> {
        let argument = match value {
            Value::Boolean(boolean) => CowVal::owned(CelBool::from(*boolean)),
            Value::Integer(integer) => CowVal::owned(CelInt::from(*integer)),
            Value::Number(number) => CowVal::owned(CelDouble::from(*number)),
            Value::Text(text) => CowVal::owned(CelString::from(text.as_ref())),
            Value::Date(_) | Value::Code(_) | Value::Row(_) | Value::List(_) | Value::Foreign(_) => return None,
        };
        let converted = (self.0)(vec![argument]).ok()?;
        if let Some(boolean) = converted.downcast_ref::<CelBool>() {
            return Some(Value::Boolean(*boolean.inner()));
        }
        if let Some(integer) = converted.downcast_ref::<CelInt>() {
            return Some(Value::Integer(*integer.inner()));
        }
        if let Some(number) = converted.downcast_ref::<CelDouble>() {
            return Some(Value::Number(*number.inner()));
        }
        let text = converted.downcast_ref::<CelString>()?;
        Some(Value::Text(Cow::Owned(text.inner().to_owned())))
    }
}

/// The crate's regular expressions, which run in linear time for any pattern.
#[derive(Clone, Copy, Debug)]
pub struct Matcher(Option<Function>);

impl Matcher {
    /// Returns whether the pattern matches anywhere in the text; none if the pattern is invalid.
    pub fn matches(self, text: &str, pattern: &str) -> Option<bool> {
        let arguments = vec![CowVal::owned(CelString::from(text)), CowVal::owned(CelString::from(pattern))];
        let answer = (self.0?)(arguments).ok()?;
        answer.downcast_ref::<CelBool>().map(|matches| *matches.inner())
    }
}

/// The order of a whole number and a number with a fraction; none for NaN.
pub fn compare_mixed(integer: i64, number: f64) -> Option<Ordering> {
    CelInt::from(integer).compare(&CelDouble::from(number)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(name: &str, of: &Type, value: Value<'_>) -> Option<String> {
        Environment::default().conversion(name, of).unwrap().apply(&value).map(|value| format!("{value:?}"))
    }

    #[test]
    fn converts_between_numbers_and_texts() {
        assert_eq!(convert("int", &Type::Text, Value::Text("42".into())).as_deref(), Some("Integer(42)"));
        assert_eq!(convert("int", &Type::Number, Value::Number(4.9)).as_deref(), Some("Integer(4)"));
        assert_eq!(convert("double", &Type::Integer, Value::Integer(2)).as_deref(), Some("Number(2.0)"));
        assert_eq!(convert("string", &Type::Integer, Value::Integer(-7)).as_deref(), Some("Text(\"-7\")"));
        assert_eq!(convert("bool", &Type::Text, Value::Text("true".into())).as_deref(), Some("Boolean(true)"));
    }

    #[test]
    fn says_where_a_value_cannot_be_converted() {
        assert_eq!(convert("int", &Type::Text, Value::Text("x".into())), None);
        assert_eq!(convert("int", &Type::Number, Value::Number(1e30)), None);
        assert!(Environment::default().conversion("int", &Type::Date).is_none());
    }

    #[test]
    fn matches_anywhere_and_refuses_patterns_that_are_none() {
        let matcher = Environment::default().matcher();
        assert_eq!(matcher.matches("district 9", "[0-9]$"), Some(true));
        assert_eq!(matcher.matches("district", "^x"), Some(false));
        assert_eq!(matcher.matches("a", "(a"), None);
        assert_eq!(matcher.matches(&"a".repeat(5_000), "(a+)+$"), Some(true));
    }

    #[test]
    fn compares_numbers_of_both_kinds() {
        assert_eq!(compare_mixed(1, 1.5), Some(Ordering::Less));
        assert_eq!(compare_mixed(2, 2.0), Some(Ordering::Equal));
        assert_eq!(compare_mixed(2, f64::NAN), None);
    }
}
