//! `/Program`: goes with `dto/program.rs` and `routes/program.rs`.

use super::example::Example;
use super::operation::{Operation, Tag};
use super::parameter::{elements, query};
use super::searching::{common, envelope};
use super::shape::{Members, Shape, boolean, list, named, text, word};
use super::shared;
use crate::api::elements::PROGRAM;
use crate::api::routes::program::SORTABLE;

/// The program of the examples.
pub const SAMPLE_PROGRAM: &str = "urn:svc:vocab:id-type#tax_id|PENSION";

/// `GET /Program/{identifier}`
#[must_use]
pub fn read() -> Operation {
    Operation::new(Tag::Programs, "readProgram", "Read a program")
        .answers_record("The program.", "Program")
        .refuses(&[404, 409])
        .example(Example::new("pension", "An old-age pension").with("identifier", SAMPLE_PROGRAM))
}

/// `GET /Program`
#[must_use]
pub fn search() -> Operation {
    Operation::new(Tag::Programs, "searchPrograms", "Search programs")
        .parameters(common())
        .parameter(query("target_type", "Whom it enrols.", word(["individual", "group"])))
        .parameter(query(
            "status",
            "Whether it has begun and ended, by its period and today.",
            word(["upcoming", "current", "ended"]),
        ))
        .parameters(envelope(elements(PROGRAM), &SORTABLE))
        .answers_page("A page of programs.", shared::page_of("Program"), "readProgram")
        .example(
            Example::new("pensions", "Programs for people").with("target_type", "individual").with("name", "pension"),
        )
}

/// The shapes of this noun, by name.
#[must_use]
pub fn shapes() -> Vec<(String, Shape)> {
    let program = Members::answered("A social program.")
        .needs("type", word(["Program"]))
        .needs("identifier", list(named("Identifier")))
        .may("active", boolean().description(Some("A record without it is in use.")))
        .may("name", text())
        .may("description", text())
        .may("program_type", text())
        .may("target_type", word(["individual", "group"]))
        .may("eligibility", text().description(Some("The expression that says who is eligible.")))
        .may(
            "enforce_eligibility",
            boolean().description(Some("Whether nobody is enrolled of whom the expression does not say so.")),
        )
        .may("period", named("Period"))
        .needs("meta", named("Meta"));
    vec![("Program".to_owned(), program.into())]
}
