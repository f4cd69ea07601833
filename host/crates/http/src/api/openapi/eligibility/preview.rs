//! `$preview`: goes with `dto/eligibility/preview.rs` and `routes/preview.rs`.

use serde_json::json;

use super::{expression, row_error};
use crate::api::extract::accept::LINES;
use crate::api::openapi::example::Example;
use crate::api::openapi::operation::{Answer, Operation, Tag};
use crate::api::openapi::searching::filters;
use crate::api::openapi::shape::{self, Members, Shape, any_of, date, list, named, text, word};
use crate::api::openapi::{group, individual};
use daftar_domain::extension::ExtensionFields;
use daftar_domain::subject::Subject;
use daftar_service::eligibility::preview::SAMPLE_MAX;

/// `POST /Eligibility/$preview`
#[must_use]
pub fn preview() -> Operation {
    let lines =
        any_of(["PreviewProgress", "PreviewSubject", "Previewed", "PreviewFailed"].map(|name| named(name).into()));
    Operation::new(Tag::Eligibility, "previewRule", "Count who is eligible in the whole register")
        .says("Evaluates an expression over everybody whom `filter` finds, a search's own parameters, as the register stands at that moment, and counts the outcomes, also by gender, age band and region. It needs `individual:read` (for groups `group:read`), and what the expression and the filter read. A breakdown that the client may not see is left out and named in `withheld`. With `Accept: application/x-ndjson` the answer comes as lines: progress, with `subjects: true` one for each subject in the order of registration, and the result as the last one, or `error` where it fails on the way. Closing the connection ends it. A wrong expression is 422 with `diagnostics`; so is one that exhausts a budget.")
        .body(
            "The expression and whom it is asked about.",
            any_of(["PreviewOfIndividuals", "PreviewOfGroups"].map(|name| named(name).into())),
        )
        .in_languages()
        .answer(
            Answer::json(200, "Who is eligible, counted.", named("Previewed"))
                .or(LINES, lines),
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
    let people = filters(&individual::search(), fields);
    let groups = filters(&group::search(), fields);
    let of_individuals = asked("An expression to be tried over people.", "IndividualFilter")
        .may("subject", word([Subject::Individual.name()]));
    let of_groups =
        asked("An expression to be tried over groups.", "GroupFilter").needs("subject", word([Subject::Group.name()]));
    [
        ("PreviewOfIndividuals", of_individuals.into()),
        ("PreviewOfGroups", of_groups.into()),
        ("IndividualFilter", people),
        ("GroupFilter", groups),
        ("Previewed", previewed()),
        ("PreviewProgress", progress()),
        ("PreviewSubject", subject()),
        ("PreviewFailed", failed()),
    ]
    .map(|(name, shape)| (name.to_owned(), shape))
    .into()
}

/// What every preview is asked, but for whom it is about.
fn asked(description: &str, filter: &str) -> Members {
    let sample = shape::whole(0).maximum(Some(f64::from(SAMPLE_MAX))).description(Some("So many subjects are shown."));
    Members::sent(description)
        .needs("expression", expression())
        .may("filter", shape::named_as(filter, "Whom it is asked about; everybody where absent."))
        .may("sample", sample)
        .may("subjects", shape::boolean().description(Some("Tell the outcome of every subject, as lines.")))
        .may("as_of", date().description(Some("The day that counts as today.")))
}

/// How many have which outcome.
fn counted(members: Members) -> Members {
    members
        .needs("total", shape::whole(0))
        .needs("eligible", shape::whole(0))
        .needs("not_eligible", shape::whole(0))
        .needs("undetermined", shape::whole(0))
        .needs("errors", shape::whole(0).description(Some("Those of the undetermined for whom something went wrong.")))
}

fn previewed() -> Shape {
    let gender = Members::answered("Those of one gender, or without one.")
        .needs("code", shape::or_null(text()))
        .needs("display", shape::or_null(text()));
    let band = Members::answered("Those of one age, both years included, or whose age is not known.")
        .needs("from", shape::or_null(shape::whole(0)))
        .needs("to", shape::or_null(shape::whole(0)));
    let region =
        Members::answered("Those with an address in one region, or without any. Who has several counts in each.")
            .needs("region", shape::or_null(text()));
    let missing = Members::answered("A fact that would decide.").needs("field", text()).needs("count", shape::whole(0));
    counted(Members::answered("Who is eligible, counted."))
        .may("by_gender", list(Shape::from(counted(gender))))
        .may("by_age_band", list(Shape::from(counted(band))))
        .may("by_region", list(Shape::from(counted(region))))
        .needs("missing", list(Shape::from(missing)))
        .needs("sample", list(named("PreviewSubject")))
        .needs("withheld", list(text()).description(Some("The breakdowns that the client may not see.")))
        .needs("decision", named("Decision"))
        .may("warnings", list(named("Diagnostic")))
        .into()
}

fn progress() -> Shape {
    let progress = Members::answered("How far it is.").needs("done", shape::whole(0)).needs("total", shape::whole(0));
    Members::answered("A line that tells how far a preview is.").needs("progress", progress).into()
}

fn subject() -> Shape {
    Members::answered("What the rule says of one subject.")
        .needs("subject", text())
        .needs("outcome", word(["eligible", "not_eligible", "undetermined"]))
        .needs("missing", list(text()))
        .may("errors", list(row_error()))
        .into()
}

fn failed() -> Shape {
    Members::answered("The last line of a preview that failed.").needs("error", named("Problem")).into()
}
