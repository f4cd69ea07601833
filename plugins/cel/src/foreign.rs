//! Values and operations of CEL for types that records do not have (maps, bytes, instants, optional values, …),
//! implemented by the crate.
//!
//! **Invariant:** a value is foreign only if it has no native form: booleans, numbers, texts and lists are converted
//! immediately, so that each value has one form in the engine.
//! **Invariant:** results do not depend on the iteration order of hash tables: keys are sorted.

mod operation;
mod written;

pub use operation::{Environment, Operation, call, choose, operand};

use crate::value::{Element, List, Value};
use cel_interpreter::common::types::{CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelOptional, CelString};
use cel_interpreter::common::value::Val;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// A value of the crate.
pub type CrateValue = Box<dyn Val>;

/// A value that only the crate can handle.
#[derive(Clone, Debug)]
pub struct Foreign(Arc<dyn Val>);

impl Foreign {
    /// The value for operations of the crate.
    pub fn to_crate(&self) -> CrateValue {
        self.0.clone_as_boxed()
    }

    /// The keys and values of a map, sorted by key; none for other values.
    pub fn entries<'a>(&self) -> Option<Vec<(Value<'a>, Value<'a>)>> {
        let map: &CelMap = self.0.downcast_ref()?;
        let mut entries: Vec<_> = map.inner().iter().collect();
        entries.sort_by_key(|(key, _)| *key);
        Some(
            entries
                .into_iter()
                .map(|(key, value)| (known(key.inner().clone_as_boxed()), known(value.clone())))
                .collect(),
        )
    }

    /// The number of entries of a map; 0 for other values.
    pub fn entry_count(&self) -> usize {
        self.0.downcast_ref::<CelMap>().map_or(0, |map| map.inner().len())
    }

    /// The value in CEL syntax.
    pub fn written(&self) -> String {
        written::written(self.0.as_ref())
    }
}

/// Converts a value of the crate to the form of the engine.
pub fn known<'a>(value: CrateValue) -> Value<'a> {
    if let Some(boolean) = value.downcast_ref::<CelBool>() {
        return Value::Boolean(*boolean.inner());
    }
    if let Some(integer) = value.downcast_ref::<CelInt>() {
        return Value::Integer(*integer.inner());
    }
    if let Some(number) = value.downcast_ref::<CelDouble>() {
        return Value::Number(*number.inner());
    }
    if let Some(text) = value.downcast_ref::<CelString>() {
        return Value::Text(Cow::Owned(text.inner().to_owned()));
    }
    if let Some(list) = value.downcast_ref::<CelList>() {
        let elements = list.inner().iter().map(|item| Element { value: Ok(known(item.clone())), doubt: None });
        return Value::List(List::Elements(elements.collect()));
    }
    Value::Foreign(Foreign(Arc::from(value)))
}

/// Converts a value to one of the crate; none for values without such a form, and for lists, whose items may be
/// unknown.
pub fn portable(value: &Value<'_>) -> Option<CrateValue> {
    Some(match value {
        Value::Boolean(boolean) => Box::new(CelBool::from(*boolean)),
        Value::Integer(integer) => Box::new(CelInt::from(*integer)),
        Value::Number(number) => Box::new(CelDouble::from(*number)),
        Value::Text(text) => Box::new(CelString::from(text.clone().into_owned())),
        Value::Foreign(foreign) => foreign.to_crate(),
        Value::Date(_) | Value::Code(_) | Value::Row(_) | Value::List(_) => return None,
    })
}

/// A list of the crate.
pub fn list(items: Vec<CrateValue>) -> CrateValue {
    Box::new(CelList::from(items))
}

/// A map of the crate; none if a key is invalid or duplicated.
pub fn map(entries: Vec<(CrateValue, CrateValue)>) -> Option<CrateValue> {
    let mut map: HashMap<CelMapKey<'static>, CrateValue> = HashMap::with_capacity(entries.len());
    for (key, value) in entries {
        if map.insert(CelMapKey::try_from(key).ok()?, value).is_some() {
            return None;
        }
    }
    Some(Box::new(CelMap::from(map)))
}

/// An optional value.
pub fn optional(value: Option<CrateValue>) -> CrateValue {
    Box::new(value.map_or_else(CelOptional::none, CelOptional::of))
}
