//! The pages about error codes, made from the table of codes.

use std::fmt::Write as _;

use axum::http::StatusCode;

use super::{escaped, head, prose};
use daftar_domain::error_code::{ErrorCode, ErrorEntry};

const ABOUT: &str = "The body of every failed call is `application/problem+json` (RFC 9457). Its `code` is one of these. A code keeps its name, its status and its meaning; `detail` is for people and may change. The token endpoint responds with the codes of RFC 6749 instead.";

/// The page that lists every code.
#[must_use]
pub fn list() -> String {
    let mut html = head("Error codes", "Error codes", "<a href=\"../docs\">API</a>");
    let statuses: Vec<&[ErrorCode]> =
        ErrorCode::ALL.chunk_by(|one, next| one.entry().status == next.entry().status).collect();
    html.push_str("<nav aria-label=\"Contents\"><ul>");
    for status in statuses.iter().filter_map(|codes| codes.first()).map(|code| code.entry().status) {
        let _ = write!(html, "<li><a href=\"#status-{status}\">{}</a></li>", named(status));
    }
    let _ = write!(html, "</ul></nav><main><p>{}</p>", prose(ABOUT));
    for codes in statuses {
        let Some(status) = codes.first().map(|code| code.entry().status) else { continue };
        let _ = write!(html, "<section id=\"status-{status}\"><h2>{}</h2><dl>", named(status));
        for ErrorEntry { name, meaning, .. } in codes.iter().map(|code| code.entry()) {
            let _ =
                write!(html, "<dt><a href=\"errors/{name}\"><code>{name}</code></a></dt><dd>{}</dd>", prose(meaning));
        }
        html.push_str("</dl></section>");
    }
    html.push_str("</main></body></html>\n");
    html
}

/// The page about one code.
#[must_use]
pub fn page(code: ErrorCode) -> String {
    let ErrorEntry { name, status, meaning, remedy } = code.entry();
    let links = "<a href=\"../errors\">Error codes</a> · <a href=\"../../docs\">API</a>";
    let mut html = head(&format!("Error code {name}"), &format!("<code>{name}</code>"), links);
    html.push_str("<nav aria-label=\"Codes of the same status\"><ul>");
    for other in ErrorCode::ALL.iter().map(|code| code.entry()).filter(|other| other.status == status) {
        let current = if other.name == name { " aria-current=\"page\"" } else { "" };
        let _ = write!(html, "<li><a href=\"{0}\"{current}>{0}</a></li>", other.name);
    }
    let _ = writeln!(
        html,
        "</ul></nav><main><h2>Status</h2><p>{}</p><h2>Meaning</h2><p>{}</p><h2>What to do</h2><p>{}</p></main></body></html>",
        named(status),
        prose(meaning),
        prose(remedy)
    );
    html
}

/// A status with its name.
fn named(status: u16) -> String {
    let name = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    escaped(&format!("{status} {}", name.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_leads_to_every_code_and_each_page_says_what_the_table_says() {
        let list = list();
        for code in ErrorCode::ALL {
            let ErrorEntry { name, status, meaning, remedy } = code.entry();
            assert!(list.contains(&format!("href=\"errors/{name}\"")), "{name}");
            assert!(list.contains(&format!("id=\"status-{status}\"")) && list.contains(&prose(meaning)), "{name}");
            let page = page(*code);
            assert!(page.contains(&format!("<h1><code>{name}</code></h1>")), "{page}");
            assert!(page.contains(&prose(meaning)) && page.contains(&prose(remedy)), "{page}");
        }
    }
}
