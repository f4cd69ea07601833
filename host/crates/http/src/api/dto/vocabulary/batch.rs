//! Bodies of `$validate` and `$lookup`.

use std::borrow::Cow;

use daftar_api_types::public::vocabulary::{self as body, BATCH_CODES_MAX};
use serde_json::{Map, Value};

use crate::api::conditional::LanguagesTold;
use crate::api::dto::reader::{ObjectReader, Problems};
use daftar_service::vocabulary::{Answer, Asked, ConceptRef, LanguagePreference, LookedUp};

/// How a code of a batch is written.
const FORMS: &str = "a code is written as a text `<namespace>#<code>`, or as `{namespace, code}`";

/// Reads `{"codes": […]}`. A text that is no code is answered, in its place; anything but a text is refused here.
pub fn read(members: Map<String, Value>, problems: &mut Problems) -> Vec<Asked> {
    let mut reader = ObjectReader::root(members);
    let items = reader.list("codes", BATCH_CODES_MAX, problems);
    if items.is_none() && !reader.is_problem("codes", problems) {
        problems.add("codes", "required", "a list of codes is needed");
    }
    let mut asked = Vec::new();
    for (path, item) in items.unwrap_or_default() {
        match read_code(item) {
            Some(code) => asked.push(code),
            None => problems.add(path, "wrong_type", FORMS),
        }
    }
    reader.finish(problems);
    asked
}

fn read_code(item: Value) -> Option<Asked> {
    match item {
        Value::String(text) => Some(Asked::Uri(text)),
        Value::Object(members) => {
            let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
            if members.contains_key("uri") {
                // The coded object of an answer, or part of it.
                let is_known = |(name, value): (&String, &Value)| match name.as_str() {
                    "uri" | "code" | "display" | "namespace" | "language" => value.is_string(),
                    "fallback" | "local" => value.is_boolean(),
                    _ => false,
                };
                return text("uri").filter(|_| members.iter().all(is_known)).map(Asked::Uri);
            }
            let parts = Asked::Parts { namespace: text("namespace")?, code: text("code")? };
            (members.len() == 2).then_some(parts)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

/// The texts that the answer depends on.
#[must_use]
pub fn parts(asked: &[Asked]) -> Vec<&str> {
    let parts = asked.iter().flat_map(|asked| match asked {
        Asked::Uri(text) => ["uri", text.as_str(), ""],
        Asked::Parts { namespace, code } => ["parts", namespace.as_str(), code.as_str()],
    });
    parts.collect()
}

/// The response of `$validate`.
#[must_use]
pub fn validities(answers: Vec<Answer<ConceptRef<'_>>>) -> body::Validities<'static> {
    let validity = |answer: Answer<ConceptRef<'_>>| {
        let uri = Cow::Owned(answer.uri);
        match answer.outcome {
            Ok(concept) => {
                // In an open vocabulary another spelling is valid too; this is the one that records keep.
                let kept = format!("{}#{}", concept.vocabulary().namespace(), concept.code());
                let suggestion = (kept != uri).then_some(Cow::Owned(kept));
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
    body::Validities { results: answers.into_iter().map(validity).collect() }
}

/// The response of `$lookup`.
pub fn looked_up<'a>(
    answers: Vec<Answer<LookedUp<'a>>>,
    asked: &'a [Asked],
    languages: &LanguagePreference,
    told: &mut LanguagesTold,
) -> body::LookedUp<'a> {
    let mut results = Vec::with_capacity(answers.len());
    for (answer, asked) in answers.into_iter().zip(asked) {
        results.push(match answer.outcome {
            Ok(LookedUp { concept, is_alias }) => {
                let asked_as = is_alias.then(|| asked.code());
                let concept = super::concept(concept, languages, asked_as, told);
                body::LookedUpCode::Found(Box::new(body::FoundConcept { found: true, concept }))
            }
            Err(refused) => body::LookedUpCode::Missing(body::MissingCode {
                uri: Cow::Owned(answer.uri),
                found: false,
                reason: Cow::Borrowed(refused.reason),
                message: Cow::Owned(refused.message),
                suggestion: refused.suggestion.map(Cow::Owned),
            }),
        });
    }
    body::LookedUp { results }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read_body(body: Value) -> Result<Vec<Asked>, String> {
        let Value::Object(members) = body else { unreachable!() };
        let mut problems = Problems::default();
        let asked = read(members, &mut problems);
        problems.finish(asked).map_err(|error| error.to_string())
    }

    #[test]
    fn reads_every_form() {
        let uri = |text: &str| Asked::Uri(text.to_owned());
        let asked = read_body(json!({"codes": [
            "urn:x#1", {"namespace": "urn:x", "code": "1"}, {"uri": "urn:x#1"},
            {"uri": "urn:x#1", "code": "1", "display": "One", "namespace": "urn:x", "local": true},
        ]}));
        let parts = Asked::Parts { namespace: "urn:x".to_owned(), code: "1".to_owned() };
        assert_eq!(asked.unwrap(), [uri("urn:x#1"), parts, uri("urn:x#1"), uri("urn:x#1")]);
        assert_eq!(read_body(json!({"codes": []})), Ok(Vec::new()));
    }

    #[test]
    fn refuses_what_is_no_text_and_what_is_too_much() {
        let refusal = |body: Value| read_body(body).unwrap_err();
        assert!(refusal(json!({})).starts_with("codes: a list of codes is needed"));
        assert!(refusal(json!({"codes": "urn:x#1"})).starts_with("codes: a list is needed"));
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
