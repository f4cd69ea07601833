//! Descriptions of endpoints, in addition to those derived from their handlers, and the examples of the document
//! (`examples.json`). A test sends each example request to a server and checks the response against the description.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::parameter::{self, Parameter};
use super::shape::{self, Shape, any_of, named};

/// Subject of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// Tokens.
    Tokens,
    /// People.
    Individuals,
    /// Households and other groups.
    Groups,
    /// Programs.
    Programs,
    /// Memberships in programs.
    ProgramMemberships,
    /// Consents.
    Consents,
    /// Rules.
    Eligibility,
    /// Drafts of rules.
    RuleDrafts,
    /// Code lists and concept groups.
    Vocabularies,
    /// Several calls in one.
    Batches,
    /// The server itself.
    Server,
}

/// Every tag in the document's order, with its name and its description.
pub const TAGS: [(Tag, &str, &str); 11] = [
    (Tag::Tokens, "Tokens", "Access tokens for client credentials (OAuth 2.0, RFC 6749)."),
    (Tag::Individuals, "Individuals", "The people of the register."),
    (Tag::Groups, "Groups", "Households and other groups, with current and former members."),
    (Tag::Programs, "Programs", "Social programs. The administrator manages them."),
    (Tag::ProgramMemberships, "Program memberships", "Enrolments of individuals and groups in programs."),
    (Tag::Consents, "Consents", "Consents given to the client's organization. The administrator manages them."),
    (Tag::Eligibility, "Eligibility", "Rules on people and groups."),
    (
        Tag::RuleDrafts,
        "Rule drafts",
        "Drafts of rules of the client's organization, which the administrator accepts or rejects.",
    ),
    (Tag::Vocabularies, "Vocabularies", "Code lists, their codes, and named groups of codes."),
    (Tag::Batches, "Batches", "Several calls in one request."),
    (Tag::Server, "Server", "Metadata and health of the server."),
];

/// A required request body.
#[derive(Clone)]
pub struct SentBody {
    /// Description.
    pub description: &'static str,
    /// Accepted media types; the first is shown.
    pub media_types: &'static [&'static str],
    /// Its shape.
    pub shape: Shape,
}

/// Request that can follow a response.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    /// Its name in the document.
    pub name: &'static str,
    /// The operation that it calls.
    pub operation: &'static str,
    /// The parameters of that operation, as runtime expressions on the response.
    pub parameters: &'static [(&'static str, &'static str)],
}

/// A successful response.
#[derive(Clone)]
pub struct DocumentedResponse {
    /// The status.
    pub status: u16,
    /// Description.
    pub description: &'static str,
    /// Media type and shape of the body, if any.
    pub bodies: Vec<(&'static str, Shape)>,
    /// Headers, in addition to those of every response.
    pub headers: Vec<&'static str>,
    /// Requests that can follow.
    pub links: Vec<Link>,
}

impl DocumentedResponse {
    /// A response with a JSON body.
    #[must_use]
    pub fn json(status: u16, description: &'static str, shape: Shape) -> Self {
        Self { bodies: vec![("application/json", shape)], ..Self::empty(status, description) }
    }

    /// A response without a body.
    #[must_use]
    pub fn empty(status: u16, description: &'static str) -> Self {
        Self { status, description, bodies: Vec::new(), headers: Vec::new(), links: Vec::new() }
    }

    /// A response with a text, in one of those media types.
    #[must_use]
    pub fn text(description: &'static str, media_types: &[&'static str]) -> Self {
        let bodies = media_types.iter().map(|media_type| (*media_type, shape::text())).collect();
        Self { bodies, ..Self::empty(200, description) }
    }

    /// The response to a write of a record of that shape: the fields that a read returns to this client.
    #[must_use]
    pub fn written(status: u16, description: &'static str, name: &str) -> Self {
        let shape = any_of([named(name), named("Receipt")]);
        let response = Self::json(status, description, shape).header("ETag");
        if status == 201 { response.header("Location").header("Idempotency-Replayed") } else { response }
    }

    /// The same body in another form.
    #[must_use]
    pub fn or(mut self, media_type: &'static str, shape: Shape) -> Self {
        self.bodies.push((media_type, shape));
        self
    }

    /// Adds that header, one of those in `refusal`.
    #[must_use]
    pub fn header(mut self, name: &'static str) -> Self {
        self.headers.push(name);
        self
    }

    /// Adds a link to another operation.
    #[must_use]
    pub fn link(mut self, link: Link) -> Self {
        self.links.push(link);
        self
    }
}

/// Description of an endpoint.
#[derive(Clone)]
#[must_use]
pub struct Operation {
    /// Its unique name in the document: `readIndividual`.
    pub id: &'static str,
    /// Its subject.
    pub tag: Tag,
    /// Short summary.
    pub summary: &'static str,
    /// Details for callers.
    pub description: String,
    /// Parameters in query and headers; those of the path are derived from it.
    pub parameters: Vec<Parameter>,
    /// The required body.
    pub body: Option<SentBody>,
    /// Successful responses.
    pub responses: Vec<DocumentedResponse>,
    /// Error statuses, in addition to those of every operation with the same access and kinds of input.
    pub refusals: Vec<u16>,
    /// Example requests, which a test sends.
    pub examples: Vec<Example>,
}

impl Operation {
    /// An operation without parameters, body and responses yet, with its examples.
    pub fn new(tag: Tag, id: &'static str, summary: &'static str) -> Self {
        Self {
            id,
            tag,
            summary,
            description: String::new(),
            parameters: Vec::new(),
            body: None,
            responses: Vec::new(),
            refusals: Vec::new(),
            examples: EXAMPLES.operations.get(id).cloned().unwrap_or_default(),
        }
    }

    /// Adds a description.
    pub fn says(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Adds that parameter.
    pub fn parameter(mut self, parameter: Parameter) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// Adds those parameters.
    pub fn parameters(mut self, parameters: impl IntoIterator<Item = Parameter>) -> Self {
        self.parameters.extend(parameters);
        self
    }

    /// Requires a JSON body.
    pub fn body(self, description: &'static str, shape: Shape) -> Self {
        self.body_of(&["application/json"], description, shape)
    }

    /// Requires a merge patch.
    pub fn merge_patch(self, description: &'static str, name: &str) -> Self {
        self.body_of(&["application/merge-patch+json", "application/json"], description, named(name))
    }

    /// Requires a body of one of those media types.
    pub fn body_of(mut self, media_types: &'static [&'static str], description: &'static str, shape: Shape) -> Self {
        self.body = Some(SentBody { description, media_types, shape });
        self
    }

    /// Adds that successful response.
    pub fn response(mut self, response: DocumentedResponse) -> Self {
        self.responses.push(response);
        self
    }

    /// Succeeds with 200 and a JSON body of that shape.
    pub fn responses(self, description: &'static str, shape: Shape) -> Self {
        self.response(DocumentedResponse::json(200, description, shape))
    }

    /// Succeeds with a page, whose first record is read by that operation.
    pub fn answers_page(self, description: &'static str, shape: Shape, read: &'static str) -> Self {
        const FIRST: &[(&str, &str)] = &[(
            "identifier",
            "{$response.body#/data/0/identifier/0/system}|{$response.body#/data/0/identifier/0/value}",
        )];
        self.response(DocumentedResponse::json(200, description, shape).link(Link {
            name: read,
            operation: read,
            parameters: FIRST,
        }))
    }

    /// Succeeds with a record, whose version is its entity tag.
    pub fn answers_record(self, description: &'static str, name: &str) -> Self {
        self.response(DocumentedResponse::json(200, description, named(name)).header("ETag"))
    }

    /// Adds those error statuses.
    pub fn refuses(mut self, statuses: &[u16]) -> Self {
        self.refusals.extend(statuses);
        self
    }

    /// Names codes in the preferred languages of the client.
    pub fn in_languages(self) -> Self {
        self.parameter(parameter::accept_language())
    }

    /// Changes a record with an optional version condition; responds with the record.
    pub fn changes(self, response: DocumentedResponse) -> Self {
        self.versioned().response(response)
    }

    /// Changes a record only at a version that meets the conditions of the request.
    pub fn versioned(self) -> Self {
        let conditions = [parameter::if_match(), parameter::if_none_match_of_change()];
        self.parameters(conditions).refuses(&[404, 409, 412])
    }

    /// Returns 304 if the client has the response: every response so far gets an entity tag, and may be in several
    /// languages.
    pub fn conditional(mut self, languages: bool) -> Self {
        for response in &mut self.responses {
            response.headers.extend(["ETag", "Cache-Control"]);
            if languages {
                response.headers.extend(["Vary", "Content-Language"]);
            }
        }
        let mut unchanged = DocumentedResponse::empty(304, "The response is unchanged: the client has it.");
        unchanged.headers.extend(["ETag", "Cache-Control"]);
        if languages {
            unchanged.headers.push("Vary");
            self = self.in_languages();
        }
        self.parameter(parameter::if_none_match()).response(unchanged)
    }
}

/// The examples of the document.
#[derive(Default, Deserialize)]
pub struct Examples {
    /// Requests, by operation.
    #[serde(borrow)]
    operations: BTreeMap<&'static str, Vec<Example>>,
    /// Values, by the name of their shape.
    #[serde(borrow)]
    pub shapes: BTreeMap<&'static str, Value>,
}

/// All examples.
pub static EXAMPLES: LazyLock<Examples> =
    LazyLock::new(|| serde_json::from_str(include_str!("examples.json")).unwrap_or_default());

/// A request with the status of its response.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// Its name in the document, unique in an operation.
    pub name: &'static str,
    /// Short summary.
    pub summary: &'static str,
    /// Status of the response.
    #[serde(default = "success")]
    pub status: u16,
    /// Values that replace the example values of parameters in path, query and header.
    #[serde(default, borrow)]
    pub parameters: BTreeMap<&'static str, String>,
    /// The body.
    pub body: Option<Value>,
}

fn success() -> u16 {
    200
}

#[cfg(test)]
mod tests {
    use daftar_api_types::public::{batch, concept_group, eligibility, page, preview, record, server, vocabulary};
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use utoipa::ToSchema;

    use super::*;
    use crate::api::router::endpoints;

    /// Checks that the type reads and writes exactly this value.
    #[track_caller]
    fn hold<T: Serialize + DeserializeOwned>(value: &Value) {
        let read: T = serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{value}: {error}"));
        assert_eq!(serde_json::to_value(&read).unwrap(), *value);
    }

    #[test]
    fn every_example_is_one_of_an_operation() {
        let examples: Examples = serde_json::from_str(include_str!("examples.json")).unwrap();
        let endpoints = endpoints();
        for (id, examples) in examples.operations {
            let endpoint = endpoints.iter().find(|endpoint| endpoint.operation.id == id).unwrap();
            assert_eq!(endpoint.operation.examples.len(), examples.len(), "{id}");
        }
    }

    #[test]
    fn examples_of_requests_have_the_form_of_their_types() {
        fn of_operation<T: Serialize + DeserializeOwned>(id: &str) {
            EXAMPLES.operations[id].iter().for_each(|example| hold::<T>(example.body.as_ref().unwrap()));
        }
        of_operation::<eligibility::Validation<'_>>("validateRule");
        of_operation::<eligibility::Evaluation<'_>>("evaluateRule");
        of_operation::<preview::PreviewRequest<'_>>("previewRule");
        of_operation::<vocabulary::CodeBatch<'_>>("validateCodes");
        of_operation::<vocabulary::CodeBatch<'_>>("lookUpCodes");
    }

    #[test]
    fn examples_of_shapes_have_the_form_of_their_types() {
        fn of_shape<T: Serialize + DeserializeOwned + ToSchema>(rest: &mut BTreeMap<&str, Value>) {
            hold::<T>(&rest.remove(T::name().as_ref()).unwrap());
        }
        let mut rest = EXAMPLES.shapes.clone();
        of_shape::<batch::BatchResponse<'_>>(&mut rest);
        of_shape::<concept_group::ConceptGroup<'_>>(&mut rest);
        of_shape::<eligibility::Validated<'_>>(&mut rest);
        of_shape::<eligibility::Evaluated<'_>>(&mut rest);
        of_shape::<eligibility::Explanation<'_>>(&mut rest);
        of_shape::<eligibility::Diagnostic<'_>>(&mut rest);
        of_shape::<page::Links>(&mut rest);
        of_shape::<preview::Previewed<'_>>(&mut rest);
        of_shape::<preview::PreviewSubject<'_>>(&mut rest);
        of_shape::<preview::PreviewProgress>(&mut rest);
        of_shape::<record::Identifier<'_>>(&mut rest);
        of_shape::<record::Code<'_>>(&mut rest);
        of_shape::<record::Meta<'_>>(&mut rest);
        of_shape::<server::Token<'_>>(&mut rest);
        of_shape::<server::TokenError<'_>>(&mut rest);
        of_shape::<server::AuthorizationServer<'_>>(&mut rest);
        of_shape::<vocabulary::Vocabulary<'_>>(&mut rest);
        of_shape::<vocabulary::Concept<'_>>(&mut rest);
        of_shape::<vocabulary::FoundCode<'_>>(&mut rest);
        of_shape::<vocabulary::Subsumption<'_>>(&mut rest);
        of_shape::<vocabulary::Validities<'_>>(&mut rest);
        of_shape::<vocabulary::LookedUp<'_>>(&mut rest);
        assert!(rest.is_empty(), "{rest:?}");
    }
}
