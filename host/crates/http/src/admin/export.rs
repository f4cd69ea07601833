//! `/export`

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::IntoResponse;
use futures_util::stream;
use jiff::Timestamp;
use jiff::civil::Date;
use postcard::{take_from_bytes, to_stdvec};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;

use crate::admin::import::stopped_by;
use crate::admin::import_lines::RELATIONSHIP;
use crate::admin::resource::Administrator;
use crate::api::dto::record::{self, Computed, RecordBody, ShownCode, ShownRecord, Shows};
use crate::api::error::{ApiResult, Problem};
use crate::api::extract::accept::LINES;
use crate::api::extract::query::Parameters;
use crate::api::lines::write_line;
use crate::api::routes::record_search;
use daftar_api_types::admin::operation::{ExportLine, ExportProgress};
use daftar_auth::cursor_seal::CursorSeal;
use daftar_domain::audit::AuditAction;
use daftar_domain::calendar::{format_instant, utc_day};
use daftar_domain::change::ChangedRecord;
use daftar_domain::code::CodedValue;
use daftar_domain::error::AppError;
use daftar_domain::extension::ExtensionFields;
use daftar_domain::field::FieldSet;
use daftar_domain::group::MEMBER;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::value::Reference;
use daftar_service::bulk::OnExisting;
use daftar_service::bulk::export::{self, ExportPart, ExportRequest, Exported};
use daftar_service::codes::{CodeView, LanguagePreference};
use daftar_service::individual;
use daftar_service::written::named;

/// Parameters of an export, in addition to the filters of a search of individuals.
const OWN: [&str; 7] = ["type", "cursor", "codes", "meta", "photos", "keys", "language"];

/// Parsed parameters of an export.
#[derive(Clone)]
struct ExportParameters {
    kinds: Vec<RecordKind>,
    codes: Codes,
    /// True if a line contains the version of its record: an import of the line replaces that version alone.
    with_meta: bool,
    with_photos: bool,
    /// True if a line contains the keys of its record and of those that it names: reporting tables are joined by them.
    /// An import rejects such lines.
    with_keys: bool,
    languages: LanguagePreference,
    /// The individuals that a filter matches.
    chosen: Option<Arc<[RecordId]>>,
    cursor: ExportCursor,
}

impl ExportParameters {
    /// True if lines are for an import into any register. An import rejects lines with keys; lines with versions are
    /// for the register of the records.
    fn is_for_import(&self) -> bool {
        self.codes == Codes::Uri && !self.with_keys && !self.with_meta
    }
}

/// Sends the current records, one a line, to a limited number of clients concurrently. Regularly, and at the end, a
/// line contains the cursor at which an export would continue.
pub async fn export(call: Administrator, parameters: Parameters) -> ApiResult {
    // Before any search.
    let place = Arc::clone(&call.app.exports).try_acquire_owned().map_err(|_| AppError::Busy)?;
    let requested = requested(&call, &parameters).await?;
    let kinds: Vec<&str> = requested.kinds.iter().map(|kind| kind.name()).collect();
    let at = format_instant(requested.cursor.at);
    let filtered = if requested.chosen.is_some() { ", those that a search finds" } else { "" };
    let note = format!("export of {}{filtered}, as of {at}, begins", kinds.join(", "));
    call.note(AuditAction::Read, note, 0).await?;
    let sending = Sending { call, requested, sent: 0, _place: place };
    let lines = stream::unfold(Some(sending), |sending| async move {
        let mut sending = sending?;
        let (bytes, is_over) = sending.next().await;
        Some((Ok::<_, std::convert::Infallible>(bytes), if is_over { None } else { Some(sending) }))
    });
    Ok(([(header::CONTENT_TYPE, LINES)], Body::from_stream(lines)).into_response())
}

async fn requested(Administrator { ctx, app }: &Administrator, parameters: &Parameters) -> ApiResult<ExportParameters> {
    let filters: Vec<&str> = parameters.names().filter(|name| !OWN.contains(name)).collect();
    let mut kinds = Vec::new();
    for name in parameters.all("type") {
        let kind = RecordKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let names: Vec<&str> = RecordKind::ALL.iter().map(|kind| kind.name()).collect();
            Problem::malformed(format!("`type` is one of {}", names.join(", ")))
        })?;
        kinds.push(kind);
    }
    let mut kinds: Vec<RecordKind> =
        RecordKind::ALL.into_iter().filter(|kind| kinds.is_empty() || kinds.contains(kind)).collect();
    let chosen = if filters.is_empty() {
        None
    } else {
        if parameters.all("type").any(|name| name != RecordKind::Individual.name()) {
            return Err(Problem::malformed(
                "filters are those of a search of people: they go with `type=Individual` alone",
            )
            .into());
        }
        if parameters.one("cursor")?.is_some() {
            return Err(Problem::malformed(
                "`cursor` does not go with filters: the search would run again and may find other individuals than those of the export that the cursor continues; start again without `cursor`",
            )
            .into());
        }
        kinds = vec![RecordKind::Individual];
        let request = record_search::individual_request(app, parameters, &OWN)?;
        Some(individual::find_all(ctx, &app.registry, request).await?.into())
    };
    let first = ExportCursor {
        at: ctx.now,
        kind: kinds.first().copied().unwrap_or(RecordKind::Individual),
        after: RecordId(0),
        has_later: false,
        is_later: false,
    };
    Ok(ExportParameters {
        cursor: match parameters.one("cursor")? {
            Some(text) => ExportCursor::open(&app.cursors, text)?,
            None => first,
        },
        kinds,
        codes: parameters.word("codes", &Codes::NAMES)?.unwrap_or(Codes::Uri),
        with_meta: parameters.boolean("meta")?.unwrap_or(false),
        with_photos: parameters.boolean("photos")?.unwrap_or(true),
        with_keys: parameters.boolean("keys")?.unwrap_or(false),
        languages: parameters.one("language")?.map_or_else(LanguagePreference::none, LanguagePreference::parse),
        chosen,
    })
}

/// An export in progress; dropped when its client disconnects.
struct Sending {
    call: Administrator,
    requested: ExportParameters,
    sent: u64,
    _place: OwnedSemaphorePermit,
}

impl Sending {
    /// Returns the next bytes, and true if they are the last.
    async fn next(&mut self) -> (Bytes, bool) {
        match self.page().await {
            Ok((bytes, is_over)) => (bytes.into(), is_over),
            Err(error) => {
                let mut out = Vec::new();
                write_line(&line(ExportProgress::Stopped { stopped: stopped_by(error) }), &mut out);
                (out.into(), true)
            }
        }
    }

    async fn page(&mut self) -> Result<(Vec<u8>, bool), AppError> {
        let cursor @ ExportCursor { at, kind, after, .. } = self.requested.cursor;
        let part = if cursor.is_later { ExportPart::LaterRelationships } else { ExportPart::Whole };
        let has_photos = self.requested.with_photos && part != ExportPart::LaterRelationships;
        let wanted = ExportRequest { chosen: self.requested.chosen.as_deref(), photos: has_photos, part };
        let page = export::page(&self.call.app.registry, (kind, after, at), wanted).await?;
        // A record is counted with its first part.
        let count = if cursor.is_later { 0 } else { page.records.len() as u64 };
        let has_later = page.records.iter().any(|exported| exported.later_relationships > 0);
        let has_later = cursor.has_later || (has_later && self.requested.is_for_import());
        let (requested, app, today) = (self.requested.clone(), self.call.app.clone(), utc_day(self.call.ctx.now));
        let written = tokio::task::spawn_blocking(move || {
            // Taken after the records, so that a code published in the meantime has its name.
            let view = CodeView::new(app.registry.vocabularies.current(), requested.languages.clone());
            let mut out = Vec::new();
            for exported in &page.records {
                let (codes, with_keys) = (requested.codes, requested.with_keys);
                let shows = ExportedNames { view: &view, exported, codes, with_keys, today };
                match part {
                    ExportPart::Whole => write_record(&shows, &requested, &mut out)?,
                    ExportPart::LaterRelationships => write_relationships(&shows, &mut out)?,
                }
            }
            Ok::<_, AppError>((out, page.last))
        });
        let (mut out, last) = written.await.map_err(AppError::of_task)??;
        self.sent = self.sent.saturating_add(count);
        let next = match last {
            Some(last) => Some(ExportCursor { after: last, has_later, ..cursor }),
            None if has_later && !cursor.is_later => {
                Some(ExportCursor { after: RecordId(0), is_later: true, ..cursor })
            }
            None => {
                let kinds = self.requested.kinds.iter().skip_while(|other| **other != kind).skip(1);
                let (after, has_later, is_later) = (RecordId(0), false, false);
                kinds.copied().next().map(|kind| ExportCursor { at, kind, after, has_later, is_later })
            }
        };
        let progress = match next {
            Some(next) => {
                self.requested.cursor = next;
                ExportProgress::Cursor { cursor: next.seal(&self.call.app.cursors)?, records: self.sent }
            }
            None => {
                let note = format!("export as of {}: {} records were sent", format_instant(at), self.sent);
                self.call.note(AuditAction::Read, note, self.sent).await?;
                ExportProgress::Done { done: true, records: self.sent, as_of: format_instant(at) }
            }
        };
        write_line(&line(progress), &mut out);
        Ok((out, next.is_none()))
    }
}

fn line(export: ExportProgress) -> ExportLine {
    ExportLine { export }
}

/// Form of codes in lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codes {
    /// As URIs.
    Uri,
    /// As the objects of responses, with their names.
    Object,
}

impl Codes {
    /// Names in requests.
    pub const NAMES: [(&'static str, Self); 2] = [("uri", Self::Uri), ("object", Self::Object)];
}

/// Writes a line.
///
/// # Errors
/// If it cannot be written, which is a defect.
fn write_record(shows: &ExportedNames<'_>, requested: &ExportParameters, out: &mut Vec<u8>) -> Result<(), AppError> {
    let (all, photo) = (&FieldSet::All, shows.exported.photo.as_deref());
    let body = match &shows.exported.record {
        ChangedRecord::Individual(person) => RecordBody::new(person, all, shows).with_photo(photo),
        ChangedRecord::Group(group) => {
            // Not in lines for an import: the server computes it.
            let has_quantity = shows.codes == Codes::Object && group.details.has(MEMBER);
            let quantity = has_quantity.then(|| group.details.active_members(shows.today).count());
            RecordBody::new(group, all, shows).with_computed(quantity.map(Computed::Quantity))
        }
        ChangedRecord::Program(program) => record::program(program, all),
        ChangedRecord::ProgramMembership(membership) => record::membership_of(membership, all, shows),
        ChangedRecord::Consent(consent) => {
            record::consent_of(consent, consent.details.status(shows.today), (all, shows))
        }
    };
    let body = if requested.with_meta { body } else { body.without_meta() };
    let body = body.with_key(shows.with_keys.then(|| shows.exported.record.place().1));
    match shows.exported.later_relationships {
        later if later > 0 && requested.is_for_import() => {
            write_body(&ImportLine { record: body, later_relationships: Some(later), on_existing: None }, out)
        }
        _ => write_body(&body, out),
    }
}

/// A line with members for an import.
#[derive(Serialize)]
struct ImportLine<'a> {
    #[serde(flatten)]
    record: RecordBody<'a>,
    #[serde(rename = "$later_relationships", skip_serializing_if = "Option::is_none")]
    later_relationships: Option<usize>,
    #[serde(rename = "$on_existing", skip_serializing_if = "Option::is_none")]
    on_existing: Option<&'static str>,
}

/// Writes a line that adds the relationships of a record.
///
/// # Errors
/// As [`write_record`].
fn write_relationships(shows: &ExportedNames<'_>, out: &mut Vec<u8>) -> Result<(), AppError> {
    let fields = named(shows.exported.record.place().0.resource(), [RELATIONSHIP]);
    let record = match &shows.exported.record {
        ChangedRecord::Individual(person) => RecordBody::new(person, &fields, shows),
        ChangedRecord::Group(group) => RecordBody::new(group, &fields, shows),
        // They have no relationships.
        ChangedRecord::Program(_) | ChangedRecord::ProgramMembership(_) | ChangedRecord::Consent(_) => return Ok(()),
    };
    let on_existing = Some(OnExisting::AddRelationships.name());
    write_body(&ImportLine { record: record.without_meta(), later_relationships: None, on_existing }, out)
}

fn write_body(body: &impl Serialize, out: &mut Vec<u8>) -> Result<(), AppError> {
    serde_json::to_writer(&mut *out, body).map_err(|error| AppError::Internal(error.into()))?;
    out.push(b'\n');
    Ok(())
}

/// Shows the codes and records that an exported record names.
struct ExportedNames<'a> {
    view: &'a CodeView,
    exported: &'a Exported,
    codes: Codes,
    with_keys: bool,
    /// The day of the export.
    today: Date,
}

impl Shows for ExportedNames<'_> {
    fn code(&self, code: CodedValue) -> Option<ShownCode> {
        match self.codes {
            Codes::Object => self.view.code(code),
            Codes::Uri => Some(ShownCode::Uri(self.view.show(code).uri)),
        }
    }

    fn record(&self, reference: &Reference) -> Option<ShownRecord<'_>> {
        let called = self.exported.named.get(reference)?;
        Some(ShownRecord { key: self.with_keys.then_some(reference.id), ..ShownRecord::from(called.as_str()) })
    }

    fn declared(&self) -> Option<&ExtensionFields> {
        self.view.declared()
    }
}

/// Purpose of the sealed cursors. It names their format: a cursor of another format is rejected.
const PURPOSE: &[u8] = b"export cursor 2";

/// A position in an export, sealed before it is sent: keys of records are sent only in an export that requests them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportCursor {
    /// Timestamp of the export.
    pub at: Timestamp,
    /// The kind of the last record.
    pub kind: RecordKind,
    /// Its key.
    pub after: RecordId,
    /// True if relationships of records up to it are sent after the records of the kind.
    pub has_later: bool,
    /// True if the records of the kind were sent, and these relationships follow.
    pub is_later: bool,
}

impl ExportCursor {
    /// Seals the cursor.
    ///
    /// # Errors
    /// When the operating system gives no random bytes.
    pub fn seal(self, seal: &CursorSeal) -> Result<String, AppError> {
        let message =
            to_stdvec(&(self.kind.place(), self.at.as_millisecond(), self.after, self.has_later, self.is_later));
        let message = message.map_err(|error| AppError::Internal(error.into()))?;
        seal.seal(PURPOSE, &message).map_err(|error| AppError::Internal(error.into()))
    }

    /// Opens a sealed cursor.
    ///
    /// # Errors
    /// [`AppError::InvalidCursor`] if this register did not issue it.
    pub fn open(seal: &CursorSeal, text: &str) -> Result<Self, AppError> {
        let read = || {
            let message = seal.open(PURPOSE, text)?;
            let (read, rest): ((usize, i64, RecordId, bool, bool), _) = take_from_bytes(&message).ok()?;
            let (kind, at, after, has_later, is_later) = read;
            if !rest.is_empty() {
                return None;
            }
            let (at, kind) = (Timestamp::from_millisecond(at).ok()?, *RecordKind::ALL.get(kind)?);
            Some(Self { at, kind, after, has_later, is_later })
        };
        let detail = "`cursor` was not issued by an export of this register; omit it to start from the beginning";
        read().ok_or_else(|| AppError::InvalidCursor(detail))
    }
}
