//! What every search of records takes and answers with: `_count`, `_offset`, `_cursor`, `_sort`, `_elements`.

use axum::Json;
use axum::response::{IntoResponse, Response};
use daftar_api_types::public::page::{Links, Page as PageBody};
use serde::Serialize;

use crate::api::cursor;
use crate::api::elements::Elements;
use crate::api::endpoint::BASE_PATH;
use crate::api::error::{ApiError, Problem};
use crate::api::extract::filters::{self, ENVELOPE};
use crate::api::extract::query::Parameters;
use crate::state::AppState;
use daftar_domain::context::OpContext;
use daftar_domain::record::RecordKind;
use daftar_domain::search::order::{Start, Window, sort_fields};
use daftar_service::search::{FoundPage, Paging};

/// What a kind of record can be searched by.
pub struct Searchable<'a> {
    /// Which kind.
    pub kind: RecordKind,
    /// The names of the filters, without those that every search takes.
    pub filters: &'a [&'a str],
}

/// A search, its own filters not yet read.
pub struct Search {
    kind: RecordKind,
    /// Every parameter.
    pub parameters: Parameters,
    /// Order and page.
    pub paging: Paging,
    elements: Option<Elements>,
}

impl Search {
    /// Reads what every search takes, and refuses what this one does not take.
    ///
    /// # Errors
    /// 400 naming the parameter.
    pub fn read(app: &AppState, ctx: &OpContext, query: &str, of: &Searchable<'_>) -> Result<Self, ApiError> {
        let parameters = Parameters::parse(query)?;
        let known: Vec<&str> = of.filters.iter().copied().chain(ENVELOPE).collect();
        parameters.expect_only(&known)?;
        let sort = filters::sort(&parameters, sort_fields(of.kind))?;
        let page = parameters.page()?;
        let start = match parameters.one("_cursor")? {
            None => Start::Offset(page.offset),
            Some(_) if parameters.one("_offset")?.is_some() => {
                return Err(Problem::malformed("`_cursor` says where the page begins: leave `_offset` out").into());
            }
            Some(text) => Start::After(cursor::read(app, ctx, of.kind, &parameters, text)?),
        };
        let elements = Elements::read(&parameters, of.kind)?;
        let paging = Paging { sort, window: Window { start, count: page.count } };
        Ok(Self { kind: of.kind, parameters, paging, elements })
    }

    /// What `_elements` chooses.
    #[must_use]
    pub fn elements(&self) -> Option<&Elements> {
        self.elements.as_ref()
    }

    /// Whether `_elements` names a field.
    #[must_use]
    pub fn names_element(&self, field: &str) -> bool {
        self.elements.is_some() && Elements::wants(self.elements.as_ref(), field)
    }

    /// The page as an answer; `write` makes the body of a record.
    ///
    /// # Errors
    /// When a body or the cursor cannot be written.
    pub fn answer<'p, R, B: Serialize>(
        &self,
        app: &AppState,
        ctx: &OpContext,
        page: &'p FoundPage<R>,
        write: impl Fn(&'p R) -> B,
    ) -> Result<Response, ApiError> {
        let cursor = page.next.as_ref().map(|next| cursor::write(app, ctx, self.kind, &self.parameters, next));
        let links = self.links(app, cursor.transpose()?.as_deref());
        let offset = self.paging.window.passed();
        let bodies = page.records.iter().map(write);
        Ok(match &self.elements {
            None => {
                let data: Vec<B> = bodies.collect();
                Json(PageBody::new(data, page.total, offset, links)).into_response()
            }
            Some(elements) => {
                let data = bodies.map(|body| elements.keep(body)).collect::<Result<Vec<_>, _>>()?;
                Json(PageBody::new(data, page.total, offset, links)).into_response()
            }
        })
    }

    fn links(&self, app: &AppState, next: Option<&str>) -> Links {
        let filters = self.parameters.encode_without(&["_count", "_offset", "_cursor"]);
        let separator = if filters.is_empty() { "" } else { "&" };
        let window = &self.paging.window;
        let link = |name: &str, value: &str| {
            let path = format!("{}{BASE_PATH}/{}", app.public_url, self.kind);
            format!("{path}?{filters}{separator}_count={}&{name}={value}", window.count)
        };
        let passed = window.passed();
        let this = match self.parameters.all("_cursor").next() {
            Some(cursor) => link("_cursor", cursor),
            None => link("_offset", &passed.to_string()),
        };
        let before = passed.saturating_sub(u64::from(window.count));
        let prev = (passed > 0).then(|| link("_offset", &before.to_string()));
        Links { this, next: next.map(|cursor| link("_cursor", cursor)), prev }
    }
}
