//! `/Program`: goes with `routes/program.rs`.

use super::example::Example;
use super::operation::{Operation, Tag};
use super::parameter::{elements, query};
use super::record;
use super::searching::{common, envelope};
use super::shape::{Shape, word};
use super::shared;
use daftar_domain::extension::ExtensionFields;
use daftar_domain::record::RecordKind;
use daftar_domain::search::order::sort_fields;
use daftar_domain::subject::Subject;

/// The program of the examples.
pub const SAMPLE_PROGRAM: &str = "urn:svc:vocab:id-type#tax_id|PENSION";

/// `GET /Program/{identifier}`
pub fn read() -> Operation {
    Operation::new(Tag::Programs, "readProgram", "Read a program")
        .answers_record("The program.", "Program")
        .refuses(&[404, 409])
        .example(Example::new("pension", "An old-age pension").with("identifier", SAMPLE_PROGRAM))
}

/// `GET /Program`
pub fn search() -> Operation {
    Operation::new(Tag::Programs, "searchPrograms", "Search programs")
        .parameters(common())
        .parameter(query("target_type", "Whom it enrols.", word(Subject::ALL.map(Subject::name))))
        .parameter(query(
            "status",
            "Whether it has begun and ended, by its period and today.",
            word(["upcoming", "current", "ended"]),
        ))
        .parameters(envelope(elements(RecordKind::Program), sort_fields(RecordKind::Program)))
        .answers_page("A page of programs.", shared::page_of("Program"), "readProgram")
        .refuses(&[422])
        .example(
            Example::new("pensions", "Programs for people").with("target_type", "individual").with("name", "pension"),
        )
}

/// The shapes of this noun, by name.
#[must_use]
pub fn shapes() -> Vec<(String, Shape)> {
    let program = record::answered(RecordKind::Program, "A social program.", &ExtensionFields::default());
    vec![("Program".to_owned(), program)]
}
