//! SIX list one: the active currencies, one entry for each country and currency.
//!
//! **Invariant:** document types are rejected, so no entity expands to more than one character.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::fmt::Display;

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};

use crate::publisher_files::counts::Counts;
use crate::publisher_files::draft::{DraftCode, DraftPack};
use crate::publisher_files::input::{Input, LineCounter};
use crate::publisher_files::problem::{ImportError, excerpt};
use crate::publisher_files::publications::SIX_CURRENCIES;

/// The most nested elements. The list has four levels.
const DEPTH_MAX: usize = 16;

/// The precious metals among the codes.
const METALS: [&str; 4] = ["XAG", "XAU", "XPD", "XPT"];

/// One entry of the list.
#[derive(Debug, Default, PartialEq)]
struct Entry {
    line: u64,
    name: String,
    is_fund: bool,
    code: String,
    number: String,
    minor_units: String,
}

/// Reads the list.
///
/// # Errors
/// It is not this list, or is malformed.
pub fn read(input: &Input<'_>, counts: &mut Counts) -> Result<DraftPack, ImportError> {
    let text = input.read_text()?;
    let lines = LineCounter::of(&text);
    let mut document = Document { input, lines, published: None, currencies: Currencies::default() };
    document.read(&text, counts)?;
    let Some(published) = document.published else {
        return Err(
            input.unusable(None, "the document is not SIX's list: the root `ISO_4217` with `Pblshd` is missing")
        );
    };
    Ok(SIX_CURRENCIES.pack(published, document.currencies.into_codes()))
}

struct Document<'a, 'b> {
    input: &'a Input<'b>,
    lines: LineCounter<'a>,
    published: Option<String>,
    currencies: Currencies,
}

impl Document<'_, '_> {
    fn read(&mut self, text: &str, counts: &mut Counts) -> Result<(), ImportError> {
        let mut reader = Reader::from_str(text);
        let mut open: Vec<String> = Vec::new();
        let mut entry: Option<Entry> = None;
        let mut content = String::new();
        loop {
            let at = reader.buffer_position();
            let event = reader.read_event().map_err(|error| self.broken(reader.error_position(), &error))?;
            match event {
                Event::Start(start) => {
                    if open.len() >= DEPTH_MAX {
                        return Err(self.broken(at, &format_args!("elements are more than {DEPTH_MAX} deep")));
                    }
                    self.start(&start, at, &mut entry)?;
                    content.clear();
                    open.push(start.name().as_ref().to_owned());
                }
                Event::Empty(start) => self.start(&start, at, &mut None)?,
                Event::End(_) => {
                    let name = open.pop().unwrap_or_default();
                    if name == "CcyNtry" {
                        if let Some(entry) = entry.take() {
                            counts.rows += 1;
                            self.currencies.add(entry, counts);
                        }
                    } else if let Some(entry) = &mut entry {
                        entry.set(&name, content.trim());
                    }
                    content.clear();
                }
                Event::Text(text) => content.push_str(&text.xml10_content()),
                Event::CData(text) => content.push_str(&text.xml10_content()),
                Event::GeneralRef(reference) => content.push_str(&self.character(&reference, at)?),
                Event::DocType(_) => {
                    let reason = "it has a document type; SIX's list has none, and its entities are not expanded";
                    return Err(self.broken(at, &reason));
                }
                Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
                Event::Eof if open.is_empty() => return Ok(()),
                Event::Eof => {
                    let name = open.last().map(String::as_str).unwrap_or_default();
                    return Err(self.broken(at, &format_args!("the file ends within `{}`", excerpt(name))));
                }
            }
        }
    }

    fn start(&mut self, start: &BytesStart<'_>, at: u64, entry: &mut Option<Entry>) -> Result<(), ImportError> {
        let attribute = |name| match start.try_get_attribute(name) {
            Ok(attribute) => Ok(attribute.map(|attribute| attribute.value.into_owned())),
            Err(error) => Err(self.broken(at, &error)),
        };
        match start.name().as_ref() {
            "ISO_4217" => self.published = attribute("Pblshd")?.filter(|published| is_date(published)),
            "CcyNtry" => *entry = Some(Entry { line: self.line(at), ..Entry::default() }),
            "CcyNm" => {
                let is_fund = attribute("IsFund")?.is_some_and(|value| value.eq_ignore_ascii_case("true"));
                if let Some(entry) = entry {
                    entry.is_fund = is_fund;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The character of an entity reference.
    fn character(&self, reference: &BytesRef<'_>, at: u64) -> Result<String, ImportError> {
        match reference.resolve_char_ref() {
            Ok(Some(character)) => Ok(character.to_string()),
            Ok(None) => {
                let name = reference.xml10_content();
                let known = resolve_predefined_entity(&name).map(str::to_owned);
                known.ok_or_else(|| self.broken(at, &format_args!("the entity `&{};` is unknown", excerpt(&name))))
            }
            Err(error) => Err(self.broken(at, &error)),
        }
    }

    fn line(&self, at: u64) -> u64 {
        self.lines.line(usize::try_from(at).unwrap_or(usize::MAX))
    }

    fn broken(&self, at: u64, reason: &dyn Display) -> ImportError {
        let reason = format!("it is not valid XML of this kind: {}", excerpt(&reason.to_string()));
        self.input.unusable(Some(self.line(at)), reason)
    }
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

impl Entry {
    fn set(&mut self, element: &str, content: &str) {
        let place = match element {
            "CcyNm" => &mut self.name,
            "Ccy" => &mut self.code,
            "CcyNbr" => &mut self.number,
            "CcyMnrUnts" => &mut self.minor_units,
            _ => return,
        };
        content.clone_into(place);
    }

    /// The kind of the code; SIX marks only funds, the rest follows from the code.
    fn kind(&self) -> &'static str {
        match self.code.as_str() {
            "XTS" => "test",
            "XXX" => "none",
            code if METALS.contains(&code) => "metal",
            _ if self.is_fund => "fund",
            _ if self.minor_units.starts_with('N') => "unit",
            _ => "currency",
        }
    }
}

/// The currencies found so far by code, one for all its countries.
#[derive(Debug, Default)]
struct Currencies(BTreeMap<String, Entry>);

impl Currencies {
    fn add(&mut self, mut entry: Entry, counts: &mut Counts) {
        let line = Some(entry.line);
        if entry.code.is_empty() {
            return counts.leave_out("an entry without a currency of its own");
        }
        let is_code = entry.code.len() == 3 && entry.code.bytes().all(|byte| byte.is_ascii_uppercase());
        if !is_code {
            return counts.refuse(line, Some(&entry.code), "a currency's code is three capitals");
        }
        if entry.number.len() != 3 || !entry.number.bytes().all(|byte| byte.is_ascii_digit()) {
            let reason = format!("its number is `{}`, not three digits", excerpt(&entry.number));
            return counts.refuse(line, Some(&entry.code), reason);
        }
        let is_units = entry.minor_units == "N.A." || matches!(entry.minor_units.as_bytes(), [b'0'..=b'9']);
        if !is_units {
            let reason = format!("its minor units are `{}`, not a digit or N.A.", excerpt(&entry.minor_units));
            return counts.refuse(line, Some(&entry.code), reason);
        }
        let Some(name) = counts.name(line, &entry.code, &entry.name) else { return };
        entry.name = name;
        match self.0.entry(entry.code.clone()) {
            btree_map::Entry::Vacant(place) => {
                place.insert(entry);
            }
            btree_map::Entry::Occupied(known) => {
                let known = known.get();
                entry.line = known.line;
                if entry == *known {
                    counts.leave_out("a further country of a listed currency");
                } else {
                    let reason = format!("it is on line {} with another name, number or units", known.line);
                    counts.refuse(line, Some(&entry.code), reason);
                }
            }
        }
    }

    fn into_codes(self) -> Vec<DraftCode> {
        let code = |entry: &Entry| {
            let mut code = DraftCode::new(&entry.code, Some(entry.line)).labelled("en", &entry.name);
            code.aliases = vec![entry.number.clone()];
            let units = if entry.minor_units == "N.A." { "" } else { &entry.minor_units };
            code.with_property("minor_units", units).with_property("kind", entry.kind())
        };
        self.0.values().map(code).collect()
    }
}
