//! `/$batch`: goes with `batch.rs` and `batch/envelope.rs`.

use daftar_api_types::public::batch::BatchResponse;

use super::operation::{DocumentedResponse, Operation, Tag};
use super::parameter::idempotency_key;
use super::shape::{self, Shape, any_object, any_of, by_name, list, named, object, pattern, word, written};
use crate::api::batch::envelope::{BATCH_ENTRIES_MAX, TRANSACTION_ENTRIES_MAX, URL_BYTES_MAX};

/// A placeholder by which other entries refer to the record that an entry creates.
const PLACEHOLDER_PATTERN: &str = "^urn:uuid:[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$";

/// `POST /$batch`
pub fn submit() -> Operation {
    Operation::new(Tag::Batches, "submitBatch", "Send several requests in one")
        .says("A `transaction` executes all of its entries or none (422 naming the invalid entry); the entries of a `batch` are independent. Each entry requires the same scope as a single request, and counts as one call of the rate limit. In a transaction `full_url` is a placeholder `urn:uuid:…` by which other entries refer to the record that the entry creates.")
        .in_languages()
        .body("The requests.", any_of(["Transaction", "Batch"].map(named)))
        .parameter(idempotency_key())
        .response(
            DocumentedResponse::json(200, "A response for each entry, in order.", named("BatchResponse"))
                .header("Idempotency-Replayed"),
        )
        .refuses(&[404, 409])
}

/// The shapes of this noun, by name.
#[must_use]
pub fn shapes() -> Vec<(String, Shape)> {
    let transaction = object("Requests that are executed atomically.")
        .needs("type", word(["transaction"]))
        .needs("entry", entries(&["BatchCreate", "BatchChange", "BatchDelete"], TRANSACTION_ENTRIES_MAX));
    let batch = object("Requests that are executed independently.")
        .needs("type", word(["batch"]))
        .needs("entry", entries(&["BatchCreate", "BatchChange", "BatchDelete", "BatchRead"], BATCH_ENTRIES_MAX));
    let placeholder =
        pattern(PLACEHOLDER_PATTERN).about("Name by which other entries refer to the record that this one creates.");
    let create = entry("A record to create.", &["POST"]).may_or_null("full_url", placeholder);
    let body = || any_object("The body, as in a single request.");
    let requests = [
        ("Transaction", transaction),
        ("Batch", batch),
        ("BatchCreate", create.needs("resource", body())),
        ("BatchChange", entry("A record to change.", &["PUT", "PATCH"]).needs("resource", body())),
        ("BatchDelete", entry("A consent to withdraw.", &["DELETE"])),
        ("BatchRead", entry("A resource to read.", &["GET"])),
    ];
    by_name(requests).into_iter().chain(shape::response::<BatchResponse<'_>>()).collect()
}

fn entries(names: &[&str], count_max: usize) -> Shape {
    list(any_of(names.iter().copied().map(named))).filled().at_most(count_max)
}

fn entry(description: &str, methods: &[&str]) -> Shape {
    let url = "Below the API's base path, such as `Individual/<system>%7C<value>`.";
    let request = object("The request line.")
        .needs("method", word(methods.iter().copied()))
        .needs("url", written(URL_BYTES_MAX).about(url))
        .may_or_null("if_match", written(500).about("The record version that the change accepts."));
    object(description).needs("request", request)
}
