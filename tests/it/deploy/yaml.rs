//! The part of YAML that the files of `deploy/` use, read as JSON: mappings and lists by indentation, `{…}` and `[…]` on one line, literal
//! blocks, quoted and plain scalars. Anything else fails the test.

use std::iter::Peekable;
use std::str::Chars;

use serde_json::{Map, Value};

/// A line with something on it.
struct Line<'t> {
    indent: usize,
    text: &'t str,
    number: usize,
}

/// The documents of a file.
pub(super) fn documents(text: &str) -> Vec<Value> {
    let mut documents = Vec::new();
    let mut begin = 0;
    let all: Vec<&str> = text.lines().collect();
    let ends = all.iter().enumerate().filter(|(_, line)| **line == "---").map(|(number, _)| number);
    for end in ends.chain([all.len()]) {
        let mut reader = Reader { all: &all[..end], next: begin };
        documents.push(reader.value(0));
        assert!(reader.peek().is_none(), "line {}: not read", reader.next + 1);
        begin = end + 1;
    }
    documents
}

struct Reader<'t> {
    all: &'t [&'t str],
    next: usize,
}

impl<'t> Reader<'t> {
    /// The next line with something on it.
    fn peek(&mut self) -> Option<Line<'t>> {
        loop {
            let line = *self.all.get(self.next)?;
            let text = line.trim();
            if text.is_empty() || text.starts_with('#') {
                self.next += 1;
                continue;
            }
            return Some(Line { indent: line.len() - line.trim_start().len(), text, number: self.next + 1 });
        }
    }

    /// What stands at that indentation or further in.
    fn value(&mut self, least: usize) -> Value {
        let Some(first) = self.peek().filter(|line| line.indent >= least) else { return Value::Null };
        if first.text.starts_with("- ") { self.list(first.indent) } else { self.mapping(first.indent) }
    }

    fn list(&mut self, indent: usize) -> Value {
        let mut items = Vec::new();
        while let Some(line) = self.peek().filter(|line| line.indent == indent && line.text.starts_with("- ")) {
            let item = line.text.trim_start_matches("- ").trim_start();
            if pair(item).is_some() {
                // A mapping whose first line has the dash in its indentation.
                items.push(self.entries(indent + 2, Some((item, line.number))));
            } else {
                self.next += 1;
                items.push(inline(item, line.number));
            }
        }
        Value::Array(items)
    }

    fn mapping(&mut self, indent: usize) -> Value {
        self.entries(indent, None)
    }

    fn entries(&mut self, indent: usize, mut first: Option<(&'t str, usize)>) -> Value {
        let mut members = Map::new();
        loop {
            let (text, number) = match first.take() {
                Some(first) => first,
                None => match self.peek() {
                    Some(line) if line.indent == indent && !line.text.starts_with("- ") => (line.text, line.number),
                    _ => return Value::Object(members),
                },
            };
            self.next += 1;
            let (key, rest) = pair(text).unwrap_or_else(|| panic!("line {number}: no `key: value`: {text}"));
            let value = match rest {
                "" => self.nested(indent),
                "|" => Value::String(self.literal(indent)),
                rest => inline(rest, number),
            };
            assert!(members.insert(key.to_owned(), value).is_none(), "line {number}: `{key}` twice");
        }
    }

    /// The value of a key with nothing behind it; a list may have the indentation of its key.
    fn nested(&mut self, indent: usize) -> Value {
        match self.peek() {
            Some(line) if line.indent == indent && line.text.starts_with("- ") => self.list(indent),
            _ => self.value(indent + 1),
        }
    }

    fn literal(&mut self, indent: usize) -> String {
        let mut text = String::new();
        while let Some(line) = self.all.get(self.next) {
            let own = line.len() - line.trim_start().len();
            if !line.trim().is_empty() && own <= indent {
                break;
            }
            text += line.get(indent + 2..).unwrap_or_default();
            text.push('\n');
            self.next += 1;
        }
        text
    }
}

/// A key and what is behind its colon.
fn pair(text: &str) -> Option<(&str, &str)> {
    let (key, rest) = text.split_once(':')?;
    let is_key = !key.is_empty() && !key.contains(['{', '[', '"', ' ']) && (rest.is_empty() || rest.starts_with(' '));
    is_key.then(|| (key, rest.trim()))
}

/// A value on one line.
fn inline(text: &str, number: usize) -> Value {
    let mut rest = text.chars().peekable();
    let value = flow(&mut rest, "");
    let left: String = rest.collect();
    assert!(left.trim().is_empty() || left.starts_with('#'), "line {number}: `{left}` is not read: {text}");
    value
}

fn flow(rest: &mut Peekable<Chars<'_>>, ends: &str) -> Value {
    skip_blanks(rest);
    match rest.peek() {
        Some('{') => {
            let mut members = Map::new();
            items(rest, '}', |rest| {
                let key = scalar(rest, ":");
                assert_eq!(rest.next(), Some(':'), "a colon behind `{key}`");
                members.insert(key, flow(rest, ",}"));
            });
            Value::Object(members)
        }
        Some('[') => {
            let mut found = Vec::new();
            items(rest, ']', |rest| found.push(flow(rest, ",]")));
            Value::Array(found)
        }
        Some('"') => Value::String(scalar(rest, ends)),
        _ => plain(&scalar(rest, ends)),
    }
}

fn items(rest: &mut Peekable<Chars<'_>>, end: char, mut item: impl FnMut(&mut Peekable<Chars<'_>>)) {
    rest.next();
    loop {
        skip_blanks(rest);
        match rest.peek() {
            Some(',') => {
                rest.next();
            }
            Some(one) if *one == end => {
                rest.next();
                return;
            }
            Some(_) => item(rest),
            None => panic!("`{end}` is missing"),
        }
    }
}

fn skip_blanks(rest: &mut Peekable<Chars<'_>>) {
    while rest.next_if_eq(&' ').is_some() {}
}

/// Text in quotes, or up to one of those characters or to a comment.
fn scalar(rest: &mut Peekable<Chars<'_>>, ends: &str) -> String {
    let mut text = String::new();
    if rest.next_if_eq(&'"').is_some() {
        loop {
            match rest.next() {
                Some('"') => return text,
                Some(one) if one != '\\' => text.push(one),
                other => panic!("{other:?} in quotes"),
            }
        }
    }
    while let Some(one) = rest.next_if(|one| !ends.contains(*one) && !(*one == '#' && text.ends_with(' '))) {
        text.push(one);
    }
    text.trim_end().to_owned()
}

/// What an unquoted scalar means; a number that begins with 0 is octal, as rights of files are, and stays text.
fn plain(text: &str) -> Value {
    match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "" | "null" | "~" => Value::Null,
        _ if text.len() > 1 && text.starts_with('0') => Value::String(text.to_owned()),
        _ => text.parse::<u64>().map_or_else(|_| Value::String(text.to_owned()), Value::from),
    }
}

#[test]
fn the_part_of_yaml_that_is_used_is_read() {
    let text = "# c\na: 1\nb:\n  - x: \"1\"\n    y: { p: [q, \"r s\"], t: true }\n  - x: 2\nc: |\n  one\n\n    two\nd: e:f#g # h\n---\nlist:\n- a\n- b\nempty: {}\n";
    let expected = [
        serde_json::json!({
            "a": 1,
            "b": [{"x": "1", "y": {"p": ["q", "r s"], "t": true}}, {"x": 2}],
            "c": "one\n\n  two\n",
            "d": "e:f#g",
        }),
        serde_json::json!({"list": ["a", "b"], "empty": {}}),
    ];
    assert_eq!(documents(text), expected);
}
