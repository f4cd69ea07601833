//! `/$batch`: goes with `batch.rs` and `batch/envelope.rs`.

use daftar_api_types::public::batch::BatchAnswer;
use serde_json::json;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Type};

use super::operation::{Answer, Example, Operation, Tag};
use super::parameter::{SAMPLE_PERSON, idempotency_key};
use super::shape::{Members, Shape, any_of, by_name, list, named, pattern, word, written};
use crate::api::batch::envelope::{BATCH_ENTRIES_MAX, TRANSACTION_ENTRIES_MAX, URL_BYTES_MAX};
use crate::api::openapi::shape;

/// A placeholder by which other entries mean the record that an entry creates.
const PLACEHOLDER_PATTERN: &str = "^urn:uuid:[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$";

/// `POST /$batch`
pub fn submit() -> Operation {
    Operation::new(Tag::Batches, "submitBatch", "Send several requests in one")
        .says("A `transaction` does all of its entries or none (422 naming the entry that is wrong); a `batch` does each by itself. Each entry needs the scope that it needs alone, and costs one call of the bucket. In a transaction `full_url` is a placeholder `urn:uuid:…` by which references of other entries mean the record that the entry creates.")
        .in_languages()
        .body("The requests.", any_of([named("Transaction").into(), named("Batch").into()]))
        .parameter(idempotency_key())
        .answer(
            Answer::json(200, "An answer for each entry, in order.", named("BatchAnswer"))
                .header("Idempotency-Replayed"),
        )
        .refuses(&[404, 409])
        .example(Example::new("reads", "Reads two things").body(json!({
            "type": "batch",
            "entry": [
                {"request": {"method": "GET", "url": format!("Individual/{}", SAMPLE_PERSON.replace('#', "%23"))}},
                {"request": {"method": "GET", "url": "Program?_count=1"}},
            ],
        })))
        .example(Example::new("household", "Registers a person and the household that the person heads").body(json!({
            "type": "transaction",
            "entry": [
                {
                    "full_url": "urn:uuid:123e4567-e89b-42d3-a456-426614174001",
                    "request": {"method": "POST", "url": "Individual"},
                    "resource": {"identifier": [{"system": "urn:svc:vocab:id-type#national_id", "value": "PERSON-9"}]},
                },
                {
                    "request": {"method": "POST", "url": "Group"},
                    "resource": {
                        "identifier": [{"system": "urn:svc:vocab:id-type#tax_id", "value": "HOUSEHOLD-9"}],
                        "member": [{"entity": {"reference": "urn:uuid:123e4567-e89b-42d3-a456-426614174001"}}],
                    },
                },
            ],
        })))
}

/// The shapes of this noun, by name.
#[must_use]
pub fn shapes() -> Vec<(String, Shape)> {
    let transaction = Members::sent("Requests that are done all or not at all.")
        .needs("type", word(["transaction"]))
        .needs("entry", entries(&["BatchCreate", "BatchChange", "BatchDelete"], TRANSACTION_ENTRIES_MAX));
    let batch = Members::sent("Requests that are done each by itself.")
        .needs("type", word(["batch"]))
        .needs("entry", entries(&["BatchCreate", "BatchChange", "BatchDelete", "BatchRead"], BATCH_ENTRIES_MAX));
    let placeholder =
        pattern(PLACEHOLDER_PATTERN).description(Some("How other entries refer to what this one creates."));
    let create = entry("A record to be created.", &["POST"]).may("full_url", placeholder).needs("resource", body());
    let requests = [
        ("Transaction", transaction.into()),
        ("Batch", batch.into()),
        ("BatchCreate", create.into()),
        ("BatchChange", entry("A record to be changed.", &["PUT", "PATCH"]).needs("resource", body()).into()),
        ("BatchDelete", entry("A consent to be withdrawn.", &["DELETE"]).into()),
        ("BatchRead", entry("Something to be read.", &["GET"]).into()),
    ];
    by_name(requests).into_iter().chain(shape::response::<BatchAnswer<'_>>()).collect()
}

fn entries(names: &[&str], count_max: usize) -> ArrayBuilder {
    let entry = any_of(names.iter().map(|name| named(name).into()));
    list(entry).min_items(Some(1)).max_items(Some(count_max))
}

fn entry(description: &str, methods: &[&'static str]) -> Members {
    let url = "Below the API's base path, such as `Individual/<system>%7C<value>`.";
    let request = Members::sent("What is called.")
        .needs("method", word(methods.iter().copied()))
        .needs("url", written(URL_BYTES_MAX).description(Some(url)))
        .may("if_match", written(500).description(Some("At which version the change may find its record.")));
    Members::sent(description).needs("request", request)
}

fn body() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Object).description(Some("The body, as the call alone takes it."))
}
