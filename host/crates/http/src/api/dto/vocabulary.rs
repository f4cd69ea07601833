//! Bodies about vocabularies: their descriptions, their codes, the results of a search, the codes of `$validate` and
//! `$lookup`, and concept groups.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::api::conditional::ReportedLanguages;
use crate::api::dto::reader::{ObjectReader, Problems};
use daftar_api_types::public::vocabulary::{BATCH_CODES_MAX, BareCode};
use daftar_api_types::public::{concept_group as groups, vocabulary as body};
use daftar_domain::code::{CodeUri, Namespace};
use daftar_domain::vocabulary::{Completeness, ConceptStatus, Selection};
use daftar_service::vocabulary::{
    Answer, ConceptRef, DefinedBy, Found, Generation, Grade, Label, LanguagePreference, LookedUp, MatchedText,
    PublishedGroup, RequestedCode, Subsumption, Vocabulary, is_active,
};

/// A vocabulary without its codes.
#[must_use]
pub fn vocabulary<'a>(generation: &'a Generation, vocabulary: &'a Vocabulary) -> body::Vocabulary<'a> {
    let description = vocabulary.description();
    let pack = generation.pack_of(&description.namespace);
    let version_of = |one: &'a Arc<Vocabulary>| one.description().version.as_str();
    let active = generation.vocabulary(&description.namespace).map(version_of);
    let superseded_by = active.filter(|_| !is_active(generation, vocabulary));
    let earlier_version = generation.earlier(&description.namespace).map(version_of);
    let pack_version = pack.filter(|_| superseded_by.is_none()).map(|pack| pack.version.as_str());
    body::Vocabulary {
        namespace: Cow::Borrowed(description.namespace.as_str()),
        name: Cow::Borrowed(&description.name),
        domain: Cow::Borrowed(&description.domain),
        version: Cow::Borrowed(&description.version),
        source: Cow::Borrowed(&description.source),
        licence: Cow::Borrowed(&description.licence),
        attribution: Cow::Borrowed(&description.attribution),
        default_language: Cow::Borrowed(&description.default_language),
        languages: Cow::Borrowed(vocabulary.languages()),
        code_count: vocabulary.concept_count(),
        hierarchical: description.is_hierarchical,
        completeness: match description.completeness {
            Completeness::Full => body::Completeness::Full,
            Completeness::Fragment => body::Completeness::Fragment,
            Completeness::Empty => body::Completeness::Empty,
        },
        system: description.is_system,
        extensible: description.is_extensible,
        open: description.is_open,
        module: pack.map(|pack| Cow::Borrowed(pack.plugin.as_str())),
        module_version: pack_version.map(Cow::Borrowed),
        digest: Cow::Owned(vocabulary.digest().to_string()),
        earlier_version: earlier_version.filter(|_| superseded_by.is_none()).map(Cow::Borrowed),
        superseded_by: superseded_by.map(Cow::Borrowed),
    }
}

/// A code with its name in the preferred language of the client.
pub fn labelled<'a>(
    concept: ConceptRef<'a>,
    languages: &LanguagePreference,
    reported_languages: &mut ReportedLanguages,
) -> body::LabelledCode<'a> {
    let label = concept.label(languages);
    reported_languages.add(label.language);
    body::LabelledCode {
        uri: Cow::Owned(concept.uri_text()),
        code: Cow::Borrowed(concept.code()),
        display: Cow::Borrowed(label.text),
        namespace: Cow::Borrowed(concept.vocabulary().namespace().as_str()),
        language: Cow::Borrowed(label.language),
        fallback: label.is_fallback,
        local: concept.is_local(),
    }
}

fn neighbour<'a>(concept: ConceptRef<'a>, languages: &LanguagePreference) -> body::NeighbourCode<'a> {
    body::NeighbourCode {
        uri: Cow::Owned(concept.uri_text()),
        code: Cow::Borrowed(concept.code()),
        display: Cow::Borrowed(concept.label(languages).text),
    }
}

/// A code with all its properties; `requested_code` is the alias in the request.
pub fn concept<'a>(
    concept: ConceptRef<'a>,
    languages: &LanguagePreference,
    requested_code: Option<&'a str>,
    reported_languages: &mut ReportedLanguages,
) -> body::Concept<'a> {
    let text = |language: &'a str, value: &'a str| body::Text {
        language: Cow::Borrowed(language),
        value: Cow::Borrowed(value),
    };
    body::Concept {
        coded: labelled(concept, languages, reported_languages),
        definition: concept.definition(languages).map(|label: Label<'a>| text(label.language, label.text)),
        level: concept.level(),
        parents: concept.parents().map(|parent| neighbour(parent, languages)).collect(),
        children_count: concept.child_count(),
        descendants_count: concept.descendant_count(),
        status: status(concept),
        selectable: concept.is_selectable(),
        replaced_by: concept.replaced_by().map(|successor| neighbour(successor, languages)),
        designations: concept.labels().map(|(language, value)| text(language, value)).collect(),
        aliases: concept.aliases().map(Cow::Borrowed).collect(),
        properties: concept.properties().map(|(name, value)| (Cow::Borrowed(name), Cow::Borrowed(value))).collect(),
        source_uri: concept.owner_uri().map(Cow::Borrowed),
        requested_code: requested_code.map(Cow::Borrowed),
    }
}

/// A code in a search result, with the text that matched.
pub fn found<'a>(
    found: Found<'a>,
    languages: &LanguagePreference,
    reported_languages: &mut ReportedLanguages,
) -> body::FoundCode<'a> {
    let kind = match found.grade {
        Grade::Code => body::MatchKind::Code,
        Grade::Prefix => body::MatchKind::Prefix,
        Grade::Words => body::MatchKind::Words,
        Grade::OneEdit => body::MatchKind::OneEdit,
    };
    let (text, language) = match found.text {
        MatchedText::Code => (found.concept.code(), None),
        MatchedText::Alias(alias) => (alias, None),
        MatchedText::Label { text, language } => (text, Some(Cow::Borrowed(language))),
    };
    body::FoundCode {
        coded: labelled(found.concept, languages, reported_languages),
        status: status(found.concept),
        selectable: found.concept.is_selectable(),
        source_uri: found.concept.owner_uri().map(Cow::Borrowed),
        matched: body::Match { kind, text: Cow::Borrowed(text), language },
    }
}

/// The relation of two codes, named as in the request.
#[must_use]
pub fn subsumption<'a>(
    outcome: Subsumption,
    namespace: &'a Namespace,
    a: &'a str,
    b: &'a str,
) -> body::Subsumption<'a> {
    let outcome = match outcome {
        Subsumption::Equivalent => body::SubsumptionOutcome::Equivalent,
        Subsumption::Subsumes => body::SubsumptionOutcome::Subsumes,
        Subsumption::SubsumedBy => body::SubsumptionOutcome::SubsumedBy,
        Subsumption::NotSubsumed => body::SubsumptionOutcome::NotSubsumed,
    };
    let (a, b) = (Cow::Borrowed(a), Cow::Borrowed(b));
    body::Subsumption { outcome, namespace: Cow::Borrowed(namespace.as_str()), a, b }
}

fn status(concept: ConceptRef<'_>) -> body::CodeStatus {
    match concept.status() {
        ConceptStatus::Active => body::CodeStatus::Active,
        ConceptStatus::Inactive => body::CodeStatus::Deprecated,
    }
}

/// Written forms of a code in a batch.
const FORMS: &str = "a code is written as a text `<namespace>#<code>`, or as `{namespace, code}`";

/// Reads `{"codes": […]}`. An invalid text has a response in its place; any other type is rejected here.
pub fn read_codes(members: Map<String, Value>, problems: &mut Problems) -> Vec<RequestedCode> {
    let mut reader = ObjectReader::root(members);
    let items = reader.list("codes", BATCH_CODES_MAX, problems);
    let items = reader.needed("codes", items, "a list of codes is required", problems);
    let mut requested = Vec::new();
    for (path, item) in items.unwrap_or_default() {
        match read_code(item) {
            Some(code) => requested.push(code),
            None => problems.add(path, "wrong_type", FORMS),
        }
    }
    reader.finish(problems);
    requested
}

fn read_code(item: Value) -> Option<RequestedCode> {
    match item {
        Value::String(text) => Some(RequestedCode::Uri(text)),
        Value::Object(members) => {
            let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
            if members.contains_key("uri") {
                // The coded object of a response, or part of it.
                let is_known = |(name, value): (&String, &Value)| match name.as_str() {
                    "uri" | "code" | "display" | "namespace" | "language" => value.is_string(),
                    "fallback" | "local" => value.is_boolean(),
                    _ => false,
                };
                return text("uri").filter(|_| members.iter().all(is_known)).map(RequestedCode::Uri);
            }
            let parts = RequestedCode::Parts { namespace: text("namespace")?, code: text("code")? };
            (members.len() == 2).then_some(parts)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

/// The texts that the response depends on.
#[must_use]
pub fn code_texts(requested: &[RequestedCode]) -> Vec<&str> {
    let parts = requested.iter().flat_map(|requested| match requested {
        RequestedCode::Uri(text) => ["uri", text.as_str(), ""],
        RequestedCode::Parts { namespace, code } => ["parts", namespace.as_str(), code.as_str()],
    });
    parts.collect()
}

/// The response of `$validate`.
#[must_use]
pub fn validities(responses: Vec<Answer<ConceptRef<'_>>>) -> body::Validities<'static> {
    let validity = |response: Answer<ConceptRef<'_>>| {
        let uri = Cow::Owned(response.uri);
        match response.outcome {
            Ok(concept) => {
                // In an open vocabulary another spelling is valid too; this is the stored one.
                let stored = format!("{}#{}", concept.vocabulary().namespace(), concept.code());
                let suggestion = (stored != uri).then_some(Cow::Owned(stored));
                body::Validity { uri, valid: true, reason: None, message: None, suggestion }
            }
            Err(refused) => body::Validity {
                uri,
                valid: false,
                reason: Some(Cow::Borrowed(refused.reason)),
                message: Some(Cow::Owned(refused.message)),
                suggestion: refused.suggestion.map(Cow::Owned),
            },
        }
    };
    body::Validities { results: responses.into_iter().map(validity).collect() }
}

/// The response of `$lookup`.
pub fn looked_up<'a>(
    responses: Vec<Answer<LookedUp<'a>>>,
    requested: &'a [RequestedCode],
    languages: &LanguagePreference,
    reported_languages: &mut ReportedLanguages,
) -> body::LookedUp<'a> {
    let mut results = Vec::with_capacity(responses.len());
    for (response, requested) in responses.into_iter().zip(requested) {
        results.push(match response.outcome {
            Ok(LookedUp { concept, is_alias }) => {
                let requested_code = is_alias.then(|| requested.code());
                let concept = self::concept(concept, languages, requested_code, reported_languages);
                body::LookedUpCode::Found(Box::new(body::FoundConcept { found: true, concept }))
            }
            Err(refused) => body::LookedUpCode::Missing(body::MissingCode {
                uri: Cow::Owned(response.uri),
                found: false,
                reason: Cow::Borrowed(refused.reason),
                message: Cow::Owned(refused.message),
                suggestion: refused.suggestion.map(Cow::Owned),
            }),
        });
    }
    body::LookedUp { results }
}

/// A code of a group, as far as it is known: its vocabulary may be missing.
pub fn group_code<'a>(
    generation: &'a Generation,
    uri: &CodeUri,
    languages: &LanguagePreference,
    reported_languages: &mut ReportedLanguages,
) -> groups::GroupCode<'a> {
    match known(generation, uri) {
        Some(concept) => groups::GroupCode::Known(labelled(concept, languages, reported_languages)),
        None => groups::GroupCode::Bare(BareCode {
            uri: Cow::Owned(uri.to_string()),
            code: Cow::Owned(uri.code.to_string()),
            display: Cow::Owned(uri.code.to_string()),
            namespace: Cow::Owned(uri.namespace.to_string()),
        }),
    }
}

/// A group without its codes.
pub fn group<'a>(
    generation: &'a Generation,
    group: &'a PublishedGroup,
    languages: &LanguagePreference,
    reported_languages: &mut ReportedLanguages,
) -> groups::ConceptGroup<'a> {
    let definition = group.definition();
    let (defined_by, module) = match group.defined_by() {
        DefinedBy::None => (groups::DefinedBy::None, None),
        DefinedBy::Deployment => (groups::DefinedBy::Deployment, None),
        DefinedBy::Plugin(plugin) => (groups::DefinedBy::Module, Some(Cow::Borrowed(plugin.as_str()))),
    };
    let mut selections = |selections: &[Selection]| -> Vec<groups::Selection<'a>> {
        let mut bodies = Vec::with_capacity(selections.len());
        for selection in selections {
            let (uri, descendants) = parts(selection);
            bodies.push(group_code(generation, uri, languages, reported_languages).selection(descendants));
        }
        bodies
    };
    groups::ConceptGroup {
        name: Cow::Borrowed(&definition.name),
        description: Cow::Borrowed(&definition.description),
        defined_by,
        module,
        unset: group.is_unset(),
        definition: groups::Definition {
            text: Cow::Owned(in_words(&definition.includes, &definition.excludes)),
            include: selections(&definition.includes),
            exclude: selections(&definition.excludes),
        },
        code_count: group.member_count(),
        undecided_count: group.undecided_count(),
    }
}

fn parts(selection: &Selection) -> (&CodeUri, bool) {
    match selection {
        Selection::Code(uri) => (uri, false),
        Selection::DescendantsOf(uri) => (uri, true),
    }
}

/// Maximum number of selections in the description; the lists contain all.
const SELECTIONS_DESCRIBED_MAX: usize = 20;

/// `descendants of urn:a#1 and urn:a#2, except urn:a#11`
fn in_words(includes: &[Selection], excludes: &[Selection]) -> String {
    let words = |selections: &[Selection]| {
        let one = |selection: &Selection| match parts(selection) {
            (uri, true) => format!("descendants of {uri} and itself"),
            (uri, false) => uri.to_string(),
        };
        let languages: Vec<String> = selections.iter().take(SELECTIONS_DESCRIBED_MAX).map(one).collect();
        let unreported = selections.len().saturating_sub(SELECTIONS_DESCRIBED_MAX);
        let more = if unreported > 0 { format!(" and {unreported} more") } else { String::new() };
        languages.join("; ") + &more
    };
    match (includes, excludes) {
        ([], _) => "nothing yet".to_owned(),
        (includes, []) => words(includes),
        (includes, excludes) => format!("{} except {}", words(includes), words(excludes)),
    }
}

fn known<'g>(generation: &'g Generation, uri: &CodeUri) -> Option<ConceptRef<'g>> {
    generation.vocabulary(&uri.namespace)?.find(uri.code.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read_body(body: Value) -> Result<Vec<RequestedCode>, String> {
        let Value::Object(members) = body else { unreachable!() };
        let mut problems = Problems::default();
        let requested = read_codes(members, &mut problems);
        problems.finish(requested).map_err(|error| error.to_string())
    }

    #[test]
    fn reads_every_form() {
        let uri = |text: &str| RequestedCode::Uri(text.to_owned());
        let requested = read_body(json!({"codes": [
            "urn:x#1", {"namespace": "urn:x", "code": "1"}, {"uri": "urn:x#1"},
            {"uri": "urn:x#1", "code": "1", "display": "One", "namespace": "urn:x", "local": true},
        ]}));
        let parts = RequestedCode::Parts { namespace: "urn:x".to_owned(), code: "1".to_owned() };
        assert_eq!(requested.unwrap(), [uri("urn:x#1"), parts, uri("urn:x#1"), uri("urn:x#1")]);
        assert_eq!(read_body(json!({"codes": []})), Ok(Vec::new()));
    }

    #[test]
    fn rejects_values_that_are_no_text_or_too_long() {
        let refusal = |body: Value| read_body(body).unwrap_err();
        assert!(refusal(json!({})).starts_with("codes: a list of codes is required"));
        assert!(refusal(json!({"codes": "urn:x#1"})).starts_with("codes: must be a list"));
        assert!(refusal(json!({"codes": [1]})).starts_with("codes[0]: a code is written as"));
        assert!(refusal(json!({"codes": [{"namespace": "urn:x"}]})).starts_with("codes[0]: "));
        for wrong in
            [json!({"uri": "urn:x#1", "extra": "1"}), json!({"uri": "urn:x#1", "namespace": {}}), json!({"uri": 1})]
        {
            assert!(refusal(json!({"codes": [wrong]})).starts_with("codes[0]: "));
        }
        assert!(refusal(json!({"codes": [], "code": []})).contains("did you mean `codes`?"));
        let many = |count: usize| read_body(json!({"codes": vec!["urn:x#1"; count]}));
        assert_eq!(many(BATCH_CODES_MAX).unwrap().len(), BATCH_CODES_MAX);
        assert!(many(BATCH_CODES_MAX + 1).unwrap_err().contains("at most 1000 items"));
    }
}

#[cfg(test)]
mod concept_group_tests {
    use super::*;

    #[test]
    fn describes_a_definition_in_words() {
        let uri = |text: &str| CodeUri::parse(text).unwrap();
        let includes = [Selection::DescendantsOf(uri("urn:a#6")), Selection::Code(uri("urn:a#92"))];
        let excludes = [Selection::Code(uri("urn:a#63"))];
        assert_eq!(in_words(&includes, &excludes), "descendants of urn:a#6 and itself; urn:a#92 except urn:a#63");
        assert_eq!(in_words(&includes[1..], &[]), "urn:a#92");
        assert_eq!(in_words(&[], &excludes), "nothing yet");
        let many = vec![Selection::Code(uri("urn:a#1")); SELECTIONS_DESCRIBED_MAX + 2];
        assert!(in_words(&many, &[]).ends_with("urn:a#1 and 2 more"));
    }
}
