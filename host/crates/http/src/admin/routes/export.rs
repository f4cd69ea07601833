//! `/export`

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::OwnedSemaphorePermit;

use crate::admin::access::Administrator;
use crate::admin::export::body::{self, Codes, Meta};
use crate::admin::export::cursor::ExportCursor;
use crate::admin::import::told::stopped_by;
use crate::api::error::{ApiError, Problem};
use crate::api::extract::accept::LINES;
use crate::api::extract::query::{Parameters, RawQuery};
use crate::api::lines::write_line;
use crate::api::routes::record_search;
use crate::state::AppState;
use daftar_api_types::admin::operation::{ExportLine, ExportProgress};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::calendar::format_instant;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_service::bulk::export;
use daftar_service::codes::{CodeView, LanguagePreference};
use daftar_service::{audit, individual};

/// What a request of an export takes, beside the filters of a search of people.
const OWN: [&str; 5] = ["type", "cursor", "codes", "meta", "language"];

/// What is exported.
#[derive(Clone)]
struct Asked {
    kinds: Vec<RecordKind>,
    codes: Codes,
    meta: Meta,
    languages: LanguagePreference,
    /// The people that a filter found.
    chosen: Option<Arc<[RecordId]>>,
    cursor: ExportCursor,
}

/// Sends the records as they stand now, a line each, to a bounded number of readers at once; every so often, and in the end, a line says where an export would go on.
pub async fn export(
    Administrator(ctx): Administrator,
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    // Before anything is searched for.
    let place = Arc::clone(&app.exports).try_acquire_owned().map_err(|_| AppError::Busy)?;
    let asked = asked(&ctx, &app, &Parameters::parse(&query)?).await?;
    let kinds: Vec<&str> = asked.kinds.iter().map(|kind| kind.name()).collect();
    let at = format_instant(asked.cursor.at);
    let filtered = if asked.chosen.is_some() { ", those that a search finds" } else { "" };
    let note = format!("export of {}{filtered}, as of {at}, begins", kinds.join(", "));
    tell(&ctx, &app, note, 0).await?;
    let sending = Sending { ctx, app, asked, sent: 0, _place: place };
    let lines = stream::unfold(Some(sending), |sending| async move {
        let mut sending = sending?;
        let (bytes, is_over) = sending.next().await;
        Some((Ok::<_, std::convert::Infallible>(bytes), if is_over { None } else { Some(sending) }))
    });
    Ok(([(header::CONTENT_TYPE, LINES)], Body::from_stream(lines)).into_response())
}

async fn asked(ctx: &OpContext, app: &AppState, parameters: &Parameters) -> Result<Asked, ApiError> {
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
        kinds = vec![RecordKind::Individual];
        let request = record_search::individual_request(app, parameters, &OWN)?;
        Some(individual::find_all(ctx, &app.registry, request).await?.into())
    };
    let first = ExportCursor {
        at: ctx.now,
        kind: kinds.first().copied().unwrap_or(RecordKind::Individual),
        after: RecordId(0),
    };
    Ok(Asked {
        cursor: match parameters.one("cursor")? {
            Some(text) => ExportCursor::open(&app.cursors, text)?,
            None => first,
        },
        kinds,
        codes: parameters.word("codes", &Codes::NAMES)?.unwrap_or(Codes::Uri),
        meta: if parameters.boolean("meta")?.unwrap_or(false) { Meta::Kept } else { Meta::LeftOut },
        languages: parameters.one("language")?.map_or_else(LanguagePreference::none, LanguagePreference::parse),
        chosen,
    })
}

/// Writes a line of the audit log about the export as a whole.
async fn tell(ctx: &OpContext, app: &AppState, note: String, count: u64) -> Result<(), AppError> {
    let entry = audit::entry(ctx, AuditAction::Read, AuditOutcome::Allowed, Vec::new());
    let entry = entry.with_note(note).with_status(200);
    let entry = daftar_domain::audit::AuditEntry { count: count.max(1), ..entry };
    app.registry.audit.record_now(vec![entry]).await
}

/// An export on its way; dropped when its caller leaves.
struct Sending {
    ctx: OpContext,
    app: AppState,
    asked: Asked,
    sent: u64,
    _place: OwnedSemaphorePermit,
}

impl Sending {
    /// What is sent next, and whether it is the last.
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
        let ExportCursor { at, kind, after } = self.asked.cursor;
        let chosen = self.asked.chosen.as_deref();
        let page = export::page(&self.ctx, &self.app.registry, (kind, after, at), chosen).await?;
        let count = page.records.len() as u64;
        let (asked, app) = (self.asked.clone(), self.app.clone());
        let written = tokio::task::spawn_blocking(move || {
            // Taken after the records, so that a code published meanwhile has its name.
            let view = CodeView::new(app.registry.vocabularies.current(), asked.languages);
            let mut out = Vec::new();
            for record in &page.records {
                body::write(&view, record, (asked.codes, asked.meta), &mut out)?;
            }
            Ok::<_, AppError>((out, page.last))
        });
        let (mut out, last) = written.await.map_err(|error| AppError::Internal(error.into()))??;
        self.sent = self.sent.saturating_add(count);
        let next = match last {
            Some(last) => Some(ExportCursor { at, kind, after: last }),
            None => {
                let kinds = self.asked.kinds.iter().skip_while(|other| **other != kind).skip(1);
                kinds.copied().next().map(|kind| ExportCursor { at, kind, after: RecordId(0) })
            }
        };
        let progress = match next {
            Some(next) => {
                self.asked.cursor = next;
                ExportProgress::Cursor { cursor: next.seal(&self.app.cursors)?, records: self.sent }
            }
            None => {
                let note = format!("export as of {}: {} records were sent", format_instant(at), self.sent);
                tell(&self.ctx, &self.app, note, self.sent).await?;
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
