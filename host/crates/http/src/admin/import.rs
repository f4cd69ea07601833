//! `/import`

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};

use crate::admin::import_lines::{self, LINE_BYTES_MAX, RawLine, Reading, batches};
use crate::admin::resource::Administrator;
use crate::api::error::{ApiResult, Problem};
use crate::api::extract::accept::LINES;
use crate::api::extract::body::read_bounded;
use crate::api::extract::query::Parameters;
use crate::api::lines::write_line;
use crate::state::AppState;
use daftar_api_types::admin::operation::{ImportCounts, ImportErrorBody, ImportLine, StoppedBody};
use daftar_domain::audit::AuditAction;
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;
use daftar_service::bulk::run::Run;
use daftar_service::bulk::{Done, ImportId, Importer, OnExisting, PreparedLine, Preparer, TimeSlice, written_before};

/// A request of at most so many bytes is read completely before the response starts: some clients send everything
/// before they read. Responses to longer requests, and to those without a length, start while the body is read.
const WHOLE_BYTES_MAX: usize = LINE_BYTES_MAX + (1 << 20);
/// Number of batches of lines that are read and checked concurrently.
const READ_AT_ONCE: usize = 2;
/// Number of lines between two reports of progress.
const PROGRESS_EVERY_LINES: u64 = 1_000;

/// Parameters of an import.
struct ImportParameters {
    id: ImportId,
    first_line: u64,
    on_existing: OnExisting,
    resumes: bool,
    is_dry_run: bool,
}

/// Writes the records of the body, one a line, and reports the result line by line.
pub async fn import(call: Administrator, parameters: Parameters, request: Request) -> ApiResult {
    let requested = requested(&parameters)?;
    check_media_type(&request)?;
    let turn = call.app.imports.begin(&requested.id)?;
    let body = body(request).await?;
    let note = format!("import {} begins at line {}{}", requested.id, requested.first_line, resumed(&requested));
    call.note(AuditAction::Administer, note, 1).await?;
    let earlier = match requested.resumes {
        true => written_before(&call.app.audit, &requested.id, requested.first_line).await?,
        false => Default::default(),
    };
    let registry = &call.app.registry;
    let is_dry_run = requested.is_dry_run;
    let registry = if is_dry_run { Arc::new(turn.dry_run(registry)) } else { Arc::clone(registry) };
    let engine = Arc::clone(&call.app.engine);
    let importer = Importer::new(call.ctx.clone(), registry, engine, requested.id.clone(), is_dry_run);
    let lines = prepared(&call.app, &importer, body, &requested);
    let progress = Progress {
        run: Run::new(importer, lines, earlier),
        call,
        requested,
        counts: ImportCounts::default(),
        durable: None,
        reported: 0,
        _turn: turn,
    };
    let reported = stream::unfold(Some(progress), |progress| async move {
        let mut progress = progress?;
        let (bytes, is_over) = progress.next().await;
        Some((Ok::<_, std::convert::Infallible>(bytes), if is_over { None } else { Some(progress) }))
    });
    Ok(([(header::CONTENT_TYPE, LINES)], Body::from_stream(reported)).into_response())
}

/// Ends an import, so that another may begin immediately.
pub async fn end(call: Administrator, parameters: Parameters) -> ApiResult<StatusCode> {
    parameters.expect_only(&["id", "note"])?;
    let id = ImportId::parse(parameters.one("id")?.unwrap_or_default())?;
    call.app.imports.end(&id);
    let note = match parameters.one("note")? {
        Some(note) if note.len() <= 500 && !note.chars().any(char::is_control) => format!(": {note}"),
        Some(_) => return Err(Problem::malformed("`note` has at most 500 bytes and no control characters").into()),
        None => String::new(),
    };
    call.note(AuditAction::Administer, format!("import {id} ended{note}"), 1).await?;
    Ok(StatusCode::OK)
}

fn resumed(requested: &ImportParameters) -> String {
    let resumed = match (requested.resumes, requested.is_dry_run) {
        (_, true) => ", only to be checked",
        (true, false) => ", resumed",
        (false, false) => "",
    };
    format!("{resumed}; records that are there: {}", requested.on_existing.name())
}

fn requested(parameters: &Parameters) -> ApiResult<ImportParameters> {
    parameters.expect_only(&["id", "first_line", "on_existing", "resume", "dry_run"])?;
    let first_line = match parameters.one("first_line")? {
        None => 1,
        Some(text) => text.parse().ok().filter(|line| *line > 0).ok_or_else(|| {
            Problem::malformed("`first_line`, the number of the first line, must be a whole number from 1")
        })?,
    };
    Ok(ImportParameters {
        id: ImportId::parse(parameters.one("id")?.unwrap_or_default())?,
        first_line,
        on_existing: parameters.word("on_existing", &OnExisting::NAMES)?.unwrap_or(OnExisting::Reject),
        resumes: parameters.boolean("resume")?.unwrap_or(false),
        is_dry_run: parameters.boolean("dry_run")?.unwrap_or(false),
    })
}

fn check_media_type(request: &Request) -> Result<(), Problem> {
    let given = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if ["application/x-ndjson", "application/ndjson", "application/jsonl"].contains(&essence.as_str()) {
        return Ok(());
    }
    let detail = "the body is one JSON object a line: send `Content-Type: application/x-ndjson`";
    Err(Problem::new(ErrorCode::UnsupportedMediaType, detail))
}

type BodyStream = BoxStream<'static, Result<Bytes, axum::Error>>;

async fn body(request: Request) -> ApiResult<BodyStream> {
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if length.is_some_and(|length: usize| length <= WHOLE_BYTES_MAX) {
        let bytes = read_bounded(request, WHOLE_BYTES_MAX).await?;
        return Ok(stream::iter([Ok(Bytes::from(bytes))]).boxed());
    }
    Ok(request.into_body().into_data_stream().boxed())
}

/// The lines of a body, read and checked on threads for blocking work, in their order.
fn prepared(
    app: &AppState,
    importer: &Importer,
    body: BodyStream,
    requested: &ImportParameters,
) -> BoxStream<'static, Result<Vec<PreparedLine>, AppError>> {
    let preparer = Preparer::new(importer.clone());
    let (app, on_existing) = (app.clone(), requested.on_existing);
    let prepare = move |batch: Result<Vec<RawLine>, AppError>| {
        let (app, preparer) = (app.clone(), preparer.at(app.clock.now()));
        async move {
            let mut batch = batch?;
            let prepared = tokio::task::spawn_blocking(move || {
                // Here, and not before: nothing may have reserved memory and wait for the client.
                let wait_max = app.config.server.connections.body_stall_timeout();
                let reserving = import_lines::reserve(&app.body_memory, wait_max, &mut batch);
                let _reserved = tokio::runtime::Handle::current().block_on(reserving)?;
                let generation = app.registry.vocabularies.current();
                let reading = Reading { fields: generation.extension_fields(), ids: &*app.ids, on_existing };
                let read = batch.into_iter().map(|raw| {
                    let bytes = raw.text.as_ref().map_or(0, Vec::len);
                    (raw.line, bytes, import_lines::line(&raw, &reading))
                });
                let read: Vec<_> = read.collect();
                Ok(tokio::runtime::Handle::current().block_on(async {
                    let mut prepared = Vec::with_capacity(read.len());
                    for (line, bytes, read) in read {
                        prepared.push(preparer.prepare(line, bytes, read).await);
                    }
                    prepared
                }))
            });
            prepared.await.map_err(AppError::of_task)?
        }
    };
    let first_line = requested.first_line;
    batches(body, first_line).map(prepare).buffered(READ_AT_ONCE).boxed()
}

/// A request in progress; dropped when its client disconnects: the writes handed to the store are finished, and no
/// others are begun.
struct Progress<S> {
    run: Run<S>,
    call: Administrator,
    requested: ImportParameters,
    counts: ImportCounts,
    durable: Option<u64>,
    reported: u64,
    _turn: TimeSlice,
}

impl<S: Stream<Item = Result<Vec<PreparedLine>, AppError>> + Unpin + Send> Progress<S> {
    /// Returns the next bytes, and true if they are the last.
    async fn next(&mut self) -> (Bytes, bool) {
        let mut out = Vec::new();
        loop {
            let done = match self.run.next().await {
                Ok(done) if done.is_empty() => {
                    let ended = self.ended().await;
                    write_line(&ended, &mut out);
                    return (out.into(), true);
                }
                Ok(done) => done,
                Err(error) => {
                    tracing::warn!(import.id = %self.requested.id, error = %error, "an import stopped");
                    write_line(&stopped(error, self.durable, self.counts), &mut out);
                    return (out.into(), true);
                }
            };
            for (line, result) in done {
                count(&mut self.counts, &result);
                self.durable = Some(line);
                self.reported += 1;
                if let Err(error) = result {
                    write_line(&rejected(line, error), &mut out);
                }
            }
            if self.reported >= PROGRESS_EVERY_LINES {
                self.reported = 0;
                if let Some(durable) = self.durable {
                    write_line(&ImportLine::Durable { durable, counts: self.counts }, &mut out);
                }
            }
            if !out.is_empty() {
                return (out.into(), false);
            }
        }
    }

    async fn ended(&mut self) -> ImportLine {
        let (durable, counts) = (self.durable, self.counts);
        let lines =
            format!("from line {} to {}", self.requested.first_line, durable.unwrap_or(self.requested.first_line));
        let checked = if self.requested.is_dry_run { "only checked, nothing written: " } else { "" };
        let note = format!("import {} {lines}: {checked}{}", self.requested.id, sentence(&counts));
        match self.call.note(AuditAction::Administer, note, 1).await {
            Ok(()) => ImportLine::Ended { done: true, durable, counts },
            Err(error) => stopped(error, durable, counts),
        }
    }
}

/// Maximum number of problems reported for one line.
const PROBLEMS_MAX: usize = 50;

/// Counts a line.
pub fn count(counts: &mut ImportCounts, result: &Result<Done, AppError>) {
    counts.read += 1;
    match result {
        Ok(Done::Created) => counts.created += 1,
        Ok(Done::Updated) => counts.updated += 1,
        Ok(Done::Skipped) => counts.skipped += 1,
        Err(_) => counts.rejected += 1,
    }
}

/// Counts in words, for the audit log.
#[must_use]
pub fn sentence(counts: &ImportCounts) -> String {
    let ImportCounts { read, created, updated, skipped, rejected } = counts;
    format!("{read} lines read, {created} created, {updated} updated, {skipped} skipped, {rejected} rejected")
}

/// Returns the report of a rejected line.
#[must_use]
pub fn rejected(line: u64, error: AppError) -> ImportLine {
    let (field, code) = place_of(&error);
    let status = error.code().entry().status;
    let Problem { detail, errors, .. } = Problem::from(error);
    let errors = errors.into_iter().take(PROBLEMS_MAX);
    let mut errors: Vec<ImportErrorBody> = errors
        .map(|problem| ImportErrorBody {
            field: problem.field,
            code: problem.code.to_owned(),
            message: problem.message,
        })
        .collect();
    if errors.is_empty() {
        let (field, code) = (field.to_owned(), code.to_owned());
        errors.push(ImportErrorBody { field, code, message: detail.clone() });
    }
    ImportLine::Rejected { line, status, detail, errors }
}

/// Reason why an import or export stopped.
#[must_use]
pub fn stopped_by(error: AppError) -> StoppedBody {
    let Problem { code, detail, .. } = Problem::from(error);
    StoppedBody { status: code.entry().status, detail }
}

/// The last line of an import that stopped.
#[must_use]
pub fn stopped(error: AppError, durable: Option<u64>, counts: ImportCounts) -> ImportLine {
    ImportLine::Stopped { stopped: stopped_by(error), durable, counts }
}

/// Field and code of an error that names no field.
fn place_of(error: &AppError) -> (&'static str, &'static str) {
    match error {
        AppError::IdentifierInUse { .. } => ("identifier", "in_use"),
        AppError::Ambiguous => ("identifier", "ambiguous"),
        AppError::NotFound(_) | AppError::NotThere(_) => ("identifier", "not_found"),
        AppError::VersionMismatch { .. } => ("meta.version_id", "version_mismatch"),
        AppError::NotEligible { .. } => ("status", "not_eligible"),
        AppError::Expression(_) => ("eligibility", "invalid_expression"),
        AppError::Overtaken | AppError::Conflict(..) => ("", "conflict"),
        AppError::Malformed(_) => ("", "malformed"),
        _ => ("", "refused"),
    }
}
