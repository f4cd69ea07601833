//! A FHIR CodeSystem, R4 or R5, as JSON (HL7 FHIR, resource CodeSystem).
//!
//! Parents follow from nesting and from the properties `parent` and `child`. A code is inactive by the standard
//! properties `inactive` and `status`, by `deprecated` of true, or by a successor.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::publisher_files::counts::Counts;
use crate::publisher_files::draft::{DraftCode, DraftLabel, DraftPack};
use crate::publisher_files::input::Input;
use crate::publisher_files::problem::{ImportError, excerpt};
use crate::publisher_files::publications::Publication;
use crate::publisher_files::{ImportOptions, json_items, plain_tsv};
use crate::source_rules::{LANGUAGES_MAX, is_language_tag, is_text};
use daftar_domain::manifest::PluginVersion;
use daftar_domain::vocabulary::Completeness;

/// The most distinct properties of one vocabulary.
const PROPERTIES_MAX: usize = 64;

/// Values of the property `status` for concepts that are no longer in use.
const ENDED: [&str; 6] = ["retired", "deprecated", "inactive", "withdrawn", "obsolete", "entered-in-error"];

/// Reads a code system.
///
/// # Errors
/// It is not a code system, is malformed, or contains no codes.
pub fn read(input: &Input<'_>, options: &ImportOptions, counts: &mut Counts) -> Result<DraftPack, ImportError> {
    let text = input.read_text()?;
    let head: Head<'_> = json_items::document(input, &text)?;
    let completeness = head.completeness().map_err(|reason| input.unusable(None, reason))?;
    let Some(concepts) = json_items::array(head.concept) else {
        return Err(input.unusable(None, "the CodeSystem has no list `concept`, so it has no codes"));
    };
    let default_language = match (options.languages.first(), &head.language) {
        (Some(language), _) => language.clone(),
        (None, Some(language)) if is_language_tag(language) => language.clone(),
        (None, _) => "en".to_owned(),
    };
    let mut reading = Reading {
        own_language: head.language.clone().unwrap_or_else(|| "en".to_owned()),
        roles: head.roles(),
        wanted: &options.languages,
        languages: vec![default_language],
        properties: HashSet::new(),
        codes: Vec::new(),
        children: Vec::new(),
        without_display: 0,
    };
    json_items::read::<Concept>(input, &text, concepts, counts, |concept, line, counts| {
        reading.add(concept, None, line, counts);
    })?;
    if reading.languages.len() > LANGUAGES_MAX || reading.properties.len() > PROPERTIES_MAX {
        let reason = format_args!(
            "it has {} languages and {} properties; the limits are {LANGUAGES_MAX} and {PROPERTIES_MAX}: choose \
             languages with --language",
            reading.languages.len(),
            reading.properties.len()
        );
        return Err(input.unusable(None, reason));
    }
    if reading.without_display > 0 {
        let count = reading.without_display;
        counts.notes.push(format!("{count} concepts have no display; their code is their label"));
    }
    if let Some(meaning @ ("part-of" | "classified-with")) = head.hierarchy_meaning.as_deref() {
        counts
            .notes
            .push(format!("hierarchyMeaning is {meaning}: the descendants of a code are treated as kinds of it"));
    }
    let (languages, codes) = reading.into_codes(counts);
    let mut pack = draft(&head, input, options, counts, codes)?;
    for vocabulary in &mut pack.vocabularies {
        (vocabulary.languages, vocabulary.completeness) = (languages.clone(), completeness);
    }
    // A code system whose version has three numbers determines the version of the pack.
    if let Some(version) = head.version.filter(|version| PluginVersion::parse(version).is_ok()) {
        pack.version = Some(version);
    }
    Ok(pack)
}

/// The pack of these codes.
fn draft(
    head: &Head<'_>,
    input: &Input<'_>,
    options: &ImportOptions,
    counts: &mut Counts,
    codes: Vec<DraftCode>,
) -> Result<DraftPack, ImportError> {
    let about = &options.about;
    let mut sound = |text: &Option<String>| {
        let text = text.as_deref().and_then(|text| counts.text(text));
        text.filter(|text| is_text(text))
    };
    let copyright = sound(&head.copyright);
    let licence = about.licence.clone().or_else(|| sound(&head.copyright_label)).or_else(|| copyright.clone());
    let Some(licence) = licence else {
        return Err(ImportError::missing(&["--licence"], "the CodeSystem states no copyright"));
    };
    let Some(namespace) = about.namespace.clone().or_else(|| head.url.clone()) else {
        return Err(ImportError::missing(&["--namespace"], "the CodeSystem has no url"));
    };
    let name = about.title.clone().or_else(|| sound(&head.title)).or_else(|| sound(&head.name));
    let name = name.unwrap_or_else(|| namespace.clone());
    let edition = input.edition(about.edition.clone().or_else(|| sound(&head.version)))?;
    let publisher = sound(&head.publisher);
    let before = publisher.as_ref().map_or_else(String::new, |publisher| format!("{publisher}, "));
    let pack_name = plain_tsv::slug(head.name.as_ref().unwrap_or(&name));
    Ok(Publication {
        pack_name: &pack_name,
        description: &format!("The codes of {name}."),
        licence: &licence,
        attribution: &copyright.or(publisher).unwrap_or_default(),
        source: &format!("{before}{name}, {{edition}}"),
        note: format!("Licence: {licence}\n\n{}", head.copyright.as_deref().unwrap_or_default()).trim(),
        namespace: &namespace,
        name: &name,
        domain: "Other",
        table: &pack_name,
    }
    .pack(edition, codes))
}

/// The concepts that were read so far.
struct Reading<'a> {
    /// The language of `display`.
    own_language: String,
    roles: HashMap<String, Role>,
    /// The requested languages; if empty, all.
    wanted: &'a [String],
    /// The languages found, the default one first.
    languages: Vec<String>,
    properties: HashSet<String>,
    codes: Vec<DraftCode>,
    /// Pairs of parent and child from the property `child`.
    children: Vec<(String, String, u64)>,
    without_display: u64,
}

impl Reading<'_> {
    /// Adds a concept and its nested concepts, which have the line of the outermost one. The parser limits the depth.
    fn add(&mut self, mut concept: Concept, parent: Option<&str>, line: u64, counts: &mut Counts) {
        let nested = std::mem::take(&mut concept.concept);
        let code = concept.code.clone();
        if parent.is_some() {
            counts.rows += 1;
        }
        if concept.modifier_extension.is_some() {
            counts.refuse(Some(line), Some(&code), "it has a modifierExtension, which may change its meaning");
        } else if let Some(draft) = self.code(concept, parent, line, counts) {
            self.codes.push(draft);
        }
        for concept in nested {
            self.add(concept, Some(&code), line, counts);
        }
    }

    fn code(&mut self, concept: Concept, parent: Option<&str>, line: u64, counts: &mut Counts) -> Option<DraftCode> {
        let mut draft = DraftCode::new(concept.code.clone(), Some(line));
        draft.parents = parent.map(str::to_owned).into_iter().collect();
        if concept.display.is_none() {
            self.without_display += 1;
        }
        let own = (self.own_language.clone(), concept.display.as_ref().unwrap_or(&concept.code).clone());
        // A designation with a use is a synonym or similar; one without is the name in its language.
        let named = concept.designation.into_iter().filter_map(|designation| {
            let is_name = designation.is_name();
            if !is_name || designation.language.is_none() {
                counts.leave_out("a designation that is not the name in a language, such as a synonym");
            }
            Some((designation.language.filter(|_| is_name)?, designation.value))
        });
        let texts: Vec<(String, String)> = std::iter::once(own).chain(named).collect();
        for (language, text) in texts {
            self.label(&mut draft, language, &text, counts)?;
        }
        if let (Some(definition), Some(label)) =
            (&concept.definition, draft.labels.iter_mut().find(|label| label.language == self.own_language))
        {
            match counts.text(definition) {
                Some(definition) => label.definition = definition,
                None => {
                    counts.refuse(Some(line), Some(&draft.code), "its definition contains a control character");
                    return None;
                }
            }
        }
        for property in concept.property {
            self.property(&mut draft, property, line, counts);
        }
        Some(draft)
    }

    fn label(&mut self, draft: &mut DraftCode, language: String, text: &str, counts: &mut Counts) -> Option<()> {
        if !self.wanted.is_empty() && !self.wanted.contains(&language) {
            return Some(());
        }
        let fault = match counts.text(text) {
            _ if !is_language_tag(&language) => {
                format!("its designation's language is `{}`, not a tag such as en or pt-BR", excerpt(&language))
            }
            None => format!("its label in `{language}` contains a control character"),
            Some(text) if text.is_empty() => format!("its label in `{language}` is empty"),
            Some(text) => {
                if draft.label(&language).is_none() {
                    if !self.languages.contains(&language) {
                        self.languages.push(language.clone());
                    }
                    draft.labels.push(DraftLabel { language, text, definition: String::new() });
                }
                return Some(());
            }
        };
        counts.refuse(draft.line, Some(&draft.code), fault);
        None
    }

    fn property(&mut self, draft: &mut DraftCode, property: Property, line: u64, counts: &mut Counts) {
        let Some(value) = property.value() else {
            let reason = format!("its property `{}` has no value of a known type", excerpt(&property.code));
            return counts.refuse(Some(line), Some(&draft.code), reason);
        };
        match self.roles.get(&property.code).copied().unwrap_or_else(|| Role::of(&property.code)) {
            Role::Parent if !draft.parents.contains(&value) => draft.parents.push(value),
            Role::Parent => {}
            Role::Child => self.children.push((draft.code.clone(), value, line)),
            Role::Inactive => draft.is_active &= value != "true",
            Role::Deprecated => draft.is_active &= value == "false",
            Role::Status => draft.is_active &= !ENDED.contains(&value.as_str()),
            Role::NotSelectable => draft.is_selectable &= value != "true",
            Role::ReplacedBy => {
                draft.is_active = false;
                draft.replaced_by = Some(value);
            }
            Role::Other => {
                let key = property_key(&property.code);
                let Some(value) = counts.text(&value).filter(|value| !value.is_empty()) else { return };
                match draft.properties.iter_mut().find(|(known, _)| *known == key) {
                    // A cell is one line, so further values are appended to the first.
                    Some((_, known)) => *known = format!("{known}; {value}"),
                    None => {
                        self.properties.insert(key.clone());
                        draft.properties.push((key, value));
                    }
                }
            }
        }
    }

    /// Returns the codes, with parents from the property `child`.
    fn into_codes(self, counts: &mut Counts) -> (Vec<String>, Vec<DraftCode>) {
        let mut codes = self.codes;
        let index: HashMap<String, usize> =
            codes.iter().enumerate().map(|(index, code)| (code.code.clone(), index)).collect();
        for (parent, child, line) in self.children {
            match index.get(&child).and_then(|index| codes.get_mut(*index)) {
                Some(code) if code.parents.contains(&parent) => {}
                Some(code) => code.parents.push(parent),
                None => {
                    let reason = format!("its child `{}` is not a code of this vocabulary", excerpt(&child));
                    counts.refuse(Some(line), Some(&parent), reason);
                }
            }
        }
        (self.languages, codes)
    }
}

/// Converts a property's code to a column name: lower-case letters, digits and underscores.
fn property_key(code: &str) -> String {
    let mut key = String::new();
    for character in code.chars() {
        if character.is_ascii_uppercase() && key.ends_with(|last: char| last.is_ascii_lowercase()) {
            key.push('_');
        }
        let is_plain = character.is_ascii_alphanumeric();
        key.push(if is_plain { character.to_ascii_lowercase() } else { '_' });
    }
    if !key.starts_with(|first: char| first.is_ascii_lowercase()) {
        key.insert_str(0, "p_");
    }
    key.truncate(64);
    key
}

/// The prefix of the URIs of the standard's own properties.
const STANDARD: &str = "http://hl7.org/fhir/concept-properties#";

/// The relevant members of a CodeSystem. Its concepts are read one by one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head<'t> {
    resource_type: String,
    url: Option<String>,
    version: Option<String>,
    name: Option<String>,
    title: Option<String>,
    publisher: Option<String>,
    copyright: Option<String>,
    copyright_label: Option<String>,
    language: Option<String>,
    content: Option<String>,
    hierarchy_meaning: Option<String>,
    modifier_extension: Option<Value>,
    #[serde(default)]
    property: Vec<PropertyDefinition>,
    #[serde(borrow)]
    concept: Option<&'t RawValue>,
}

#[derive(Debug, Deserialize)]
struct PropertyDefinition {
    code: String,
    uri: Option<String>,
}

/// One concept with its nested concepts.
#[derive(Debug, Deserialize)]
struct Concept {
    code: String,
    display: Option<String>,
    definition: Option<String>,
    #[serde(default)]
    designation: Vec<Designation>,
    #[serde(default)]
    property: Vec<Property>,
    #[serde(default)]
    concept: Vec<Self>,
    #[serde(rename = "modifierExtension")]
    modifier_extension: Option<Value>,
}

/// Another name.
#[derive(Debug, Deserialize)]
struct Designation {
    language: Option<String>,
    #[serde(rename = "use")]
    usage: Option<Coding>,
    value: String,
}

#[derive(Debug, Deserialize)]
struct Coding {
    code: Option<String>,
}

/// A property of a concept. Its value is in the member of its type.
#[derive(Debug, Deserialize)]
struct Property {
    code: String,
    #[serde(
        rename = "valueCode",
        alias = "valueString",
        alias = "valueInteger",
        alias = "valueBoolean",
        alias = "valueDateTime",
        alias = "valueDecimal",
        alias = "valueCoding"
    )]
    value: Option<Value>,
}

/// The meaning of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A parent.
    Parent,
    /// A child.
    Child,
    /// The state of the concept.
    Status,
    /// True if it is inactive.
    Inactive,
    /// True if it is deprecated, or the date of its deprecation.
    Deprecated,
    /// True if it only groups other codes.
    NotSelectable,
    /// Its successor.
    ReplacedBy,
    /// Any other fact.
    Other,
}

impl Role {
    /// The meaning of a property of that name.
    fn of(name: &str) -> Self {
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
    /// The completeness of the code system, or the reason why it is unusable.
    fn completeness(&self) -> Result<Completeness, String> {
        if self.resource_type != "CodeSystem" {
            let found = excerpt(&self.resource_type);
            return Err(format!("resourceType is `{found}`, not `CodeSystem`: codes are imported from a CodeSystem"));
        }
        if self.modifier_extension.is_some() {
            return Err("it has a modifierExtension, which may change the meaning of everything in it".to_owned());
        }
        match self.content.as_deref() {
            Some("complete") => Ok(Completeness::Full),
            Some("fragment" | "example") => Ok(Completeness::Fragment),
            Some("supplement") => Err("`content` is `supplement`: it only adds to another code system".to_owned()),
            Some("not-present") => Err("`content` is `not-present`: the codes are published elsewhere".to_owned()),
            Some(other) => Err(format!("`content` is `{}`, which FHIR does not define", excerpt(other))),
            None => Err("`content` is missing; it declares whether all codes are included".to_owned()),
        }
    }

    /// The properties that the code system names differently from the standard.
    fn roles(&self) -> HashMap<String, Role> {
        let standard = |property: &PropertyDefinition| {
            let name = property.uri.as_deref()?.strip_prefix(STANDARD)?;
            Some((property.code.clone(), Role::of(name)))
        };
        self.property.iter().filter_map(standard).filter(|(_, role)| *role != Role::Other).collect()
    }
}

impl Designation {
    /// Returns true if it is the name of the concept in its language, not a synonym or similar.
    fn is_name(&self) -> bool {
        match self.usage.as_ref().and_then(|usage| usage.code.as_deref()) {
            None => true,
            Some(code) => matches!(code, "display" | "preferredForLanguage" | "preferred"),
        }
    }
}

impl Property {
    /// Its value as text; for a coding, its code. None for a structured value.
    fn value(&self) -> Option<String> {
        match self.value.as_ref()? {
            Value::String(text) => Some(text.clone()),
            value @ (Value::Bool(_) | Value::Number(_)) => Some(value.to_string()),
            Value::Object(coding) => Some(coding.get("code")?.as_str()?.to_owned()),
            Value::Null | Value::Array(_) => None,
        }
    }
}
