//! `/Vocabulary` and `/ConceptGroup`: goes with `dto/vocabulary.rs` and `routes/vocabulary.rs`.

use daftar_api_types::public::concept_group::{ConceptGroup, ExpandedConceptGroup, GroupCode};
use daftar_api_types::public::vocabulary as body;

use super::operation::{Operation, Tag};
use super::parameter::{self, Parameter, needed, query};
use super::record;
use super::shape::{self, Shape, boolean, named, pattern, response, searched as searched_text};

/// A code of the vocabulary, alone or with its namespace.
const CODE_PATTERN: &str = r"^([\x21\x22\x24-\x7B\x7D\x7E]{1,200}#)?[^\x00-\x20\x7F-\xA0#\s]{1,100}$";
/// Maximum length of a searched text, in bytes.
const SEARCH_BYTES_MAX: usize = 1_000;

fn version() -> Parameter {
    query("version", "An earlier version that is still stored.", shape::plain().filled())
}

fn deprecated() -> Parameter {
    query("include_deprecated", "True to include codes that new records may not contain.", boolean())
}

fn domain() -> Parameter {
    query("domain", "Vocabularies of one domain alone.", shape::plain().filled())
}

fn searched() -> Parameter {
    let description =
        "Words in any order, each a beginning of a word; one typing error is forgiven, accents do not matter.";
    needed("q", description, searched_text(SEARCH_BYTES_MAX))
}

/// `GET /Vocabulary`
pub fn list() -> Operation {
    Operation::new(Tag::Vocabularies, "listVocabularies", "List vocabularies")
        .parameter(domain())
        .parameters(parameter::page())
        .responses("A page of vocabularies.", record::page_of("Vocabulary"))
        .conditional(true)
}

/// `GET /Vocabulary/{namespace}`
pub fn read() -> Operation {
    Operation::new(Tag::Vocabularies, "readVocabulary", "Describe a vocabulary")
        .parameter(version())
        .responses("The vocabulary.", named("Vocabulary"))
        .conditional(true)
        .refuses(&[404])
}

/// `GET /Vocabulary/{namespace}/codes`
pub fn codes() -> Operation {
    let code = || pattern(CODE_PATTERN);
    Operation::new(Tag::Vocabularies, "listCodes", "List codes of a vocabulary")
        .parameter(version())
        .parameter(query(
            "parent",
            "Codes one level below this one; the topmost ones if it is empty.",
            pattern(&format!("^$|{CODE_PATTERN}")),
        ))
        .parameter(query("below", "Codes anywhere below this one.", code()))
        .parameter(deprecated())
        .parameters(parameter::page())
        .responses("A page of codes.", record::page_of("Concept"))
        .conditional(true)
        .refuses(&[404, 422, 503])
}

/// `GET /Vocabulary/{namespace}/codes/{code}`
pub fn code() -> Operation {
    let mut operation = Operation::new(Tag::Vocabularies, "readCode", "Describe a code")
        .says("An alias returns its code: `requested_code` is the alias, `Content-Location` the code's own URL.")
        .parameter(version())
        .responses("The code.", named("Concept"))
        .conditional(true)
        .refuses(&[404, 503]);
    for response in operation.responses.iter_mut().filter(|response| matches!(response.status, 200 | 304)) {
        response.headers.push("Content-Location");
    }
    operation
}

/// `GET /Vocabulary/{namespace}/search`
pub fn search() -> Operation {
    Operation::new(Tag::Vocabularies, "searchCodes", "Search one vocabulary")
        .parameter(searched())
        .parameter(version())
        .parameter(deprecated())
        .parameters(parameter::page())
        .responses("A page of codes, the best first.", record::page_of("FoundCode"))
        .conditional(true)
        .refuses(&[404])
}

/// `GET /Vocabulary/$search`
pub fn search_all() -> Operation {
    Operation::new(Tag::Vocabularies, "searchAllCodes", "Search all vocabularies")
        .parameter(searched())
        .parameter(domain())
        .parameter(deprecated())
        .parameters(parameter::page())
        .responses("A page of codes, the best first.", record::page_of("FoundCode"))
        .conditional(true)
}

/// `GET /Vocabulary/{namespace}/$subsumes`
pub fn subsumes() -> Operation {
    let code = || pattern(CODE_PATTERN);
    Operation::new(Tag::Vocabularies, "compareCodes", "Compare two codes")
        .parameter(needed("a", "A code.", code()))
        .parameter(needed("b", "Another code.", code()))
        .parameter(version())
        .responses("The relation of `a` to `b`.", named("Subsumption"))
        .conditional(true)
        .refuses(&[404, 422, 503])
}

/// `POST /Vocabulary/$validate`
pub fn validate() -> Operation {
    Operation::new(Tag::Vocabularies, "validateCodes", "Validate many codes for new records")
        .body("The codes, at most 1,000.", named("CodeBatch"))
        .responses("One result for each code, in order.", named("Validities"))
        .conditional(true)
        .refuses(&[503])
}

/// `POST /Vocabulary/$lookup`
pub fn lookup() -> Operation {
    Operation::new(Tag::Vocabularies, "lookUpCodes", "Describe many codes")
        .body("The codes, at most 1,000.", named("CodeBatch"))
        .responses("One result for each code, in order.", named("LookedUp"))
        .conditional(true)
        .refuses(&[503])
}

/// `GET /ConceptGroup`
pub fn groups() -> Operation {
    Operation::new(Tag::Vocabularies, "listConceptGroups", "List concept groups")
        .parameters(parameter::page())
        .responses("A page of concept groups.", record::page_of("ConceptGroup"))
        .conditional(true)
}

/// `GET /ConceptGroup/{name}`
pub fn group() -> Operation {
    Operation::new(Tag::Vocabularies, "readConceptGroup", "Read a concept group with its codes")
        .parameters(parameter::page())
        .responses("The group and a page of its codes.", named("ExpandedConceptGroup"))
        .conditional(true)
        .refuses(&[404])
}

/// The shapes of this noun, by name.
#[must_use]
pub fn shapes() -> Vec<(String, Shape)> {
    let bodies = [
        response::<body::Vocabulary<'_>>(),
        response::<body::Concept<'_>>(),
        response::<body::FoundCode<'_>>(),
        response::<body::Subsumption<'_>>(),
        // The codes of a batch are described like responses: without `null`.
        response::<body::CodeBatch<'_>>(),
        response::<body::CodeParts<'_>>(),
        response::<body::ShownCode<'_>>(),
        response::<body::Validities<'_>>(),
        response::<body::LookedUp<'_>>(),
        response::<ConceptGroup<'_>>(),
        response::<ExpandedConceptGroup<'_>>(),
        response::<GroupCode<'_>>(),
        vec![("GroupCodePage".to_owned(), record::page_of("GroupCode"))],
    ];
    bodies.into_iter().flatten().collect()
}
