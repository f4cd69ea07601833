//! The parts of a CodeSystem that matter here. What is not named is not read.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::owner_files::draft::DraftCompleteness;
use crate::owner_files::problem::excerpt;

/// What the URIs of the standard's own properties begin with.
const STANDARD: &str = "http://hl7.org/fhir/concept-properties#";

/// The code system; its concepts are read one by one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head<'t> {
    pub resource_type: String,
    pub url: Option<String>,
    pub version: Option<String>,
    pub name: Option<String>,
    pub title: Option<String>,
    pub publisher: Option<String>,
    pub copyright: Option<String>,
    pub copyright_label: Option<String>,
    pub language: Option<String>,
    pub content: Option<String>,
    pub hierarchy_meaning: Option<String>,
    modifier_extension: Option<Value>,
    #[serde(default)]
    property: Vec<PropertyDefinition>,
    #[serde(borrow)]
    pub concept: Option<&'t RawValue>,
}

#[derive(Debug, Deserialize)]
struct PropertyDefinition {
    code: String,
    uri: Option<String>,
}

/// One concept with everything nested in it.
#[derive(Debug, Deserialize)]
pub struct Concept {
    pub code: String,
    pub display: Option<String>,
    pub definition: Option<String>,
    #[serde(default)]
    pub designation: Vec<Designation>,
    #[serde(default)]
    pub property: Vec<Property>,
    #[serde(default)]
    pub concept: Vec<Self>,
    #[serde(rename = "modifierExtension")]
    pub modifier_extension: Option<Value>,
}

/// Another name.
#[derive(Debug, Deserialize)]
pub struct Designation {
    pub language: Option<String>,
    #[serde(rename = "use")]
    usage: Option<Coding>,
    pub value: String,
}

#[derive(Debug, Deserialize)]
struct Coding {
    code: Option<String>,
}

/// A fact about a concept. It has one value, in the member of its type.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Property {
    pub code: String,
    value_code: Option<Value>,
    value_string: Option<Value>,
    value_integer: Option<Value>,
    value_boolean: Option<Value>,
    value_date_time: Option<Value>,
    value_decimal: Option<Value>,
    value_coding: Option<Coding>,
}

/// What a property says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A code one level up.
    Parent,
    /// A code one level down.
    Child,
    /// A word for the state of the concept.
    Status,
    /// Whether it is not to be used.
    Inactive,
    /// Whether, or since when, it is not to be used.
    Deprecated,
    /// Whether it only groups others.
    NotSelectable,
    /// Its successor.
    ReplacedBy,
    /// Any other fact.
    Other,
}

impl Role {
    /// What a property of that name says.
    pub fn of(name: &str) -> Self {
        match name {
            "parent" | "subsumedBy" => Self::Parent,
            "child" => Self::Child,
            "status" => Self::Status,
            "inactive" => Self::Inactive,
            "deprecated" | "deprecationDate" => Self::Deprecated,
            "notSelectable" | "not-selectable" | "abstract" => Self::NotSelectable,
            "replacedBy" | "replaced-by" | "replacedby" => Self::ReplacedBy,
            _ => Self::Other,
        }
    }
}

impl Head<'_> {
    /// How much of the code system is here, or why it cannot be used.
    pub fn completeness(&self) -> Result<DraftCompleteness, String> {
        if self.resource_type != "CodeSystem" {
            let found = excerpt(&self.resource_type);
            return Err(format!("resourceType is `{found}`, not `CodeSystem`: a list of codes comes as a CodeSystem"));
        }
        if self.modifier_extension.is_some() {
            return Err("it has a modifierExtension, which may change the meaning of everything in it".to_owned());
        }
        match self.content.as_deref() {
            Some("complete") => Ok(DraftCompleteness::Full),
            Some("fragment" | "example") => Ok(DraftCompleteness::Fragment),
            Some("supplement") => Err("`content` is `supplement`: it only adds to another code system".to_owned()),
            Some("not-present") => Err("`content` is `not-present`: the codes are published elsewhere".to_owned()),
            Some(other) => Err(format!("`content` is `{}`, which FHIR does not know", excerpt(other))),
            None => Err("`content` is missing; it says whether the codes are all here".to_owned()),
        }
    }

    /// The properties that the code system gives another name to than the standard does.
    pub fn roles(&self) -> HashMap<String, Role> {
        let standard = |property: &PropertyDefinition| {
            let name = property.uri.as_deref()?.strip_prefix(STANDARD)?;
            Some((property.code.clone(), Role::of(name)))
        };
        self.property.iter().filter_map(standard).filter(|(_, role)| *role != Role::Other).collect()
    }
}

impl Designation {
    /// Whether it is the name of the concept in its language, and no synonym or the like.
    pub fn is_name(&self) -> bool {
        match self.usage.as_ref().and_then(|usage| usage.code.as_deref()) {
            None => true,
            Some(code) => matches!(code, "display" | "preferredForLanguage" | "preferred"),
        }
    }
}

impl Property {
    /// Its value as text.
    pub fn value(&self) -> Option<String> {
        let single = [
            &self.value_code,
            &self.value_string,
            &self.value_integer,
            &self.value_boolean,
            &self.value_date_time,
            &self.value_decimal,
        ];
        let coding = || self.value_coding.as_ref().and_then(|coding| coding.code.clone());
        single.into_iter().flatten().find_map(super::plain).or_else(coding)
    }
}
