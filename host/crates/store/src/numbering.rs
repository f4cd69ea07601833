//! Assigns numbers to codes and vocabulary versions.
//!
//! **Invariant:** append-only: a code keeps its number, and no number is assigned twice.
//!
//! **Invariant:** computing numbers changes nothing; only [`Numbering::apply`] does, with numbers that are stored or
//! about to be.

use std::collections::HashMap;

use daftar_domain::code::{Code, CodeNumber, CodeUri, EditionNumber, Namespace};

use super::{NewCodes, StoreError, StoredCodeTable};

/// Maximum number of numbered codes; the numbers beyond are free for markers such as "no code".
pub const CODES_MAX: u32 = 1 << 24;

/// The assigned numbers.
#[derive(Debug, Default)]
pub struct Numbering {
    codes: HashMap<Namespace, HashMap<Code, u32>>,
    code_count: u32,
    editions: HashMap<(Namespace, String), u32>,
}

/// Result of a request for numbers.
#[derive(Debug, Default)]
pub struct Numbered {
    /// The requested numbers, in order.
    pub codes: Vec<CodeNumber>,
    /// The requested numbers, in order.
    pub editions: Vec<EditionNumber>,
    /// The newly numbered codes and vocabulary versions, in the order of the numbers.
    pub added: StoredCodeTable,
}

impl Numbering {
    /// Applies numbers, in order: stored ones, or [`Numbered::added`].
    pub fn apply(&mut self, numbered: StoredCodeTable) {
        for uri in numbered.codes {
            self.codes.entry(uri.namespace).or_default().insert(uri.code, self.code_count);
            self.code_count = self.code_count.saturating_add(1);
        }
        for edition in numbered.editions {
            let next = self.next_edition();
            self.editions.insert(edition, next);
        }
    }

    /// Looks up numbers, and computes missing ones. They are assigned when [`Numbered::added`] is applied.
    ///
    /// # Errors
    /// [`StoreError::LimitReached`] if there would be more than [`CODES_MAX`].
    pub fn number(&self, codes: Vec<CodeUri>, editions: Vec<(Namespace, String)>) -> Result<Numbered, StoreError> {
        let room = CODES_MAX.saturating_sub(self.code_count.max(self.next_edition()));
        if codes.len().max(editions.len()) > room as usize {
            return Err(StoreError::LimitReached("the table of codes is full"));
        }
        let mut numbered = Numbered::default();
        let (mut new_codes, mut next_code) = (HashMap::new(), self.code_count);
        for uri in codes {
            let known = self.codes.get(&uri.namespace).and_then(|codes| codes.get(&uri.code)).copied();
            let number = known.or_else(|| new_codes.get(&uri).copied()).unwrap_or_else(|| {
                let number = next_code;
                next_code = next_code.saturating_add(1);
                new_codes.insert(uri.clone(), number);
                numbered.added.codes.push(uri);
                number
            });
            numbered.codes.push(CodeNumber(number));
        }
        let (mut new_editions, mut next_edition) = (HashMap::new(), self.next_edition());
        for edition in editions {
            let known = self.editions.get(&edition).or_else(|| new_editions.get(&edition)).copied();
            let number = known.unwrap_or_else(|| {
                let number = next_edition;
                next_edition = next_edition.saturating_add(1);
                new_editions.insert(edition.clone(), number);
                numbered.added.editions.push(edition);
                number
            });
            numbered.editions.push(EditionNumber(number));
        }
        Ok(numbered)
    }

    /// Returns the codes that are numbered with a write, in the order of the numbers.
    ///
    /// # Errors
    /// [`StoreError::Overtaken`] if the numbers are not the next ones, or a code has one; [`StoreError::LimitReached`].
    pub fn of_write(&self, new_codes: &[NewCodes]) -> Result<Vec<CodeUri>, StoreError> {
        let mut codes: Vec<CodeUri> = Vec::new();
        for new in new_codes {
            let next = u32::try_from(codes.len()).unwrap_or(CODES_MAX).saturating_add(self.code_count);
            if new.first != CodeNumber(next) {
                return Err(StoreError::Overtaken);
            }
            codes.extend(new.codes.iter().cloned());
        }
        let requested = codes.len();
        let numbered = self.number(codes, Vec::new())?;
        if numbered.added.codes.len() == requested { Ok(numbered.added.codes) } else { Err(StoreError::Overtaken) }
    }

    fn next_edition(&self) -> u32 {
        u32::try_from(self.editions.len()).unwrap_or(CODES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_assigned_only_when_applied() {
        let mut numbering = Numbering::default();
        let codes = |texts: &[&str]| texts.iter().map(|text| CodeUri::parse(text).unwrap()).collect::<Vec<_>>();
        let edition = |version: &str| (Namespace::parse("urn:x").unwrap(), version.to_owned());
        let forgotten = numbering.number(codes(&["urn:x#a", "urn:x#b"]), vec![edition("1")]).unwrap();
        assert_eq!(forgotten.codes, [CodeNumber(0), CodeNumber(1)]);
        let stored = numbering.number(codes(&["urn:x#b", "urn:x#b"]), vec![edition("2"), edition("2")]).unwrap();
        assert_eq!(stored.codes, [CodeNumber(0), CodeNumber(0)]);
        assert_eq!(stored.editions, [EditionNumber(0), EditionNumber(0)]);
        assert_eq!((stored.added.codes.len(), stored.added.editions.len()), (1, 1));
        numbering.apply(stored.added);
        let next = numbering.number(codes(&["urn:x#a", "urn:x#b"]), vec![edition("1"), edition("2")]).unwrap();
        assert_eq!(next.codes, [CodeNumber(1), CodeNumber(0)]);
        assert_eq!(next.editions, [EditionNumber(1), EditionNumber(0)]);
    }
}
