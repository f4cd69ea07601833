//! Headers of answers.

use utoipa::openapi::header::{Header, HeaderBuilder};

use crate::api::access::Access;
use crate::api::openapi::shape::{self, Shape};

/// A header: its name, what it says, its shape.
type Told = (&'static str, &'static str, fn() -> Shape);

/// Every header that the document names.
pub const HEADERS: &[Told] = &[
    ("X-API-Version", "The version of the API.", || shape::text().into()),
    ("X-Request-Id", "Names the request in the server's log and audit log.", || shape::text().into()),
    ("X-RateLimit-Limit", "How many calls the bucket nearest its end holds.", || shape::whole(1).into()),
    ("X-RateLimit-Remaining", "How many of them are left.", || shape::whole(0).into()),
    ("X-RateLimit-Reset", "In how many seconds it is full again.", || shape::whole(0).into()),
    ("Retry-After", "After how many seconds a new attempt is worth it.", || shape::whole(1).into()),
    ("ETag", "The version of what the answer shows.", || shape::pattern(r#"^"[^"]*"$"#).into()),
    ("Idempotency-Replayed", "There where the request was done before.", || shape::word(["true"]).into()),
    ("Location", "Where the new record is.", || shape::text().into()),
    ("Content-Location", "The URL of the code itself, where it was asked for by another name.", || {
        shape::text().into()
    }),
    ("Cache-Control", "Whether the answer may be kept.", || shape::text().into()),
    ("Pragma", "As `Cache-Control`, for old clients.", || shape::text().into()),
    ("Vary", "What else the answer depends on.", || shape::text().into()),
    ("Content-Language", "The languages of the names in the answer.", || shape::text().into()),
    ("Content-Security-Policy", "What the page may load.", || shape::text().into()),
    ("WWW-Authenticate", "How to prove who calls, and what was wrong.", || shape::text().into()),
];

/// A header by its name.
#[must_use]
pub fn header(name: &str) -> Header {
    let known = HEADERS.iter().find(|(known, ..)| *known == name);
    let shape = known.map_or_else(|| shape::text().into(), |(_, _, shape)| shape());
    HeaderBuilder::new().description(known.map(|(_, description, _)| *description)).schema(shape).build()
}

/// What an answer has whatever it answers; `Vary`, where pages of some origins may call the server.
#[must_use]
pub fn of_every_answer(access: Access) -> &'static [&'static str] {
    match access {
        Access::Health => &["X-API-Version", "X-Request-Id", "Vary"],
        Access::Scopes(_) | Access::AnyClient | Access::Public | Access::Token => &[
            "X-API-Version",
            "X-Request-Id",
            "X-RateLimit-Limit",
            "X-RateLimit-Remaining",
            "X-RateLimit-Reset",
            "Vary",
        ],
    }
}
