//! Numbers of codes and editions, unique in the registry.
//!
//! **Invariant:** a number is assigned once and never reassigned, because records, columns and bitmaps contain numbers.
//! The table retains the number and name of a code after its pack was removed.

use std::collections::HashMap;

use super::compact::{Span, Texts, to_u32};
use daftar_domain::code::{CodeNumber, CodeUri, EditionNumber, Namespace};

/// Reason why a stored table cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// A code has two numbers.
    #[error("the code `{uri}` has two numbers, {first} and {second}")]
    CodeTwice {
        /// The code.
        uri: CodeUri,
        /// Its first number.
        first: u32,
        /// Its second number.
        second: u32,
    },
    /// A version of a vocabulary has two numbers.
    #[error("the version `{version}` of `{namespace}` has two numbers")]
    EditionTwice {
        /// The vocabulary.
        namespace: Namespace,
        /// Its version.
        version: String,
    },
}

/// Every (namespace, code) and (namespace, version) that the registry ever stored, by number and by name.
#[derive(Clone, Default)]
pub struct CodeTable {
    texts: Texts,
    /// By code number: the position of its namespace in `vocabularies`, and the code.
    codes: Vec<(u32, Span)>,
    /// By edition number: the position of its namespace in `vocabularies`, and the version.
    editions: Vec<(u32, String)>,
    vocabularies: Vec<Numbered>,
    places: HashMap<Namespace, u32>,
}

/// Numbers of one vocabulary.
#[derive(Clone)]
struct Numbered {
    namespace: Namespace,
    /// Sorted by code.
    codes: Vec<CodeNumber>,
    editions: Vec<EditionNumber>,
}

impl std::fmt::Debug for CodeTable {
    /// Formats the number of entries.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "CodeTable({} codes, {} editions)", self.codes.len(), self.editions.len())
    }
}

impl CodeTable {
    /// Creates the table from the entries of the store: entry `i` has number `i`.
    ///
    /// # Errors
    /// Returns an error if an entry occurs twice, because its number would be ambiguous.
    pub fn new(codes: &[CodeUri], editions: &[(Namespace, String)]) -> Result<Self, TableError> {
        let bytes = codes.iter().map(|uri| uri.code.as_str().len()).sum();
        let mut table = Self { texts: Texts::with_capacity(bytes), ..Self::default() };
        for (number, uri) in (0..).zip(codes) {
            let place = table.place_of(&uri.namespace);
            let span = table.texts.push(uri.code.as_str());
            table.codes.push((place, span));
            if let Some(numbered) = table.vocabularies.get_mut(place as usize) {
                numbered.codes.push(CodeNumber(number));
            }
        }
        table.sort_codes()?;
        for (number, (namespace, version)) in (0..).zip(editions) {
            if table.edition_number(namespace, version).is_some() {
                return Err(TableError::EditionTwice { namespace: namespace.clone(), version: version.clone() });
            }
            let place = table.place_of(namespace);
            table.editions.push((place, version.clone()));
            if let Some(numbered) = table.vocabularies.get_mut(place as usize) {
                numbered.editions.push(EditionNumber(number));
            }
        }
        Ok(table)
    }

    /// Returns the table with further codes, which get the next numbers.
    ///
    /// # Errors
    /// Returns an error if a code already has a number.
    pub fn with_codes(&self, codes: &[CodeUri]) -> Result<Self, TableError> {
        let mut table = self.clone();
        for (number, uri) in (to_u32(self.codes.len())..).zip(codes) {
            let place = table.place_of(&uri.namespace);
            let code = uri.code.as_str();
            let numbers = table.numbers_in(&uri.namespace);
            let found = numbers.binary_search_by(|number| table.code(*number).cmp(code));
            let at = match found {
                Ok(at) => {
                    let first = numbers.get(at).map_or(number, |number| number.0);
                    return Err(TableError::CodeTwice { uri: uri.clone(), first, second: number });
                }
                Err(at) => at,
            };
            let span = table.texts.push(code);
            table.codes.push((place, span));
            if let Some(numbered) = table.vocabularies.get_mut(place as usize) {
                numbered.codes.insert(at, CodeNumber(number));
            }
        }
        Ok(table)
    }

    /// Returns the number of numbered codes. Every code number is below it.
    #[must_use]
    pub fn code_count(&self) -> usize {
        self.codes.len()
    }

    /// Returns true if another table assigns the same numbers to the same codes and editions, and no others.
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        let codes = |table: &Self| (0..to_u32(table.codes.len())).map(CodeNumber);
        let editions = |table: &Self| (0..to_u32(table.editions.len())).map(EditionNumber);
        (self.codes.len(), self.editions.len()) == (other.codes.len(), other.editions.len())
            && codes(self).all(|number| self.name(number) == other.name(number))
            && editions(self).all(|number| self.edition(number) == other.edition(number))
    }

    /// Returns the namespace and code of a number.
    #[must_use]
    pub fn name(&self, number: CodeNumber) -> Option<(&Namespace, &str)> {
        let (place, span) = self.codes.get(number.0 as usize)?;
        let numbered = self.vocabularies.get(*place as usize)?;
        Some((&numbered.namespace, self.texts.get(*span)))
    }

    /// Returns the URI of a number.
    #[must_use]
    pub fn uri(&self, number: CodeNumber) -> Option<CodeUri> {
        let (namespace, code) = self.name(number)?;
        CodeUri::from_parts(namespace.as_str(), code).ok()
    }

    /// Returns the number of a code.
    #[must_use]
    pub fn number(&self, uri: &CodeUri) -> Option<CodeNumber> {
        self.number_of(&uri.namespace, uri.code.as_str())
    }

    /// Returns the number of a code by namespace and code.
    #[must_use]
    pub fn number_of(&self, namespace: &Namespace, code: &str) -> Option<CodeNumber> {
        let codes = &self.numbered(namespace)?.codes;
        let found = codes.binary_search_by(|number| self.code(*number).cmp(code)).ok()?;
        codes.get(found).copied()
    }

    /// Returns every number of a namespace, in the order of codes.
    #[must_use]
    pub fn numbers_in(&self, namespace: &Namespace) -> &[CodeNumber] {
        self.numbered(namespace).map_or(&[], |numbered| &numbered.codes)
    }

    /// Returns the vocabulary and version of an edition.
    #[must_use]
    pub fn edition(&self, number: EditionNumber) -> Option<(&Namespace, &str)> {
        let (place, version) = self.editions.get(number.0 as usize)?;
        let numbered = self.vocabularies.get(*place as usize)?;
        Some((&numbered.namespace, version))
    }

    /// Returns the number of a version of a vocabulary.
    #[must_use]
    pub fn edition_number(&self, namespace: &Namespace, version: &str) -> Option<EditionNumber> {
        let editions = self.numbered(namespace)?.editions.iter().copied();
        editions.into_iter().find(|number| self.edition(*number).is_some_and(|(_, known)| known == version))
    }

    fn code(&self, number: CodeNumber) -> &str {
        self.codes.get(number.0 as usize).map_or("", |(_, span)| self.texts.get(*span))
    }

    fn numbered(&self, namespace: &Namespace) -> Option<&Numbered> {
        self.vocabularies.get(*self.places.get(namespace)? as usize)
    }

    fn place_of(&mut self, namespace: &Namespace) -> u32 {
        if let Some(place) = self.places.get(namespace) {
            return *place;
        }
        let place = to_u32(self.vocabularies.len());
        self.vocabularies.push(Numbered { namespace: namespace.clone(), codes: Vec::new(), editions: Vec::new() });
        self.places.insert(namespace.clone(), place);
        place
    }

    fn sort_codes(&mut self) -> Result<(), TableError> {
        for place in 0..self.vocabularies.len() {
            let Some(numbered) = self.vocabularies.get_mut(place) else { continue };
            let mut codes = std::mem::take(&mut numbered.codes);
            codes.sort_by(|one, other| self.code(*one).cmp(self.code(*other)));
            let twice = codes.array_windows().find(|[one, other]| self.code(*one) == self.code(*other)).copied();
            if let Some([first, second]) = twice
                && let Some(uri) = self.uri(first)
            {
                return Err(TableError::CodeTwice { uri, first: first.0, second: second.0 });
            }
            if let Some(numbered) = self.vocabularies.get_mut(place) {
                numbered.codes = codes;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> CodeUri {
        CodeUri::parse(text).unwrap()
    }

    fn table(codes: &[&str]) -> Result<CodeTable, TableError> {
        let codes: Vec<CodeUri> = codes.iter().map(|code| uri(code)).collect();
        let urn_b = Namespace::parse("urn:b").unwrap();
        CodeTable::new(&codes, &[(urn_b.clone(), "1".to_owned()), (urn_b, "2".to_owned())])
    }

    #[test]
    fn answers_both_ways() {
        let table = table(&["urn:b#z", "urn:a#10", "urn:b#y", "urn:a#9"]).unwrap();
        for (number, text) in (0..).zip(["urn:b#z", "urn:a#10", "urn:b#y", "urn:a#9"]) {
            assert_eq!(table.number(&uri(text)), Some(CodeNumber(number)));
            assert_eq!(table.uri(CodeNumber(number)), Some(uri(text)));
        }
        assert_eq!(table.number(&uri("urn:a#z")), None);
        assert_eq!(table.number(&uri("urn:c#z")), None);
        assert_eq!(table.uri(CodeNumber(4)), None);
        assert_eq!(table.numbers_in(&uri("urn:b#z").namespace), [CodeNumber(2), CodeNumber(0)]);
    }

    #[test]
    fn numbers_editions() {
        let table = table(&[]).unwrap();
        let urn_b = Namespace::parse("urn:b").unwrap();
        assert_eq!(table.edition_number(&urn_b, "2"), Some(EditionNumber(1)));
        assert_eq!(table.edition_number(&urn_b, "3"), None);
        assert_eq!(table.edition(EditionNumber(0)), Some((&urn_b, "1")));
        assert_eq!(table.edition(EditionNumber(2)), None);
    }

    #[test]
    fn refuses_two_numbers_for_one_code() {
        let error = table(&["urn:b#z", "urn:a#z", "urn:b#z"]).unwrap_err();
        assert_eq!(error, TableError::CodeTwice { uri: uri("urn:b#z"), first: 0, second: 2 });
        let edition = (Namespace::parse("urn:a").unwrap(), "1".to_owned());
        let error = CodeTable::new(&[], &[edition.clone(), edition]).unwrap_err();
        assert!(matches!(error, TableError::EditionTwice { version, .. } if version == "1"));
    }
}
