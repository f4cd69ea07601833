//! The pages of the API's operations, from its description: parameters, responses, and one request in curl, Python,
//! JavaScript and R.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::failure::Failure;

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];
/// Address in the requests.
const SERVER: &str = "http://127.0.0.1:8080";

/// A page for each tag and one of the permissions, by path in the site.
pub fn pages(document: &[u8]) -> Result<Vec<(String, String)>, Failure> {
    let document: Value =
        serde_json::from_slice(document).map_err(|error| Failure::new(format!("the API's description: {error}")))?;
    let operations: Vec<Operation<'_>> = members(&document, "paths")
        .flat_map(|(path, item)| {
            METHODS.into_iter().filter_map(move |method| Some(Operation { method, path, reported: item.get(method)? }))
        })
        .collect();
    let tags = list(&document, "tags").map(|tag| tag_page(&document, tag, &operations));
    Ok(tags.chain([("permissions.md".to_owned(), permissions(&operations))]).collect())
}

/// The page of a tag.
#[must_use]
pub fn place(tag: &str) -> String {
    format!("api/{}.md", tag.to_lowercase().replace(' ', "-"))
}

fn tag_page(document: &Value, tag: &Value, operations: &[Operation<'_>]) -> (String, String) {
    let name = text(tag, "name");
    let mut page = format!("# {name}\n\n{}\n", text(tag, "description"));
    for operation in operations.iter().filter(|one| list(one.reported, "tags").any(|of| of.as_str() == Some(name))) {
        operation.write(&mut page, document);
    }
    (place(name), page)
}

fn permissions(operations: &[Operation<'_>]) -> String {
    let mut by_scope: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for operation in operations {
        for scope in operation.scopes() {
            let tag = list(operation.reported, "tags").next().and_then(Value::as_str).unwrap_or_default();
            let link = format!("[{}]({}#{})", text(operation.reported, "summary"), place(tag), operation.id());
            by_scope.entry(scope).or_default().push(link);
        }
    }
    let mut page = "# Permissions\n\nA client has scopes: `daftar client create --scope individual:read`. Each operation accepts the \
                    scopes below, one of which is sufficient. `RESOURCE:all` includes every action on the resource. Fields and \
                    consents limit further which records and fields a client sees: [Access and consent](concepts/access.md).\n\n\
                    | scope | operations |\n|---|---|\n"
        .to_owned();
    for (scope, links) in by_scope {
        let _ = writeln!(page, "| `{scope}` | {} |", links.join("<br>"));
    }
    page
}

/// An operation with its method and path.
struct Operation<'a> {
    method: &'static str,
    path: &'a str,
    reported: &'a Value,
}

impl Operation<'_> {
    fn id(&self) -> &str {
        text(self.reported, "operationId")
    }

    fn scopes(&self) -> impl Iterator<Item = &str> {
        let schemes = list(self.reported, "security").filter_map(|one| one.as_object()?.values().next()?.as_array());
        schemes.flatten().filter_map(Value::as_str)
    }

    fn write(&self, page: &mut String, document: &Value) {
        let _ = write!(page, "\n## {} {{#{}}}\n\n", text(self.reported, "summary"), self.id());
        let _ = write!(page, "`{} {}`\n\n", self.method.to_uppercase(), self.path);
        if !text(self.reported, "description").is_empty() {
            let _ = write!(page, "{}\n\n", text(self.reported, "description"));
        }
        let scopes: Vec<String> = self.scopes().map(|scope| format!("`{scope}`")).collect();
        if !scopes.is_empty() {
            let _ = write!(page, "**Scope:** {}\n\n", scopes.join(" or "));
        }
        self.write_parameters(page, document);
        page.push_str("| status | response |\n|---|---|\n");
        for (status, response) in members(self.reported, "responses") {
            let response = resolved(document, response);
            let _ = writeln!(page, "| {status} | {} |", cell(text(response, "description")));
        }
        for (language, sample) in self.samples(document) {
            let _ = write!(page, "\n```{language}\n{}\n```\n", sample.trim_end());
        }
    }

    fn write_parameters(&self, page: &mut String, document: &Value) {
        let mut rows = list(self.reported, "parameters").map(|parameter| resolved(document, parameter)).peekable();
        if rows.peek().is_none() {
            return;
        }
        page.push_str("**Parameters**\n\n");
        for row in rows {
            let required = if row.get("required") == Some(&Value::Bool(true)) { ", required" } else { "" };
            let (name, place) = (text(row, "name"), text(row, "in"));
            let _ =
                writeln!(page, "- **`{name}`** ({place}{required})<br>{}", text(row, "description").replace('\n', " "));
        }
        page.push('\n');
    }

    /// The request of the first example, by language of the highlighter.
    fn samples(&self, document: &Value) -> [(&'static str, String); 4] {
        let (mut path, mut query, mut headers) = (self.path.to_owned(), Vec::new(), Vec::new());
        for parameter in list(self.reported, "parameters").map(|parameter| resolved(document, parameter)) {
            let (name, example) = (text(parameter, "name"), parameter.get("example").map(plain));
            match (text(parameter, "in"), example) {
                ("path", example) => {
                    let value = example.map_or_else(|| format!("{{{name}}}"), |value| encoded(&value));
                    path = path.replace(&format!("{{{name}}}"), &value);
                }
                ("query", Some(value)) => query.push(format!("{name}={}", encoded(&value))),
                ("header", Some(value)) => headers.push((name.to_owned(), value)),
                _ => {}
            }
        }
        let url =
            if query.is_empty() { format!("{SERVER}{path}") } else { format!("{SERVER}{path}?{}", query.join("&")) };
        if list(self.reported, "security")
            .next()
            .is_some_and(|one| one.get("oauth2").is_some() || one.get("bearer").is_some())
            || self.scopes().next().is_some()
        {
            headers.insert(0, ("Authorization".to_owned(), "Bearer TOKEN".to_owned()));
        }
        let body = self.reported.get("requestBody").and_then(|body| members(body, "content").next());
        let body = body.map(|(media_type, content)| {
            headers.push(("Content-Type".to_owned(), media_type.to_owned()));
            let value = members(content, "examples").next().and_then(|(_, example)| example.get("value"));
            value.map_or_else(String::new, |value| serde_json::to_string_pretty(value).unwrap_or_default())
        });
        let request = Request { method: self.method.to_uppercase(), url, headers, body };
        [("sh", request.curl()), ("python", request.python()), ("javascript", request.javascript()), ("r", request.r())]
    }
}

/// A request in one of the languages.
struct Request {
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
}

impl Request {
    fn curl(&self) -> String {
        let method = if self.method == "GET" { String::new() } else { format!("-X {} ", self.method) };
        let mut text = format!("curl {method}'{}'", self.url);
        for (name, value) in &self.headers {
            let _ = write!(text, " \\\n  -H '{name}: {value}'");
        }
        if let Some(body) = &self.body {
            let _ = write!(text, " \\\n  -d '{body}'");
        }
        text
    }

    /// The headers as members of an object.
    fn quoted_headers(&self) -> String {
        let quoted: Vec<String> = self.headers.iter().map(|(name, value)| format!("\"{name}\": \"{value}\"")).collect();
        quoted.join(", ")
    }

    fn python(&self) -> String {
        let mut text = format!(
            "import requests\n\nresponse = requests.request(\n    \"{}\",\n    \"{}\",\n",
            self.method, self.url
        );
        let headers = self.quoted_headers();
        if !headers.is_empty() {
            let _ = writeln!(text, "    headers={{{headers}}},");
        }
        if let Some(body) = &self.body {
            let _ = writeln!(text, "    data='''{body}''',");
        }
        text + ")\nresponse.raise_for_status()"
    }

    fn javascript(&self) -> String {
        let mut text = format!("const response = await fetch(\"{}\", {{\n  method: \"{}\",\n", self.url, self.method);
        let headers = self.quoted_headers();
        if !headers.is_empty() {
            let _ = writeln!(text, "  headers: {{ {headers} }},");
        }
        if let Some(body) = &self.body {
            let _ = writeln!(text, "  body: `{body}`,");
        }
        text + "});"
    }

    fn r(&self) -> String {
        let mut text = format!(
            "library(httr2)\n\nresponse <- request(\"{}\") |>\n  req_method(\"{}\") |>\n",
            self.url, self.method
        );
        let content_type = |(name, _): &&(String, String)| name == "Content-Type";
        for (name, value) in self.headers.iter().filter(|header| !content_type(header)) {
            let _ = writeln!(text, "  req_headers(`{name}` = \"{value}\") |>");
        }
        if let Some(body) = &self.body {
            let media_type = self.headers.iter().find(content_type).map_or("", |(_, value)| value.as_str());
            let _ = writeln!(text, "  req_body_raw('{body}', type = \"{media_type}\") |>");
        }
        text + "  req_perform()"
    }
}

/// A value as a parameter has it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Percent-encoded but for unreserved characters and those that a path and a query may contain (RFC 3986, section 3.3).
fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:,|$".contains(&byte);
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if is_plain(byte) {
            encoded.push(char::from(byte))
        } else {
            encoded.push_str(&format!("%{byte:02X}"))
        }
        encoded
    })
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn members<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    value.get(name).and_then(Value::as_object).into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

/// The object that a reference names, or the value itself.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let found = text(value, "$ref").strip_prefix('#').and_then(|pointer| document.pointer(pointer));
    found.unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = r##"{
        "tags": [{"name": "Individuals", "description": "People."}],
        "paths": {"/api/v2/Individual/{identifier}": {"get": {
            "tags": ["Individuals"], "operationId": "readIndividual", "summary": "Read an individual",
            "security": [{"oauth2": ["individual:read"]}],
            "parameters": [{"name": "identifier", "in": "path", "required": true, "description": "One | of them", "example": "urn:x#id|1"}],
            "responses": {"200": {"description": "It."}, "404": {"$ref": "#/components/responses/none"}}
        }}},
        "components": {"responses": {"none": {"description": "There is none."}}}
    }"##;

    #[test]
    fn each_tag_is_a_page_of_its_operations() {
        let pages = pages(DOCUMENT.as_bytes()).unwrap();
        let (path, page) = &pages[0];
        assert_eq!(path, "api/individuals.md");
        for part in [
            "## Read an individual {#readIndividual}",
            "**Scope:** `individual:read`",
            "- **`identifier`** (path, required)<br>One | of them",
            "| 404 | There is none. |",
            "curl 'http://127.0.0.1:8080/api/v2/Individual/urn:x%23id|1' \\\n  -H 'Authorization: Bearer TOKEN'",
            "requests.request(\n    \"GET\",",
            "await fetch(",
            "req_perform()",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
    }

    #[test]
    fn permissions_name_the_operations_of_each_scope() {
        let pages = pages(DOCUMENT.as_bytes()).unwrap();
        let (path, page) = &pages[1];
        assert_eq!(path, "permissions.md");
        assert!(
            page.ends_with("| `individual:read` | [Read an individual](api/individuals.md#readIndividual) |\n"),
            "{page}"
        );
    }
}
