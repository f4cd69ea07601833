//! Translates codes of requests into codes of the register, and codes of the register into their display for a client.

use std::sync::Arc;

use daftar_domain::code::{CodeUri, CodedValue};
use daftar_domain::error::FieldProblem;
use daftar_domain::extension::{EXTENSION, Extension, ExtensionFields};
use daftar_domain::field::FieldSet;
use daftar_domain::manifest::ExtensionPath;
use daftar_domain::record::{Fields, RecordType};
use daftar_domain::value::CodePlace;
use daftar_domain::vocabulary::{CodedField, DisplayedCode};
pub use daftar_vocabulary::LanguagePreference;
use daftar_vocabulary::{CodeProblem, ContentDigest, Generation, LookUpProblem};

/// Display of codes in one request: one vocabulary snapshot, one choice of languages.
#[derive(Clone)]
pub struct CodeView {
    generation: Arc<Generation>,
    languages: LanguagePreference,
}

impl CodeView {
    /// Displays codes of that vocabulary snapshot in those languages.
    #[must_use]
    pub fn new(generation: Arc<Generation>, languages: LanguagePreference) -> Self {
        Self { generation, languages }
    }

    /// The fields that installed modules add to records.
    #[must_use]
    pub fn extension_fields(&self) -> &ExtensionFields {
        self.generation.extension_fields()
    }

    /// The content digest of the vocabulary snapshot.
    #[must_use]
    pub fn vocabularies(&self) -> &ContentDigest {
        self.generation.digest()
    }

    /// Display of a code for the client.
    #[must_use]
    pub fn show(&self, value: CodedValue) -> DisplayedCode {
        match self.generation.display(value, &self.languages) {
            Some(shown) => shown.to_displayed(),
            None => unknown(value),
        }
    }
}

/// Display of an unknown number: a damaged record is served rather than hidden.
fn unknown(value: CodedValue) -> DisplayedCode {
    tracing::error!(number = value.number.0, "a record holds a code number that was never given");
    let text = "unknown".to_owned();
    DisplayedCode { uri: text.clone(), code: text.clone(), display: text.clone(), namespace: text }
}

/// The codes of the stored record, each with its field. They stay valid there, even if the vocabularies no longer
/// contain them. Empty for a new record.
///
/// **Invariant:** the validation of a code never depends on a field that the client may not read: the code is resolved
/// against the codes in [readable fields](Self::seen) alone.
#[derive(Debug, Default)]
pub struct Held(Vec<(String, CodedValue)>);

impl Held {
    /// Collects the codes of a record.
    #[must_use]
    pub fn of<T: RecordType>(details: &Fields<T>) -> Self {
        Self(with_fields(details).collect())
    }

    /// The codes in fields that are visible to the client.
    #[must_use]
    pub fn seen(&self, fields: &FieldSet) -> Self {
        Self(self.0.iter().filter(|(field, _)| fields.allows(field)).cloned().collect())
    }

    /// The code that the field contains, if any.
    #[must_use]
    pub fn find(&self, generation: &Generation, field: &str, code: &CodeUri) -> Option<CodedValue> {
        let number = generation.number_of(code)?;
        self.0.iter().find(|(at, value)| at == field && value.number == number).map(|(_, value)| *value)
    }
}

/// An extension with the stored values of fields that no installed module declares. These fields are visible to no
/// client, so their absence from a request is not a removal.
#[must_use]
pub fn with_undeclared(generation: &Generation, before: &Extension, now: Extension) -> Extension {
    let fields = generation.extension_fields();
    let unseen = before.iter().filter(|(path, _)| fields.get(path.as_str()).is_none());
    let all: Vec<_> = now.iter().chain(unseen).map(|(path, content)| (path.clone(), content.clone())).collect();
    Extension::new(all)
}

/// Returns every code of a record with its field, including fields of modules.
pub fn with_fields<T: RecordType>(details: &Fields<T>) -> impl Iterator<Item = (String, CodedValue)> {
    let codes = details.every_code().into_iter().map(|(field, value)| (field.path().to_owned(), *value));
    codes.chain(details.extension.coded().map(|(path, value)| (format!("{EXTENSION}.{path}"), *value)))
}

/// Returns every code of a draft, including fields of modules.
#[must_use]
pub fn of_draft<T: RecordType, I>(draft: &Fields<T, CodeUri, I>) -> Vec<CodeUri> {
    let codes = draft.every_code().into_iter().map(|(_, code)| code);
    codes.chain(draft.extension.codes()).cloned().collect()
}

/// Checks the code in a field of a record, unless the stored record has the same code in that field.
pub fn resolve_at(
    generation: &Generation,
    before: &Held,
    (place, path): (CodePlace<'_>, &str),
    code: &CodeUri,
    problems: &mut Vec<FieldProblem>,
) -> Option<CodedValue> {
    match place {
        CodePlace::Field(field) => {
            let held = before.find(generation, field.path(), code);
            held.or_else(|| resolve(generation, field, path, code, problems))
        }
        CodePlace::Extension(field) => {
            let held = before.find(generation, &format!("{EXTENSION}.{field}"), code);
            held.or_else(|| resolve_extension(generation, field, path, code, problems))
        }
    }
}

/// Checks one code; adds a problem if it is invalid.
pub fn resolve(
    generation: &Generation,
    field: CodedField,
    path: &str,
    code: &CodeUri,
    problems: &mut Vec<FieldProblem>,
) -> Option<CodedValue> {
    let absent = without_search(generation, field.namespaces(), code, problems);
    let resolved = absent.map_or_else(|| generation.resolve(field, code), Err);
    resolved.map_err(|problem| problems.push(problem.at(path))).ok()
}

/// Maximum number of unknown codes of one request that are reported with a suggestion. More unknown codes indicate
/// another kind of mistake, and each search is expensive.
const SEARCHES_MAX: usize = 50;

/// Error of a code if very many codes of the request are invalid: no suggestion is searched.
fn without_search(
    generation: &Generation,
    namespaces: &[&str],
    code: &CodeUri,
    problems: &[FieldProblem],
) -> Option<CodeProblem> {
    if problems.len() < SEARCHES_MAX || !namespaces.contains(&code.namespace.as_str()) {
        return None;
    }
    match generation.plainly_absent(code)? {
        LookUpProblem::Code(problem) => Some(problem),
        LookUpProblem::UnknownNamespace { .. } | LookUpProblem::NotInstalled { .. } => None,
    }
}

/// Checks one code of an extension field; adds a problem if it is invalid.
fn resolve_extension(
    generation: &Generation,
    field: &ExtensionPath,
    path: &str,
    code: &CodeUri,
    problems: &mut Vec<FieldProblem>,
) -> Option<CodedValue> {
    let declared = generation.extension_fields().get(field.as_str());
    let Some(namespace) = declared.and_then(|field| field.vocabulary.as_deref()) else {
        // The module was removed while the request was read.
        let module = generation.extension_fields().modules().of_field(field.as_str());
        let module = module.map(|module| format!("; {module}")).unwrap_or_default();
        let message = format!("no installed module declares such a field{module}");
        problems.push(FieldProblem::new(path, "unknown_field", message));
        return None;
    };
    let absent = without_search(generation, &[namespace], code, problems);
    let resolve = || generation.resolve_in(&format!("{EXTENSION}.{field}"), &[namespace], code);
    absent.map_or_else(resolve, Err).map_err(|problem| problems.push(problem.at(path))).ok()
}
