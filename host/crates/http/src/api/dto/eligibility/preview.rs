//! Bodies of `$preview`.

use std::borrow::Cow;

use daftar_api_types::public::preview as body;
use jiff::civil::Date;
use serde::Serialize;
use serde_json::{Map, Value};

use super::response::{diagnostics, outcome, row_errors};
use super::{decision, read_expression};
use crate::api::dto::field::{expression as expression_value, words};
use crate::api::dto::reader::{ObjectReader, Problems};
use crate::api::error::Problem;
use crate::api::extract::query::{PARAMETERS_MAX, Parameters};
use daftar_domain::code::CodeNumber;
use daftar_domain::eligibility::{Subject, Verdict};
use daftar_domain::error::AppError;
use daftar_domain::manifest::PluginName;
use daftar_service::codes::LanguagePreference;
use daftar_service::eligibility::decision::Sealer;
use daftar_service::eligibility::preview::{AGE_BANDS, Counts, MovedSubject, Preview, PreviewEvent, SAMPLE_MAX, Shown};

/// No search parameter has a longer name, in characters.
const NAME_CHARACTERS_MAX: usize = 200;

/// Parsed body of `$preview`.
#[derive(Debug)]
pub struct PreviewParameters {
    /// The rule.
    pub expression: String,
    /// The rule to compare it with.
    pub compare: Option<String>,
    /// The name of its engine.
    pub engine: Option<String>,
    /// Kind of the subjects.
    pub subject: Subject,
    /// The filters of a search.
    pub filter: Parameters,
    /// Number of subjects to return.
    pub sample: u32,
    /// True if the outcome of each subject is reported.
    pub tells_subjects: bool,
    /// Date used as today.
    pub as_of: Option<Date>,
}

/// Reads a body. Only a request for lines may ask for every subject.
pub fn read(members: Map<String, Value>, is_streamed: bool, problems: &mut Problems) -> Option<PreviewParameters> {
    let mut reader = ObjectReader::root(members);
    let expression = read_expression(&mut reader, problems);
    let compare = reader.take("compare").and_then(|value| expression_value("compare", value, problems));
    let engine = reader.text("engine", PluginName::LENGTH_MAX, problems);
    let subject = reader.word("subject", &words::<Subject>(), problems).unwrap_or(Subject::Individual);
    let filter = read_filter(&mut reader, problems);
    let sample = match reader.take("sample") {
        None => 0,
        Some(value) => value.as_u64().and_then(|wanted| u32::try_from(wanted).ok()).unwrap_or(u32::MAX),
    };
    if sample > SAMPLE_MAX {
        let message = format!("must be a whole number from 0 to {SAMPLE_MAX}: the number of subjects to return");
        problems.add("sample", "out_of_range", message);
    }
    let tells_subjects = reader.boolean("subjects", problems).unwrap_or(false);
    if tells_subjects && !is_streamed {
        let message = "subjects are reported one per line: send `Accept: application/x-ndjson`, or request a `sample`";
        problems.add("subjects", "not_streamed", message);
    }
    let as_of = reader.date("as_of", problems);
    reader.finish(problems);
    Some(PreviewParameters { expression, compare, engine, subject, filter: filter?, sample, tells_subjects, as_of })
}

/// Reads the parameters of a search as an object, with one value or a list of values under each name.
fn read_filter(reader: &mut ObjectReader, problems: &mut Problems) -> Option<Parameters> {
    let mut pairs = Vec::new();
    match reader.take("filter") {
        None => {}
        Some(Value::Object(filter)) => {
            let count = filter.values().map(|value| value.as_array().map_or(1, Vec::len)).sum::<usize>();
            if count > PARAMETERS_MAX {
                let message = format!("a filter has at most {PARAMETERS_MAX} values, as a query has parameters");
                problems.add("filter", "too_many", message);
                return None;
            }
            for (name, value) in filter {
                // It is copied for each value, and a longer name is unknown in any case.
                let name: String = name.chars().take(NAME_CHARACTERS_MAX + 1).collect();
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
                "must be an object of search parameters by name, such as `{\"birth_date\": \"le1966-01-01\"}`";
            problems.add("filter", "wrong_type", message);
            return None;
        }
    }
    Some(Parameters::of_pairs(pairs))
}

fn filter_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn counted(counts: Counts) -> body::Counts {
    let Counts { total, eligible, not_eligible, undetermined, errors, cells: _ } = counts;
    body::Counts { total, eligible, not_eligible, undetermined, errors }
}

fn cells(counts: Counts) -> Vec<body::Cell> {
    const ORDER: [Verdict; 3] = [Verdict::Eligible, Verdict::NotEligible, Verdict::Undetermined];
    let pairs = ORDER.into_iter().flat_map(|first| ORDER.map(|second| (first, second)));
    let cell =
        |(first, second)| body::Cell { a: outcome(first), b: outcome(second), count: counts.cells.of(first, second) };
    pairs.map(cell).collect()
}

fn moved(subjects: &[MovedSubject]) -> Vec<body::MovedSubject<'_>> {
    let subjects = subjects.iter().map(|MovedSubject { subject, outcomes: (first, second) }| body::MovedSubject {
        subject: Cow::Borrowed(subject),
        a: outcome(*first),
        b: outcome(*second),
    });
    subjects.collect()
}

fn subject(shown: &Shown) -> body::PreviewSubject<'_> {
    body::PreviewSubject {
        subject: Cow::Borrowed(&shown.subject),
        outcome: outcome(shown.outcome.verdict),
        compared: shown.compared.map(outcome),
        missing: Cow::Borrowed(&shown.outcome.missing),
        errors: row_errors(&shown.outcome.errors),
    }
}

/// The response of `$preview` with genders in those languages; the decision is sealed for the client of the request.
#[must_use]
pub fn previewed<'a>(preview: &'a Preview, languages: &LanguagePreference, sealer: &Sealer) -> body::Previewed<'a> {
    let of_gender = |number: Option<CodeNumber>| -> (Option<Cow<'a, str>>, Option<Cow<'a, str>>) {
        let shown = number.and_then(|number| preview.generation.displayed(number, languages));
        shown.map(|shown| (shown.code.into(), shown.display.into())).unzip()
    };
    let by_gender = each(preview.by_gender.as_deref(), |number, counts| {
        let (code, display) = of_gender(*number);
        body::GenderCounts { code, display, counts: counted(counts) }
    });
    let by_age_band = each(preview.by_age_band.as_deref(), |band, counts| {
        let (from, to) = age_band(*band);
        body::AgeBandCounts { from, to, counts: counted(counts) }
    });
    let by_region = each(preview.by_region.as_deref(), |region, counts| {
        let region = region.as_deref().map(Cow::Borrowed);
        body::RegionCounts { region, counts: counted(counts) }
    });
    let comparison = preview.comparison.as_ref().map(|comparison| body::Comparison {
        cells: cells(preview.counts),
        by_gender: each(preview.by_gender.as_deref(), |number, counts| {
            let (code, display) = of_gender(*number);
            body::GenderCells { code, display, cells: cells(counts) }
        }),
        by_age_band: each(preview.by_age_band.as_deref(), |band, counts| {
            let (from, to) = age_band(*band);
            body::AgeBandCells { from, to, cells: cells(counts) }
        }),
        by_region: each(preview.by_region.as_deref(), |region, counts| {
            let region = region.as_deref().map(Cow::Borrowed);
            body::RegionCells { region, cells: cells(counts) }
        }),
        gained: moved(&comparison.gained),
        lost: moved(&comparison.lost),
        warnings: diagnostics(&comparison.warnings),
    });
    let missing = preview.missing.iter();
    body::Previewed {
        counts: counted(preview.counts),
        by_gender,
        by_age_band,
        by_region,
        missing: missing
            .map(|(field, count)| body::MissingFact { field: Cow::Borrowed(field), count: *count })
            .collect(),
        sample: preview.sample.iter().map(subject).collect(),
        comparison,
        withheld: preview.withheld.iter().map(|name| Cow::Borrowed(*name)).collect(),
        decision: decision::write(&preview.decision, sealer.seal(&preview.decision)),
        warnings: diagnostics(&preview.warnings),
    }
}

/// Returns a row of the response for each row of a breakdown, unless it is withheld.
fn each<'a, K, R>(rows: Option<&'a [(K, Counts)]>, row: impl Fn(&'a K, Counts) -> R) -> Option<Vec<R>> {
    rows.map(|rows| rows.iter().map(|(key, counts)| row(key, *counts)).collect())
}

/// The first and the last age of a band.
fn age_band(band: Option<usize>) -> (Option<u8>, Option<u8>) {
    let from = band.and_then(|band| AGE_BANDS.get(band).copied());
    let next = band.and_then(|band| AGE_BANDS.get(band + 1).copied());
    (from, next.map(|next| next.saturating_sub(1)))
}

/// Returns the lines of an event.
#[must_use]
pub fn event_lines(event: &PreviewEvent) -> Vec<u8> {
    let mut lines = Vec::new();
    match event {
        PreviewEvent::Progress(done, total) => {
            put_line(&mut lines, &body::PreviewProgress { progress: body::Progress { done: *done, total: *total } });
        }
        PreviewEvent::Subjects(shown) => {
            for shown in shown {
                put_line(&mut lines, &subject(shown));
            }
        }
    }
    lines
}

/// Returns the last line: the response, or `{"error": …}` with the body of a problem.
#[must_use]
pub fn last_line(
    ended: Result<Preview, AppError>,
    (languages, sealer): (&LanguagePreference, &Sealer),
    (public_url, request_id): (&str, &str),
) -> Vec<u8> {
    let mut line = Vec::new();
    match ended {
        Ok(preview) => put_line(&mut line, &previewed(&preview, languages, sealer)),
        Err(error) => {
            line.extend_from_slice(b"{\"error\":");
            line.extend(Problem::from(error).body(public_url, None, request_id));
            line.extend_from_slice(b"}\n");
        }
    }
    line
}

fn put_line(lines: &mut Vec<u8>, value: &impl Serialize) {
    // Numbers and texts, which JSON can always represent.
    if serde_json::to_writer(&mut *lines, value).is_ok() {
        lines.push(b'\n');
    }
}
