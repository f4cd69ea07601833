//! Tokens and what the server says of itself: goes with `routes/token.rs` and `routes/description.rs`.

use daftar_api_types::public::server as body;

use super::operation::{Answer, Operation, Tag};
use super::shape::{Shape, any_object, named, response};

/// `POST /oauth/token`
pub fn token() -> Operation {
    let form =
        "Client credentials by HTTP Basic with a form, as form fields, or as a JSON object: exactly one of the three.";
    Operation::new(Tag::Tokens, "issueToken", "Get an access token")
        .says("OAuth 2.0 client credentials (RFC 6749, section 4.4). 5 in any 60 seconds and 50 a day from one address, counted before any secret is looked at. Unknown fields are ignored; two ways of giving credentials at once, or a repeated field, are 400; so are credentials in the URL. After ten failures that claim one client id, further failing answers come ever later, or as 429 where too many wait; a right secret is let through at once.")
        .body_of(&["application/x-www-form-urlencoded", "application/json"], form, named("TokenRequest"))
        .answer(Answer::json(200, "A token.", named("Token")).header("Cache-Control").header("Pragma"))
}

/// `GET /.well-known/oauth-authorization-server`
pub fn authorization_server() -> Operation {
    Operation::new(Tag::Tokens, "readAuthorizationServer", "Find out how tokens are had")
        .says("The authorization server's metadata (RFC 8414).")
        .answers("The metadata.", named("AuthorizationServer"))
}

/// `GET /metadata`
pub fn metadata() -> Operation {
    Operation::new(Tag::Server, "readMetadata", "Find out what the server offers")
        .says("Resources with their operations and search parameters, installed modules, limits, where tokens are had.")
        .answers("The metadata.", named("Metadata"))
        .conditional(false)
}

/// `GET /openapi.json`
pub fn openapi() -> Operation {
    Operation::new(Tag::Server, "readOpenApi", "Read this document")
        .says("It changes with the server's version and with the fields that installed modules add.")
        .answers("The document.", any_object("An OpenAPI 3.1 document."))
        .conditional(false)
}

/// `GET /docs`
pub fn docs() -> Operation {
    pages("readDocs", "Look at this document")
}

/// `GET /docs/errors`
pub fn error_list() -> Operation {
    pages("readErrorCodes", "List the error codes")
}

/// `GET /docs/errors/{error_code}`
pub fn error_page() -> Operation {
    pages("readErrorCode", "Read what an error code means")
        .says("`type` of a problem's body is the address of this page.")
        .refuses(&[404])
}

fn pages(id: &'static str, summary: &'static str) -> Operation {
    let page = Answer::text("A page in HTML that loads nothing else.", &["text/html"]);
    let page = page.header("Content-Security-Policy");
    Operation::new(Tag::Server, id, summary).answer(page).conditional(false)
}

/// `GET /workbench`
pub fn workbench() -> Operation {
    let page = Answer::text("A page in HTML.", &["text/html"]).header("Content-Security-Policy").header("Vary");
    Operation::new(Tag::Server, "readWorkbench", "Open the workbench")
        .says("A page on which analysts write rules and see whom they reach. It holds nothing of the register: whoever signs in there calls this API with a client's own token, scopes and limits.")
        .answer(page)
        .refuses(&[404])
        .conditional(false)
}

/// `GET /workbench/{file}`
pub fn workbench_file() -> Operation {
    let file =
        Answer::text("The file.", &["text/javascript", "text/css", "text/plain", "image/svg+xml"]).header("Vary");
    Operation::new(Tag::Server, "readWorkbenchFile", "Read a file of the workbench")
        .says("What the page loads. A file whose name holds a digest never changes and may be kept for good.")
        .answer(file)
        .refuses(&[404])
        .conditional(false)
}

/// `GET /health/live`
pub fn live() -> Operation {
    Operation::new(Tag::Server, "checkLive", "Does the process answer?")
        .says("Not counted against any bucket.")
        .answer(Answer::text("It does.", &["text/plain"]))
}

/// `GET /health/ready`
pub fn ready() -> Operation {
    Operation::new(Tag::Server, "checkReady", "Can the server serve?")
        .says("Whether the store answers. The body is `ok`, or names what is degraded, a line each: a server without an active eligibility engine is ready, and only calls that need the engine are 503. Not counted against any bucket.")
        .answer(Answer::text("It can.", &["text/plain"]))
        .refuses(&[503])
}

/// The shapes of this part, by name.
#[must_use]
pub fn shapes() -> Vec<(String, Shape)> {
    // OAuth has requests for tokens take members that are not described.
    let requests = response::<body::TokenRequest<'_>>().into_iter().map(|(name, shape)| (name, shape.open()));
    let bodies = [
        response::<body::Token<'_>>(),
        response::<body::TokenError<'_>>(),
        response::<body::AuthorizationServer<'_>>(),
        response::<body::Metadata<'_>>(),
    ];
    requests.chain(bodies.into_iter().flatten()).collect()
}
