//! The pages of lists and searches, and the languages of a request.

use axum::http::{HeaderMap, header};
use daftar_api_types::public::page::{Links, Page as PageBody};

use crate::api::extract::query::Parameters;
use crate::state::AppState;
use daftar_domain::search::Page;
use daftar_service::codes::LanguagePreference;

/// A page of a list with its links; `path` is the list's URL without a query.
#[must_use]
pub fn page_of<T>(data: Vec<T>, total: u64, page: Page, path: &str, parameters: &Parameters) -> PageBody<T> {
    let filters = parameters.encode_without(&["_count", "_offset"]);
    let link = |offset: u64| {
        let separator = if filters.is_empty() { "" } else { "&" };
        format!("{path}?{filters}{separator}_count={}&_offset={offset}", page.count)
    };
    let after = page.offset.saturating_add(u64::from(page.count));
    let links = Links {
        this: link(page.offset),
        next: (after < total).then(|| link(after)),
        prev: (page.offset > 0).then(|| link(page.offset.saturating_sub(u64::from(page.count)))),
    };
    PageBody::new(data, total, page.offset, links)
}

/// The languages a client wants displays in.
#[must_use]
pub fn languages(app: &AppState, headers: &HeaderMap) -> LanguagePreference {
    // A list may be sent in several headers.
    let given = headers.get_all(header::ACCEPT_LANGUAGE).iter().filter_map(|value| value.to_str().ok());
    let wanted = given.collect::<Vec<_>>().join(",");
    let wanted = if wanted.is_empty() { &app.config.vocabulary.default_language } else { &wanted };
    LanguagePreference::parse(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_keep_the_filters_and_stop_at_the_ends() {
        let parameters = Parameters::parse("gender=urn%3Ax%232&_count=2&_offset=2").unwrap();
        let page = Page { offset: 2, count: 2 };
        let envelope = page_of(vec![1, 2], 5, page, "https://h/p", &parameters);
        let text = serde_json::to_value(&envelope).unwrap();
        assert_eq!(text["links"]["self"], "https://h/p?gender=urn%3Ax%232&_count=2&_offset=2");
        assert_eq!(text["links"]["next"], "https://h/p?gender=urn%3Ax%232&_count=2&_offset=4");
        assert_eq!(text["links"]["prev"], "https://h/p?gender=urn%3Ax%232&_count=2&_offset=0");
        let last = page_of(vec![1], 5, Page { offset: 4, count: 2 }, "https://h/p", &parameters);
        assert_eq!(serde_json::to_value(&last).unwrap()["links"]["next"], serde_json::Value::Null);
    }
}
