//! Tokens and metadata of the server: goes with `routes/token.rs` and `routes/description.rs`.

use daftar_api_types::public::server as body;

use super::operation::{DocumentedResponse, Operation, Tag};
use super::parameter::{Parameter, query};
use super::shape::{Shape, any_object, named, response, text};

/// `POST /oauth/token`
pub fn token() -> Operation {
    let form =
        "Client credentials by HTTP Basic with a form, as form fields, or as a JSON object: exactly one of the three.";
    Operation::new(Tag::Tokens, "issueToken", "Get an access token")
        .says("OAuth 2.0 client credentials (RFC 6749, section 4.4). At most 5 requests in any 60 seconds and 50 a day from one address, counted before any secret is checked. Unknown fields are ignored; credentials sent in two ways, or a repeated field, are 400; so are credentials in the URL. After ten failures with one client id, responses to further failures are delayed increasingly, or 429 if too many are delayed; a valid secret is never delayed.")
        .body_of(&["application/x-www-form-urlencoded", "application/json"], form, named("TokenRequest"))
        .response(DocumentedResponse::json(200, "A token.", named("Token")).header("Cache-Control").header("Pragma"))
}

/// `GET /.well-known/oauth-authorization-server`
pub fn authorization_server() -> Operation {
    Operation::new(Tag::Tokens, "readAuthorizationServer", "Read the authorization server's metadata")
        .says("The endpoints and methods for tokens (RFC 8414).")
        .responses("The metadata.", named("AuthorizationServer"))
}

/// `GET /metadata`
pub fn metadata() -> Operation {
    Operation::new(Tag::Server, "readMetadata", "Read the server's metadata")
        .says("Resources with their operations and search parameters, installed modules, limits, the token endpoint.")
        .responses("The metadata.", named("Metadata"))
        .conditional(false)
}

/// `GET /openapi.json`
pub fn openapi() -> Operation {
    Operation::new(Tag::Server, "readOpenApi", "Read this document")
        .says("It changes with the server's version and with the fields that installed modules add.")
        .responses("The document.", any_object("An OpenAPI 3.1 document."))
        .conditional(false)
}

/// `GET /docs/api`
pub fn docs() -> Operation {
    pages("readDocs", "Read this document as a page")
}

/// `GET /docs`
pub fn documentation_home() -> Operation {
    let response = DocumentedResponse::empty(308, "The documentation is at `/docs/`.").header("Location");
    Operation::new(Tag::Server, "findDocumentation", "Find the documentation").response(response).refuses(&[400])
}

/// `GET /docs/`
pub fn documentation() -> Operation {
    let page =
        DocumentedResponse::text("A page in HTML.", &["text/html"]).header("Content-Security-Policy").header("Vary");
    let absent =
        DocumentedResponse::empty(307, "The program was built without the site; `/docs/api` describes the API.");
    Operation::new(Tag::Server, "readDocumentation", "Read the documentation")
        .says("The documentation site: tutorials, guides, reference and search. Counted in the bucket of pages, 300 requests a minute from one address.")
        .parameters(of_search())
        .response(page)
        .response(absent.header("Location"))
        .conditional(false)
}

/// `GET /docs/{file}`
pub fn documentation_file() -> Operation {
    let file = DocumentedResponse::text("The file.", &SITE_TYPES).header("Vary");
    Operation::new(Tag::Server, "readDocumentationFile", "Read a page or a file of the documentation")
        .says("A file with a digest in its name never changes and may be cached permanently.")
        .parameters(of_search())
        .response(file)
        .refuses(&[404])
        .conditional(false)
}

/// Parameters in addresses of the site's search.
fn of_search() -> [Parameter; 2] {
    [
        query("search", "Words to search for. The scripts of the page read them, the server does not.", text()),
        query("highlight", "Words to mark. The scripts of the page read them, the server does not.", text()),
    ]
}

const SITE_TYPES: [&str; 7] =
    ["text/html", "text/javascript", "text/css", "text/plain", "image/svg+xml", "image/png", "font/woff2"];

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
    let page = DocumentedResponse::text("A page in HTML that loads nothing else.", &["text/html"]);
    let page = page.header("Content-Security-Policy");
    Operation::new(Tag::Server, id, summary).parameters(of_search()).response(page).conditional(false)
}

/// `GET /workbench`
pub fn workbench() -> Operation {
    let page =
        DocumentedResponse::text("A page in HTML.", &["text/html"]).header("Content-Security-Policy").header("Vary");
    Operation::new(Tag::Server, "readWorkbench", "Open the workbench")
        .says("A page on which analysts write rules and preview their results. It contains no data of the register: a signed-in user calls this API with a client's own token, scopes and limits. The page and its files are counted in the bucket of pages, as the documentation is.")
        .response(page)
        .refuses(&[404])
        .conditional(false)
}

/// `GET /workbench/{file}`
pub fn workbench_file() -> Operation {
    let file = DocumentedResponse::text("The file.", &["text/javascript", "text/css", "text/plain", "image/svg+xml"])
        .header("Vary");
    Operation::new(Tag::Server, "readWorkbenchFile", "Read a file of the workbench")
        .says("A file of the page. A file with a digest in its name never changes and may be cached permanently.")
        .response(file)
        .refuses(&[404])
        .conditional(false)
}

/// `GET /health/live`
pub fn live() -> Operation {
    Operation::new(Tag::Server, "checkLive", "Check that the process is alive")
        .says("Not counted against any bucket.")
        .response(DocumentedResponse::text("It does.", &["text/plain"]))
}

/// `GET /health/ready`
pub fn ready() -> Operation {
    Operation::new(Tag::Server, "checkReady", "Check that the server is ready")
        .says("Checks that the store responds. The body is `ok`, or names each degraded part on a line: a server without an active eligibility engine, or whose engine is still being compiled after its start, is ready, and only calls that need the engine are 503. Not counted against any bucket.")
        .response(DocumentedResponse::text("It can.", &["text/plain"]))
        .refuses(&[503])
}

/// The shapes of this part, by name.
#[must_use]
pub fn shapes() -> Vec<(String, Shape)> {
    // OAuth requires requests for tokens to accept undescribed members.
    let requests = response::<body::TokenRequest<'_>>().into_iter().map(|(name, shape)| (name, shape.open()));
    let bodies = [
        response::<body::Token<'_>>(),
        response::<body::TokenError<'_>>(),
        response::<body::AuthorizationServer<'_>>(),
        response::<body::Metadata<'_>>(),
    ];
    requests.chain(bodies.into_iter().flatten()).collect()
}
