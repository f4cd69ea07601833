//! Tokens and what the server says of itself: goes with `routes/token.rs`, `routes/discovery.rs` and `routes/health.rs`.

use utoipa::openapi::schema::{ObjectBuilder, Type};

use super::example::Example;
use super::operation::{Answer, Operation, Tag};
use super::shape::{Members, Shape, boolean, list, named, text, uri, whole, word};

/// `POST /oauth/token`
#[must_use]
pub fn token() -> Operation {
    let form =
        "Client credentials by HTTP Basic with a form, as form fields, or as a JSON object: exactly one of the three.";
    Operation::new(Tag::Tokens, "issueToken", "Get an access token")
        .says("OAuth 2.0 client credentials (RFC 6749, section 4.4). 5 in any 60 seconds and 50 a day from one address, counted before any secret is looked at. Unknown fields are ignored; two ways of giving credentials at once, or a repeated field, are 400; so are credentials in the URL. After ten failures that claim one client id, further failing answers come ever later, or as 429 where too many wait; a right secret is let through at once.")
        .body_of(&["application/x-www-form-urlencoded", "application/json"], form, named("TokenRequest"))
        .answer(Answer::json(200, "A token.", named("Token")).header("Cache-Control").header("Pragma"))
}

/// `GET /.well-known/oauth-authorization-server`
#[must_use]
pub fn authorization_server() -> Operation {
    Operation::new(Tag::Tokens, "readAuthorizationServer", "Find out how tokens are had")
        .says("The authorization server's metadata (RFC 8414).")
        .answers("The metadata.", named("AuthorizationServer"))
        .example(Example::new("metadata", "The metadata"))
}

/// `GET /metadata`
#[must_use]
pub fn metadata() -> Operation {
    Operation::new(Tag::Server, "readMetadata", "Find out what the server offers")
        .says("Resources with their operations and search parameters, installed modules, limits, where tokens are had.")
        .answers("The metadata.", named("Metadata"))
        .conditional(false)
        .example(Example::new("metadata", "The metadata"))
}

/// `GET /openapi.json`
#[must_use]
pub fn openapi() -> Operation {
    let document = ObjectBuilder::new().schema_type(Type::Object).description(Some("An OpenAPI 3.1 document."));
    Operation::new(Tag::Server, "readOpenApi", "Read this document")
        .says("It changes with the server's version and with the fields that installed modules add.")
        .answers("The document.", document)
        .conditional(false)
        .example(Example::new("document", "The document"))
}

/// `GET /docs`
#[must_use]
pub fn docs() -> Operation {
    let mut page = Answer::empty(200, "A page in HTML that loads nothing else.").header("Content-Security-Policy");
    page.bodies.push(("text/html", text().into()));
    Operation::new(Tag::Server, "readDocs", "Look at this document")
        .answer(page)
        .conditional(false)
        .example(Example::new("page", "The page"))
}

/// `GET /docs/errors`
#[must_use]
pub fn error_list() -> Operation {
    error_pages("readErrorCodes", "List the error codes").example(Example::new("list", "Every code"))
}

/// `GET /docs/errors/{error_code}`
#[must_use]
pub fn error_page() -> Operation {
    error_pages("readErrorCode", "Read what an error code means")
        .says("`type` of a problem's body is the address of this page.")
        .refuses(&[404])
        .example(Example::new("page", "One code").with("error_code", "identifier_in_use"))
}

fn error_pages(id: &'static str, summary: &'static str) -> Operation {
    let mut page = Answer::empty(200, "A page in HTML that loads nothing else.").header("Content-Security-Policy");
    page.bodies.push(("text/html", text().into()));
    Operation::new(Tag::Server, id, summary).answer(page).conditional(false)
}

/// `GET /workbench`
#[must_use]
pub fn workbench() -> Operation {
    let mut page = Answer::empty(200, "A page in HTML.").header("Content-Security-Policy").header("Vary");
    page.bodies.push(("text/html", text().into()));
    Operation::new(Tag::Server, "readWorkbench", "Open the workbench")
        .says("A page on which analysts write rules and see whom they reach. It holds nothing of the register: whoever signs in there calls this API with a client's own token, scopes and limits.")
        .answer(page)
        .refuses(&[404])
        .conditional(false)
        .example(Example::new("page", "The page"))
}

/// `GET /workbench/{file}`
#[must_use]
pub fn workbench_file() -> Operation {
    let mut file = Answer::empty(200, "The file.").header("Vary");
    file.bodies
        .extend(["text/javascript", "text/css", "text/plain", "image/svg+xml"].map(|form| (form, text().into())));
    Operation::new(Tag::Server, "readWorkbenchFile", "Read a file of the workbench")
        .says("What the page loads. A file whose name holds a digest never changes and may be kept for good.")
        .answer(file)
        .refuses(&[404])
        .conditional(false)
        .example(Example::new("icon", "The page's icon").with("file", "icon.svg"))
}

/// `GET /health/live`
#[must_use]
pub fn live() -> Operation {
    Operation::new(Tag::Server, "checkLive", "Does the process answer?")
        .says("Not counted against any bucket.")
        .answer(ok("It does."))
        .example(Example::new("live", "It does"))
}

/// `GET /health/ready`
#[must_use]
pub fn ready() -> Operation {
    Operation::new(Tag::Server, "checkReady", "Can the server serve?")
        .says("Whether the store answers. The body is `ok`, or names what is degraded, a line each: a server without an active eligibility engine is ready, and only calls that need the engine are 503. Not counted against any bucket.")
        .answer(ok("It can."))
        .refuses(&[503])
        .example(Example::new("ready", "It can"))
}

fn ok(description: &'static str) -> Answer {
    let mut answer = Answer::empty(200, description);
    answer.bodies.push(("text/plain", text().into()));
    answer
}

/// The shapes of this part, by name.
#[must_use]
pub fn shapes() -> Vec<(String, Shape)> {
    [
        ("TokenRequest", token_request()),
        ("Token", issued()),
        ("TokenError", token_error()),
        ("AuthorizationServer", server_metadata()),
        ("Metadata", described()),
        ("MetadataResource", described_resource()),
        ("MetadataOperation", described_operation()),
    ]
    .map(|(name, shape)| (name.to_owned(), shape))
    .into()
}

fn token_request() -> Shape {
    // Unlike all other bodies it is open: OAuth has it so.
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some("A request for a token. Other members are ignored."))
        .property("grant_type", word(["client_credentials"]))
        .required("grant_type")
        .property("client_id", text().description(Some("Where it is not given by HTTP Basic.")))
        .property("client_secret", text().description(Some("Where it is not given by HTTP Basic.")))
        .property(
            "scope",
            text().description(Some("Scopes separated by spaces, of those granted; all of them where left out.")),
        )
        .into()
}

fn issued() -> Shape {
    Members::answered("An access token.")
        .needs("access_token", text())
        .needs("token_type", word(["Bearer"]))
        .needs("expires_in", whole(1).description(Some("Seconds.")))
        .needs("scope", text().description(Some("The scopes granted, separated by spaces.")))
        .into()
}

fn token_error() -> Shape {
    let errors = [
        "invalid_request",
        "invalid_client",
        "unsupported_grant_type",
        "invalid_scope",
        "temporarily_unavailable",
        "server_error",
    ];
    Members::answered("Why no token was issued.")
        .needs("error", word(errors))
        .needs("error_description", text())
        .needs("detail", text())
        .into()
}

fn server_metadata() -> Shape {
    Members::answered("The authorization server's metadata.")
        .needs("issuer", uri())
        .needs("token_endpoint", uri())
        .needs("token_endpoint_auth_methods_supported", list(text()))
        .needs("grant_types_supported", list(text()))
        .needs("response_types_supported", list(text()))
        .needs("scopes_supported", list(text()))
        .into()
}

fn described() -> Shape {
    let token = Members::answered("How tokens are had.")
        .needs("endpoint", uri())
        .needs("grant_types", list(text()))
        .needs("lifetime_s", whole(1))
        .needs("metadata", uri())
        .needs("scopes", list(text()));
    let module = Members::answered("A plugin that is installed.")
        .needs("name", text())
        .needs("version", text())
        .needs("kind", text())
        .may("vocabularies", list(text()).description(Some("The namespaces that it brings.")))
        .may("extension_fields", list(text()).description(Some("The fields that it adds below `extension`.")));
    let bucket = || Members::answered("A bucket of calls.").needs("per_minute", whole(1)).needs("per_day", whole(1));
    let limits = Members::answered("What the server keeps to.")
        .needs("page_items", whole(1))
        .needs("body_bytes", whole(1))
        .needs("record_bytes", whole(1))
        .needs("codes_of_a_batch", whole(1))
        .needs("subjects_of_a_rule", whole(1))
        .needs("expression_bytes", whole(1))
        .needs("token_calls", bucket())
        .needs("public_calls", bucket())
        .needs("client_calls", bucket());
    Members::answered("What the server offers.")
        .needs("server", word(["daftar"]))
        .needs("version", text().description(Some("The server's version.")))
        .needs("api_version", text())
        .needs("base_url", uri())
        .needs("openapi", uri())
        .needs("docs", uri())
        .needs("token", token)
        .needs("resources", list(named("MetadataResource")))
        .needs("operations", list(named("MetadataOperation")).description(Some("What is about no resource.")))
        .needs("modules", list(Shape::from(module)))
        .needs("limits", limits)
        .into()
}

fn described_resource() -> Shape {
    let parameter = Members::answered("A condition of a search.")
        .needs("name", text())
        .needs("description", text())
        .needs("repeatable", boolean());
    Members::answered("A kind of record, or of code list.")
        .needs("type", text())
        .needs("paths", list(text()).description(Some("Its spellings.")))
        .needs("operations", list(named("MetadataOperation")))
        .needs("search_parameters", list(Shape::from(parameter)))
        .into()
}

fn described_operation() -> Shape {
    Members::answered("An operation.")
        .needs("id", text())
        .needs("method", text())
        .needs("path", text())
        .may("also_at", list(text()).description(Some("The other spellings of the path, which behave alike.")))
        .needs("summary", text())
        .needs("scopes", list(text()).description(Some("Any of these is enough; none, where everybody may call.")))
        .into()
}
