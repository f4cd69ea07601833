//! Shapes of vocabularies, codes and concept groups.

use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, Type};

use crate::api::openapi::shape::{Members, Shape, any_of, boolean, list, named, or_null, plain, text, whole, word};
use daftar_service::vocabulary::BATCH_CODES_MAX;

/// The shapes of this noun, by name.
#[must_use]
pub fn shapes() -> Vec<(String, Shape)> {
    [
        ("Vocabulary", vocabulary()),
        ("LabelledCode", labelled(Members::answered("A code with its name and the language of it.")).into()),
        ("BareCode", bare()),
        ("NeighbourCode", neighbour()),
        ("Text", Members::answered("A text in one language.").needs("language", text()).needs("value", text()).into()),
        ("Concept", concept(Members::answered("A code with everything that is said of it.")).into()),
        ("FoundCode", found()),
        ("Subsumption", subsumption()),
        ("CodeBatch", batch()),
        (
            "Validities",
            results(
                Members::answered("Whether a code is right.")
                    .needs("uri", text())
                    .needs("valid", boolean())
                    .may("reason", text().description(Some("The stable name of what is wrong.")))
                    .may("message", text())
                    .may("suggestion", text().description(Some("The nearest code that is right.")))
                    .into(),
            ),
        ),
        ("LookedUp", results(any_of([looked_up(), missing()]).into())),
        ("ConceptGroup", concept_group(Members::answered("A named group of codes.")).into()),
        ("ExpandedConceptGroup", expanded()),
        ("Selection", selection()),
    ]
    .map(|(name, shape)| (name.to_owned(), shape))
    .into()
}

fn vocabulary() -> Shape {
    let module = "The plugin that brings it; `null` for a vocabulary of the server.";
    Members::answered("A code list without its codes.")
        .needs("namespace", text())
        .needs("name", text())
        .needs("domain", text())
        .needs("version", text())
        .needs("source", text())
        .needs("licence", text())
        .needs("attribution", text())
        .needs("default_language", text())
        .needs("languages", list(text()))
        .needs("code_count", whole(0))
        .needs("hierarchical", boolean())
        .needs("completeness", word(["full", "fragment", "empty"]))
        .needs("system", boolean())
        .needs("extensible", boolean().description(Some("Whether the administrator may add codes.")))
        .needs("open", boolean().description(Some("Whether there are codes beside those that are listed.")))
        .needs("module", or_null(text().description(Some(module))))
        .needs("module_version", or_null(text()))
        .needs("digest", text())
        .may("earlier_version", text())
        .may("superseded_by", text())
        .into()
}

fn labelled(members: Members) -> Members {
    members
        .needs("uri", text())
        .needs("code", text())
        .needs("display", text())
        .needs("namespace", text())
        .needs("language", text())
        .may("fallback", boolean().description(Some("The default language stands in for those that were asked for.")))
        .may("local", boolean().description(Some("A code of the deployment's own.")))
}

fn bare() -> Shape {
    Members::answered("A code whose vocabulary is gone.")
        .needs("uri", text())
        .needs("code", text())
        .needs("display", text())
        .needs("namespace", text())
        .into()
}

fn neighbour() -> Shape {
    Members::answered("A code above another, or in its place.")
        .needs("uri", text())
        .needs("code", text())
        .needs("display", text())
        .into()
}

fn concept(members: Members) -> Members {
    let properties = ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(AdditionalProperties::from(Shape::from(text()))));
    labelled(members)
        .may("definition", named("Text"))
        .needs("level", whole(0))
        .needs("parents", list(named("NeighbourCode")))
        .needs("children_count", whole(0))
        .needs("descendants_count", whole(0))
        .needs("status", word(["active", "deprecated"]))
        .needs("selectable", boolean().description(Some("False for a heading that only groups others.")))
        .may("replaced_by", named("NeighbourCode"))
        .needs("designations", list(named("Text")))
        .needs("aliases", list(text()))
        .may("properties", properties)
        .may("source_uri", text().description(Some("The owner's own URI for it.")))
        .may("asked_as", text().description(Some("The other name by which it was asked for.")))
}

fn found() -> Shape {
    let matched = Members::answered("What of the code matched.")
        .needs("kind", word(["code", "prefix", "words", "one_edit"]))
        .needs("text", text())
        .may("language", text());
    labelled(Members::answered("A code that a search found."))
        .needs("status", word(["active", "deprecated"]))
        .needs("selectable", boolean())
        .may("source_uri", text())
        .needs("match", matched)
        .into()
}

fn subsumption() -> Shape {
    Members::answered("How two codes stand to each other.")
        .needs("outcome", word(["equivalent", "subsumes", "subsumed_by", "not_subsumed"]))
        .needs("namespace", text())
        .needs("a", text())
        .needs("b", text())
        .into()
}

fn batch() -> Shape {
    let parts = Members::answered("Namespace and code.").needs("namespace", plain()).needs("code", plain());
    let shown = Members::answered("A code as answers have it.")
        .needs("uri", plain())
        .may("code", plain())
        .may("display", plain())
        .may("namespace", plain())
        .may("language", plain())
        .may("fallback", boolean())
        .may("local", boolean());
    let code = any_of([plain().description(Some("`<namespace>#<code>`")).into(), parts.into(), shown.into()]);
    Members::sent("Codes to be looked at.").needs("codes", list(code).max_items(Some(BATCH_CODES_MAX))).into()
}

fn results(of: Shape) -> Shape {
    Members::answered("Results in the order of the codes.").needs("results", list(of)).into()
}

fn looked_up() -> Shape {
    concept(Members::answered("A code that is there.")).needs("found", word_of(true)).into()
}

fn missing() -> Shape {
    Members::answered("A code that is not there.")
        .needs("uri", text())
        .needs("found", word_of(false))
        .needs("reason", text().description(Some("The stable name of the reason.")))
        .needs("message", text())
        .may("suggestion", text().description(Some("The nearest code that is right.")))
        .into()
}

fn word_of(value: bool) -> ObjectBuilder {
    boolean().enum_values(Some([value]))
}

fn concept_group(members: Members) -> Members {
    let definition = Members::answered("What the group is made of.")
        .needs("text", text().description(Some("The same in words.")))
        .needs("include", list(named("Selection")))
        .needs("exclude", list(named("Selection")));
    members
        .needs("name", text())
        .needs("description", text())
        .needs("defined_by", word(["nobody", "deployment", "module"]))
        .may("module", text())
        .needs(
            "unset",
            boolean().description(Some("Whether it includes nothing yet, so that nothing is known of any code.")),
        )
        .needs("definition", definition)
        .needs("code_count", whole(0))
        .needs("undecided_count", whole(0))
}

fn expanded() -> Shape {
    let page = Members::answered("A page of the group's codes.")
        .needs("data", list(any_of([named("LabelledCode").into(), named("BareCode").into()])))
        .needs("total", whole(0))
        .needs("meta", named("PageMeta"))
        .needs("links", named("Links"));
    concept_group(Members::answered("A named group of codes with a page of them.")).needs("expansion", page).into()
}

fn selection() -> Shape {
    Members::answered("Codes that a definition takes in or leaves out.")
        .needs("uri", text())
        .needs("code", text())
        .needs("display", text())
        .needs("namespace", text())
        .may("language", text())
        .may("fallback", boolean())
        .may("local", boolean())
        .needs("descendants", boolean().description(Some("Whether everything below the code is meant too.")))
        .into()
}
