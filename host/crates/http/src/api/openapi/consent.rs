//! `/Consent`: goes with `dto/consent.rs` and `routes/consent.rs`.

use super::example::Example;
use super::operation::{Answer, Operation, Tag};
use super::parameter;
use super::shape::{Members, Shape, date, list, named, text, word};
use super::shared;
use daftar_domain::consent::CONSENT_RESOURCES;
use daftar_domain::organization::LegalBasis;
use daftar_domain::scope::Resource;

/// The consent of the examples.
pub const SAMPLE_CONSENT: &str = "123e4567-e89b-42d3-a456-426614174000";

/// `GET /Consent/{consent_id}`
#[must_use]
pub fn read() -> Operation {
    Operation::new(Tag::Consents, "readConsent", "Read a consent")
        .says("Only those given to the client's own organization; any other is 404.")
        .answers_record("The consent.", "Consent")
        .refuses(&[404])
        .example(Example::new("consent", "A consent to the client's organization").with("consent_id", SAMPLE_CONSENT))
}

/// `DELETE /Consent/{consent_id}`
#[must_use]
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
    let consent = Members::answered("What somebody allowed an organization to see.")
        .needs("type", word(["Consent"]))
        .needs("consent_id", shared::uuid())
        .may("status", word(["given", "withdrawn", "expired"]))
        .may("subject", text().description(Some("`Individual/<system>|<value>` or `Group/…`")))
        .may("grantee", text().description(Some("The organization.")))
        .may("purpose", text())
        .may("effective_date", date().description(Some("The first day on which it holds.")))
        .may("expiry_date", date().description(Some("The last day; none where absent.")))
        .may("scopes", list(word(CONSENT_RESOURCES.map(Resource::name))))
        .may("fields", list(text()).description(Some("The fields that may be seen; all where absent.")))
        .may("legal_basis", word(LegalBasis::ALL.map(LegalBasis::name)))
        .needs("meta", named("Meta"));
    vec![("Consent".to_owned(), consent.into())]
}
