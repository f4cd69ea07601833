//! Bodies about concept groups.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::api::dto::reader::{ObjectReader, Problems, text_value};
use daftar_domain::code::{CODE_BYTES_MAX, CodeUri, NAMESPACE_BYTES_MAX};
use daftar_domain::vocabulary::{ConceptGroup, Selection};
use daftar_service::concept_group::{DESCRIPTION_TEXT_BYTES_MAX, SELECTIONS_MAX};
use daftar_service::vocabulary::{DefinedBy, PublishedGroup};

/// The longest URI of a code, in bytes.
const URI_BYTES_MAX: usize = NAMESPACE_BYTES_MAX + 1 + CODE_BYTES_MAX;

/// Reads `{description?, includes: [selection], excludes?: [selection]}`; a selection is `{code}` or `{descendants_of}`.
pub fn read(name: String, members: Map<String, Value>, problems: &mut Problems) -> ConceptGroup {
    let mut reader = ObjectReader::root(members);
    let description = reader.text("description", DESCRIPTION_TEXT_BYTES_MAX, problems).unwrap_or_default();
    let includes = read_selections(&mut reader, "includes", problems);
    let excludes = read_selections(&mut reader, "excludes", problems);
    reader.finish(problems);
    ConceptGroup { name, description, includes, excludes }
}

fn read_selections(reader: &mut ObjectReader, name: &'static str, problems: &mut Problems) -> Vec<Selection> {
    let items = reader.list(name, SELECTIONS_MAX, problems).unwrap_or_default();
    items.into_iter().filter_map(|(path, item)| read_selection(path, item, problems)).collect()
}

fn read_selection(path: String, item: Value, problems: &mut Problems) -> Option<Selection> {
    let mut reader = ObjectReader::at(path.clone(), item, problems);
    let mut uri = |name: &'static str, problems: &mut Problems| {
        let value = reader.take(name)?;
        let at = reader.path_of(name);
        let text = text_value(&at, value, URI_BYTES_MAX, problems)?;
        CodeUri::parse(&text).map_err(|error| problems.add(at, "invalid_code", error.to_string())).ok()
    };
    let (code, above) = (uri("code", problems), uri("descendants_of", problems));
    let is_told = reader.is_problem("code", problems) || reader.is_problem("descendants_of", problems);
    reader.finish(problems);
    match (code, above) {
        (Some(uri), None) => Some(Selection::Code(uri)),
        (None, Some(uri)) => Some(Selection::DescendantsOf(uri)),
        (_, _) if is_told => None,
        (_, _) => {
            problems.add(
                path,
                "invalid_selection",
                "a selection is either `{\"code\": …}` or `{\"descendants_of\": …}`",
            );
            None
        }
    }
}

/// A concept group as the administrator sees it.
#[derive(Debug, Serialize)]
pub struct ConceptGroupBody {
    name: String,
    description: String,
    defined_by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    plugin: Option<String>,
    is_set: bool,
    includes: Vec<SelectionBody>,
    excludes: Vec<SelectionBody>,
    members: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum SelectionBody {
    Code(String),
    DescendantsOf(String),
}

impl From<&PublishedGroup> for ConceptGroupBody {
    fn from(group: &PublishedGroup) -> Self {
        let definition = group.definition();
        let (defined_by, plugin) = match group.defined_by() {
            DefinedBy::Nobody => ("nobody", None),
            DefinedBy::Deployment => ("deployment", None),
            DefinedBy::Plugin(plugin) => ("plugin", Some(plugin.clone())),
        };
        Self {
            name: definition.name.clone(),
            description: definition.description.clone(),
            defined_by,
            plugin,
            is_set: !group.is_unset(),
            includes: definition.includes.iter().map(SelectionBody::from).collect(),
            excludes: definition.excludes.iter().map(SelectionBody::from).collect(),
            members: group.members().count(),
        }
    }
}

impl From<&Selection> for SelectionBody {
    fn from(selection: &Selection) -> Self {
        match selection {
            Selection::Code(uri) => Self::Code(uri.to_string()),
            Selection::DescendantsOf(uri) => Self::DescendantsOf(uri.to_string()),
        }
    }
}
