//! `$preview`: goes with `dto/eligibility/preview.rs` and `routes/preview.rs`.

use daftar_api_types::public::preview as body;
use serde_json::json;
use utoipa::openapi::schema::Object;

use crate::api::extract::accept::LINES;
use crate::api::openapi::derived::{self, needing, with};
use crate::api::openapi::example::Example;
use crate::api::openapi::operation::{Answer, Operation, Tag};
use crate::api::openapi::searching::filters;
use crate::api::openapi::shape::{Shape, any_of, named, named_as, or_null, whole, word};
use crate::api::openapi::{group, individual};
use daftar_domain::extension::ExtensionFields;
use daftar_domain::subject::Subject;
use daftar_service::eligibility::preview::SAMPLE_MAX;

/// `POST /Eligibility/$preview`
pub fn preview() -> Operation {
    Operation::new(Tag::Eligibility, "previewRule", "Count who is eligible in the whole register")
        .says("Evaluates an expression over everybody whom `filter` finds, a search's own parameters, as the register stands at that moment, and counts the outcomes, also by gender, age band and region. It needs `individual:read` (for groups `group:read`), and what the expression and the filter read. A breakdown that the client may not see is left out and named in `withheld`. With `Accept: application/x-ndjson` the answer comes as lines: progress, with `subjects: true` one for each subject in the order of registration, and the result as the last one, or `error` where it fails on the way. Closing the connection ends it. A wrong expression is 422 with `diagnostics`; so is one that exhausts a budget.")
        .body(
            "The expression and whom it is asked about.",
            any_of(["PreviewOfIndividuals", "PreviewOfGroups"].map(|name| named(name).into())),
        )
        .in_languages()
        .answer(
            Answer::json(200, "Who is eligible, counted.", named("Previewed"))
                .or(LINES, named("PreviewLine")),
        )
        .example(Example::new("pension", "Women of 60 and more").body(json!({
            "expression": "is_female(me) && age_years(me.birth_date) >= 60", "as_of": "2026-01-01",
        })))
        .example(Example::new("filtered", "Among women in use of one region born before 1966, with five of them").body(json!({
            "expression": "age_years(me.birth_date) >= 60",
            "filter": {
                "active": true, "birth_date": ["ge1900-01-01", "lt1966-01-01"], "gender": "urn:iso:std:iso:5218#2",
                "region": "Thiès",
            },
            "sample": 5,
        })))
        .example(Example::new("households", "Households that somebody of 60 and more heads").body(json!({
            "expression": "members.exists(m, is_head(m) && age_years(m.birth_date) >= 60)", "subject": "group",
            "filter": {"group_type": "urn:svc:vocab:group-type#household"},
        })))
        .example(Example::new("misspelt", "A field that there is not").answered(422).body(json!({
            "expression": "age_years(me.birthdate) >= 60",
        })))
}

/// The shapes of this call, by name.
#[must_use]
pub fn shapes(fields: &ExtensionFields) -> Vec<(String, Shape)> {
    let (people, groups) = (Subject::Individual.name(), Subject::Group.name());
    let of_individuals = request("An expression to be tried over people.", "IndividualFilter");
    let of_groups = request("An expression to be tried over groups.", "GroupFilter");
    let requests = [
        ("PreviewOfIndividuals", with(of_individuals, "subject", or_null(word([people]))).into()),
        ("PreviewOfGroups", needing(of_groups, "subject", word([groups])).into()),
        ("IndividualFilter", filters(&individual::search(), fields)),
        ("GroupFilter", filters(&group::search(), fields)),
    ];
    let requests = requests.map(|(name, shape)| (name.to_owned(), shape)).into_iter();
    requests.chain(derived::response::<body::PreviewLine<'_>>()).collect()
}

fn request(description: &str, filter: &str) -> Object {
    let sample = whole(0).maximum(Some(f64::from(SAMPLE_MAX))).description(Some("The number of subjects to show."));
    let request = derived::object::<body::PreviewRequest<'_>>(description);
    let request = with(request, "filter", or_null(named_as(filter, "The subjects; all where absent.")));
    with(request, "sample", or_null(sample))
}
