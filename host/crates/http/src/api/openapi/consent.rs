//! `/Consent`: goes with `routes/consent.rs`.

use super::example::Example;
use super::operation::{Answer, Operation, Tag};
use super::parameter;
use super::record;
use super::shape::Shape;
use daftar_domain::extension::ExtensionFields;
use daftar_domain::record::RecordKind;

/// The consent of the examples.
pub const SAMPLE_CONSENT: &str = "123e4567-e89b-42d3-a456-426614174000";

/// `GET /Consent/{consent_id}`
pub fn read() -> Operation {
    Operation::new(Tag::Consents, "readConsent", "Read a consent")
        .says("Only those given to the client's own organization; any other is 404.")
        .answers_record("The consent.", "Consent")
        .refuses(&[404])
        .example(Example::new("consent", "A consent to the client's organization").with("consent_id", SAMPLE_CONSENT))
}

/// `DELETE /Consent/{consent_id}`
pub fn withdraw() -> Operation {
    Operation::new(Tag::Consents, "withdrawConsent", "Withdraw a consent")
        .says(
            "The record stays readable as withdrawn. Withdrawing it again changes nothing, and the answer is the same.",
        )
        .parameter(parameter::if_match())
        .answer(Answer::empty(204, "The consent is withdrawn."))
        .refuses(&[404, 409])
        .example(Example::new("withdraw", "Withdraws it").with("consent_id", SAMPLE_CONSENT).answered(204))
}

/// The shapes of this noun, by name.
#[must_use]
pub fn shapes() -> Vec<(String, Shape)> {
    let about = "The consent of a person or group that an organization sees what the register records of them.";
    vec![("Consent".to_owned(), record::answered(RecordKind::Consent, about, &ExtensionFields::default()))]
}
