//! Sends parts, and reads what became of their lines.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::part::Part;
use crate::cli::CliError;
use crate::cli::admin_client::{AdminClient, Payload};
use daftar_api_types::admin::operation::{ImportCounts, ImportLine, StoppedBody};
use daftar_service::bulk;

/// How often a part is sent that a busy server did not take, a second after one another.
const ATTEMPTS_MAX: u32 = 45;
const PAUSE: Duration = Duration::from_secs(1);
/// The status of what may be sent again.
const UNAVAILABLE: u16 = 503;

/// Sends the parts of one import.
pub struct Sender<'s> {
    pub admin: &'s AdminClient,
    pub on_existing: &'static str,
    pub id: String,
    /// Whether lines are only checked.
    pub is_rehearsal: bool,
}

/// What became of a part.
pub struct Answer {
    pub counts: ImportCounts,
    pub rejected: Vec<Refused>,
}

/// A line that was refused.
pub struct Refused {
    /// The number that it was sent under.
    pub line: u64,
    /// What is wrong.
    pub errors: Value,
}

/// How one attempt ended.
enum Attempt {
    Done(Answer),
    Again(String),
}

impl Sender<'_> {
    /// Sends a part. `resumes` says that some of it may be written already.
    ///
    /// # Errors
    /// When the server cannot be reached, refuses the whole, or stops.
    pub fn send(&self, part: &Part, mut resumes: bool) -> Result<Answer, CliError> {
        for _ in 1..ATTEMPTS_MAX {
            match self.attempt(part, resumes)? {
                Attempt::Done(answer) => return Ok(answer),
                Attempt::Again(_) => {
                    resumes = true;
                    std::thread::sleep(PAUSE);
                }
            }
        }
        match self.attempt(part, resumes)? {
            Attempt::Done(answer) => Ok(answer),
            Attempt::Again(reason) => Err(CliError::unavailable(reason)),
        }
    }

    fn attempt(&self, part: &Part, resumes: bool) -> Result<Attempt, CliError> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("id", &self.id).append_pair("on_existing", self.on_existing);
        query.append_pair("first_line", &part.first_unit.to_string());
        if self.is_rehearsal {
            query.append_pair("dry_run", "true");
        } else if resumes {
            query.append_pair("resume", "true");
        }
        let path = format!("/import?{}", query.finish());
        let answer = match self.admin.download("POST", &path, Payload::Lines(part.body.clone())) {
            Ok(answer) => answer,
            Err(CliError { message, .. }) if message.starts_with(bulk::TAKEN) => return Ok(Attempt::Again(message)),
            Err(error) => return Err(error),
        };
        let mut rejected = Vec::new();
        for line in BufReader::new(answer).lines() {
            let line = line.map_err(|error| CliError::unavailable(format!("the server went away: {error}")))?;
            let mut told: Value = serde_json::from_str(&line).map_err(|_| unexpected())?;
            match ImportLine::deserialize(&told).map_err(|_| unexpected())? {
                ImportLine::Rejected { line, .. } => {
                    let errors = told.get_mut("errors").map(Value::take).unwrap_or_default();
                    rejected.push(Refused { line, errors });
                }
                ImportLine::Durable { .. } => {}
                ImportLine::Ended { counts, .. } => return Ok(Attempt::Done(Answer { counts, rejected })),
                ImportLine::Stopped { stopped: StoppedBody { status: UNAVAILABLE, detail }, .. } => {
                    return Ok(Attempt::Again(detail));
                }
                ImportLine::Stopped { stopped, .. } => return Err(CliError::failed(stopped.detail)),
            }
        }
        Err(CliError::unavailable("the server went away before the lines were written"))
    }

    /// Says that the import has ended.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub fn end(&self, note: &str) -> Result<(), CliError> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let query = query.append_pair("id", &self.id).append_pair("note", note).finish();
        self.admin.call("DELETE", &format!("/import?{query}"), Payload::Empty).map(|_| ())
    }
}

fn unexpected() -> CliError {
    CliError::failed("the server's answer is none to an import: is it an older one?")
}
