//! Bodies of `$preview`.

use jiff::civil::Date;
use serde::Serialize;
use serde_json::{Map, Value};

use super::answer::{RowErrorBody, outcome_name};
use super::decision::DecisionBody;
use super::read_expression;
use crate::api::dto::field::words;
use crate::api::dto::reader::{ObjectReader, Problems};
use crate::api::error::{DiagnosticItem, Problem};
use crate::api::extract::query::Parameters;
use daftar_domain::eligibility::Subject;
use daftar_domain::error::AppError;
use daftar_service::codes::LanguagePreference;
use daftar_service::eligibility::preview::{AGE_BANDS, Counts, Preview, PreviewEvent, SAMPLE_MAX, Shown};
use daftar_service::eligibility::seal::Sealer;

/// What a body of `$preview` asks for.
#[derive(Debug)]
pub struct PreviewAsked {
    /// The rule.
    pub expression: String,
    /// What it decides about.
    pub subject: Subject,
    /// The filters of a search.
    pub filter: Parameters,
    /// How many subjects are shown.
    pub sample: u32,
    /// Whether what the rule says of each subject is told.
    pub tells_subjects: bool,
    /// The day that counts as today.
    pub as_of: Option<Date>,
}

/// Reads a body; only one that is answered by lines may ask for every subject.
pub fn read(members: Map<String, Value>, is_streamed: bool, problems: &mut Problems) -> Option<PreviewAsked> {
    let mut reader = ObjectReader::root(members);
    let expression = read_expression(&mut reader, problems);
    let subject = reader.word("subject", &words::<Subject>(), problems).unwrap_or(Subject::Individual);
    let filter = read_filter(&mut reader, problems);
    let sample = match reader.take("sample") {
        None => 0,
        Some(value) => value.as_u64().and_then(|wanted| u32::try_from(wanted).ok()).unwrap_or(u32::MAX),
    };
    if sample > SAMPLE_MAX {
        let message = format!("a whole number from 0 to {SAMPLE_MAX} is needed: so many subjects are shown");
        problems.add("sample", "out_of_range", message);
    }
    let tells_subjects = reader.boolean("subjects", problems).unwrap_or(false);
    if tells_subjects && !is_streamed {
        let message = "every subject is told as a line: send `Accept: application/x-ndjson`, or ask for a `sample`";
        problems.add("subjects", "not_streamed", message);
    }
    let as_of = reader.date("as_of", problems);
    reader.finish(problems);
    Some(PreviewAsked { expression, subject, filter: filter?, sample, tells_subjects, as_of })
}

/// The parameters of a search as an object: one value or a list of them under each name.
fn read_filter(reader: &mut ObjectReader, problems: &mut Problems) -> Option<Parameters> {
    let mut pairs = Vec::new();
    match reader.take("filter") {
        None => {}
        Some(Value::Object(filter)) => {
            for (name, value) in filter {
                let values = match value {
                    Value::Array(values) => values,
                    Value::Null => continue,
                    one => vec![one],
                };
                for value in values {
                    let Some(text) = filter_text(&value) else {
                        let message = "a filter has the values of a search parameter: a text, a number, `true` or `false`, or a list of these";
                        problems.add("filter", "wrong_type", message);
                        return None;
                    };
                    pairs.push((name.clone(), text));
                }
            }
        }
        Some(_) => {
            let message =
                "an object is needed: search parameters by name, such as `{\"birth_date\": \"le1966-01-01\"}`";
            problems.add("filter", "wrong_type", message);
            return None;
        }
    }
    let parameters = Parameters::of_pairs(pairs);
    if parameters.is_none() {
        problems.add("filter", "too_many", "a filter has no more parameters than a query");
    }
    parameters
}

fn filter_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The answer of `$preview`.
#[derive(Debug, Serialize)]
pub struct PreviewBody<'a> {
    #[serde(flatten)]
    counts: CountsBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    by_gender: Option<Vec<GenderBody>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by_age_band: Option<Vec<AgeBandBody>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by_region: Option<Vec<RegionBody<'a>>>,
    missing: Vec<MissingBody<'a>>,
    sample: Vec<ShownBody<'a>>,
    withheld: &'a [&'static str],
    decision: DecisionBody<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<DiagnosticItem<'a>>,
}

#[derive(Debug, Serialize)]
struct CountsBody {
    total: u64,
    eligible: u64,
    not_eligible: u64,
    undetermined: u64,
    errors: u64,
}

#[derive(Debug, Serialize)]
struct GenderBody {
    code: Option<String>,
    display: Option<String>,
    #[serde(flatten)]
    counts: CountsBody,
}

#[derive(Debug, Serialize)]
struct AgeBandBody {
    from: Option<u8>,
    to: Option<u8>,
    #[serde(flatten)]
    counts: CountsBody,
}

#[derive(Debug, Serialize)]
struct RegionBody<'a> {
    region: Option<&'a str>,
    #[serde(flatten)]
    counts: CountsBody,
}

#[derive(Debug, Serialize)]
struct MissingBody<'a> {
    field: &'a str,
    count: u64,
}

#[derive(Debug, Serialize)]
struct ShownBody<'a> {
    subject: &'a str,
    outcome: &'static str,
    missing: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<RowErrorBody<'a>>,
}

#[derive(Debug, Serialize)]
struct ProgressBody {
    done: u64,
    total: u64,
}

impl From<Counts> for CountsBody {
    fn from(counts: Counts) -> Self {
        let Counts { total, eligible, not_eligible, undetermined, errors } = counts;
        Self { total, eligible, not_eligible, undetermined, errors }
    }
}

impl<'a> From<&'a Shown> for ShownBody<'a> {
    fn from(shown: &'a Shown) -> Self {
        Self {
            subject: &shown.subject,
            outcome: outcome_name(shown.verdict),
            missing: &shown.missing,
            errors: shown.errors.iter().map(RowErrorBody::from).collect(),
        }
    }
}

impl<'a> PreviewBody<'a> {
    /// The answer with genders in those languages; the decision is sealed for the client that asked.
    #[must_use]
    pub fn new(preview: &'a Preview, languages: &LanguagePreference, sealer: &Sealer) -> Self {
        let by_gender = preview.by_gender.as_ref().map(|genders| {
            let genders = genders.iter().map(|(number, counts)| {
                let shown = number.and_then(|number| preview.generation.displayed(number, languages));
                let (code, display) = shown.map(|shown| (shown.code, shown.display)).unzip();
                GenderBody { code, display, counts: (*counts).into() }
            });
            genders.collect()
        });
        let by_age_band = preview.by_age_band.as_ref().map(|bands| {
            let bands = bands.iter().map(|(band, counts)| {
                let from = band.and_then(|band| AGE_BANDS.get(band).copied());
                let next = band.and_then(|band| AGE_BANDS.get(band + 1).copied());
                AgeBandBody { from, to: next.map(|next| next.saturating_sub(1)), counts: (*counts).into() }
            });
            bands.collect()
        });
        let by_region = preview.by_region.as_ref().map(|regions| {
            let regions = regions.iter();
            regions.map(|(region, counts)| RegionBody { region: region.as_deref(), counts: (*counts).into() }).collect()
        });
        let missing = preview.missing.iter();
        Self {
            counts: preview.counts.into(),
            by_gender,
            by_age_band,
            by_region,
            missing: missing.map(|(field, count)| MissingBody { field, count: *count }).collect(),
            sample: preview.sample.iter().map(ShownBody::from).collect(),
            withheld: &preview.withheld,
            decision: DecisionBody::new(&preview.decision, sealer.seal(&preview.decision)),
            warnings: preview.warnings.iter().map(DiagnosticItem::from).collect(),
        }
    }
}

/// The lines that tell of an event.
#[must_use]
pub fn event_lines(event: &PreviewEvent) -> Vec<u8> {
    let mut lines = Vec::new();
    match event {
        PreviewEvent::Progress(done, total) => {
            put_line(&mut lines, &Member { name: "progress", value: ProgressBody { done: *done, total: *total } });
        }
        PreviewEvent::Subjects(shown) => {
            for shown in shown {
                put_line(&mut lines, &ShownBody::from(shown));
            }
        }
    }
    lines
}

/// The last line: the answer, or `{"error": …}` with what a refusal has for a body.
#[must_use]
pub fn last_line(
    ended: Result<Preview, AppError>,
    (languages, sealer): (&LanguagePreference, &Sealer),
    (public_url, request_id): (&str, &str),
) -> Vec<u8> {
    let mut line = Vec::new();
    match ended {
        Ok(preview) => put_line(&mut line, &PreviewBody::new(&preview, languages, sealer)),
        Err(error) => {
            line.extend_from_slice(b"{\"error\":");
            line.extend(Problem::from(error).body(public_url, None, request_id));
            line.extend_from_slice(b"}\n");
        }
    }
    line
}

/// An object with one member.
struct Member<T> {
    name: &'static str,
    value: T,
}

impl<T: Serialize> Serialize for Member<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(self.name, &self.value)])
    }
}

fn put_line(lines: &mut Vec<u8>, value: &impl Serialize) {
    // Numbers and texts, all of which JSON has.
    if serde_json::to_writer(&mut *lines, value).is_ok() {
        lines.push(b'\n');
    }
}
