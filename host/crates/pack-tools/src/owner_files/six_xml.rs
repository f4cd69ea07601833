//! SIX list one: the currencies in use, one entry for each country and currency.
//!
//! **Invariant:** no document type is read, so no entity can stand for more than one character.

use std::cell::Cell;
use std::collections::HashMap;

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};

use crate::owner_files::draft::{DraftCode, DraftCompleteness, DraftHierarchy, DraftPack, DraftVocabulary};
use crate::owner_files::input::Input;
use crate::owner_files::owner;
use crate::owner_files::problem::{ImportError, excerpt};
use crate::owner_files::tally::Tally;

/// How deep elements may be. The list has four levels.
const DEPTH_MAX: usize = 16;

/// The precious metals among the codes.
const METALS: [&str; 4] = ["XAG", "XAU", "XPD", "XPT"];

/// One entry of the list.
#[derive(Debug, Default)]
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
/// It is not this list, or is broken.
pub fn read(input: &mut Input<'_>, tally: &mut Tally) -> Result<DraftPack, ImportError> {
    let text = input.read_text()?;
    let mut document =
        Document { input, text: &text, published: None, currencies: Currencies::default(), counted: Cell::default() };
    document.read(tally)?;
    let Some(published) = document.published else {
        return Err(
            input.unusable(None, "the document is not SIX's list: the root `ISO_4217` with `Pblshd` is missing")
        );
    };
    let vocabulary = DraftVocabulary {
        namespace: "urn:iso:std:iso:4217".to_owned(),
        name: "Currencies".to_owned(),
        domain: "Geographic".to_owned(),
        source: format!("SIX, ISO 4217 list one, published {published}"),
        table: "currency".to_owned(),
        languages: vec!["en".to_owned()],
        completeness: DraftCompleteness::Full,
        hierarchy: DraftHierarchy::Parents,
        codes: document.currencies.into_codes(),
        edition: published,
    };
    Ok(DraftPack::of(owner::six(&vocabulary.edition), vec![vocabulary]))
}

struct Document<'a, 'b> {
    input: &'a Input<'b>,
    text: &'a str,
    published: Option<String>,
    currencies: Currencies,
    /// To which byte the ends of lines were counted, and how many there were.
    counted: Cell<(usize, u64)>,
}

impl Document<'_, '_> {
    fn read(&mut self, tally: &mut Tally) -> Result<(), ImportError> {
        let mut reader = Reader::from_str(self.text);
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
                            tally.rows += 1;
                            self.currencies.add(entry, tally);
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
                    let reason = "it has a document type; SIX's list has none, and entities of one are not read";
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

    /// The character that a reference stands for.
    fn character(&self, reference: &BytesRef<'_>, at: u64) -> Result<String, ImportError> {
        match reference.resolve_char_ref() {
            Ok(Some(character)) => Ok(character.to_string()),
            Ok(None) => {
                let name = reference.xml10_content();
                let known = resolve_predefined_entity(&name).map(str::to_owned);
                known.ok_or_else(|| self.broken(at, &format_args!("`&{};` stands for nothing", excerpt(&name))))
            }
            Err(error) => Err(self.broken(at, &error)),
        }
    }

    /// The line of a byte. Counted on from the last one that was asked for: there may be as many entries as bytes allow.
    fn line(&self, at: u64) -> u64 {
        let at = usize::try_from(at).unwrap_or(usize::MAX).min(self.text.len());
        let (from, before) = match self.counted.get() {
            (from, _) if from > at => (0, 0),
            counted => counted,
        };
        let between = self.text.as_bytes().get(from..at).unwrap_or_default();
        let ends = before + between.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.counted.set((at, ends));
        ends + 1
    }

    fn broken(&self, at: u64, reason: &dyn std::fmt::Display) -> ImportError {
        let reason = format!("it is no sound XML of this kind: {}", excerpt(&reason.to_string()));
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

    /// What kind of code it is; SIX marks funds only, the rest follows from the code.
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

/// The currencies that were met, one for all its countries.
#[derive(Debug, Default)]
struct Currencies {
    entries: Vec<Entry>,
    index: HashMap<String, usize>,
}

impl Currencies {
    fn add(&mut self, mut entry: Entry, tally: &mut Tally) {
        let line = Some(entry.line);
        if entry.code.is_empty() {
            return tally.leave_out("an entry without a currency of its own");
        }
        let is_code = entry.code.len() == 3 && entry.code.bytes().all(|byte| byte.is_ascii_uppercase());
        if !is_code {
            return tally.refuse(line, Some(&entry.code), "a currency's code is three capitals");
        }
        if entry.number.len() != 3 || !entry.number.bytes().all(|byte| byte.is_ascii_digit()) {
            let reason = format!("its number is `{}`, not three digits", excerpt(&entry.number));
            return tally.refuse(line, Some(&entry.code), reason);
        }
        let is_units = entry.minor_units == "N.A." || matches!(entry.minor_units.as_bytes(), [b'0'..=b'9']);
        if !is_units {
            let reason = format!("its minor units are `{}`, not a digit or N.A.", excerpt(&entry.minor_units));
            return tally.refuse(line, Some(&entry.code), reason);
        }
        match tally.text(&entry.name).filter(|name| !name.is_empty()) {
            Some(name) => entry.name = name,
            None => return tally.refuse(line, Some(&entry.code), "it has no name, or one with a control character"),
        }
        match self.index.get(&entry.code).and_then(|index| self.entries.get(*index)) {
            None => {
                self.index.insert(entry.code.clone(), self.entries.len());
                self.entries.push(entry);
            }
            Some(known) => {
                let is_same = known.name == entry.name
                    && known.number == entry.number
                    && known.minor_units == entry.minor_units
                    && known.is_fund == entry.is_fund;
                if is_same {
                    tally.leave_out("a further country of a currency that is already there");
                } else {
                    let reason = format!("it is on line {} with another name, number or units", known.line);
                    tally.refuse(line, Some(&entry.code), reason);
                }
            }
        }
    }

    fn into_codes(mut self) -> Vec<DraftCode> {
        self.entries.sort_by(|one, other| one.code.cmp(&other.code));
        let code = |entry: &Entry| {
            let mut code = DraftCode::new(&entry.code, Some(entry.line)).labelled("en", &entry.name);
            code.aliases = vec![entry.number.clone()];
            let units = if entry.minor_units == "N.A." { "" } else { &entry.minor_units };
            code.with_property("minor_units", units).with_property("kind", entry.kind())
        };
        self.entries.iter().map(code).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{Currencies, Document};
    use crate::owner_files::NoProgress;
    use crate::owner_files::input::Input;

    #[test]
    fn lines_are_counted_on_from_the_last_place() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "x").unwrap();
        let mut progress = NoProgress;
        let input = Input::open(file.path(), 100, &mut progress).unwrap();
        let (text, currencies) = ("a\nb\n\nc", Currencies::default());
        let document = Document { input: &input, text, published: None, currencies, counted: Cell::default() };
        let lines = [0, 1, 2, 4, 5, 6].map(|at| (document.line(at), document.counted.get().0));
        assert_eq!(lines, [(1, 0), (1, 1), (2, 2), (3, 4), (4, 5), (4, 6)]);
        assert_eq!([2, 99].map(|at| document.line(at)), [2, 4], "back, and beyond the end");
        // Had it begun anew, it would have found the ends of lines again.
        document.counted.set((5, 40));
        assert_eq!(document.line(6), 41);
    }
}
