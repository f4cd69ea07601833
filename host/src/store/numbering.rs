//! Gives codes and editions their numbers.
//!
//! **Invariant:** append-only: a code keeps the number it once got, and no number is given twice.

use std::collections::HashMap;

use crate::domain::code::{Code, CodeNumber, CodeUri, EditionNumber, Namespace};

use super::{StoreError, StoredCodeTable};

/// The most codes that are ever numbered; the numbers beyond stay free for marks such as "no code".
pub(super) const CODES_MAX: u32 = 1 << 24;

/// Which numbers are given.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    codes: HashMap<Namespace, HashMap<Code, u32>>,
    code_count: u32,
    editions: HashMap<(Namespace, String), u32>,
}

/// What one request for numbers came to.
#[derive(Debug, Default)]
pub(super) struct Numbered {
    /// The numbers asked for, in order.
    pub codes: Vec<CodeNumber>,
    /// The numbers asked for, in order.
    pub editions: Vec<EditionNumber>,
    /// What got its number just now, in the order of the numbers.
    pub added: StoredCodeTable,
}

impl Numbering {
    /// Takes up what is stored, in the order of the numbers.
    pub(super) fn restore(&mut self, stored: StoredCodeTable) {
        for uri in stored.codes {
            self.codes.entry(uri.namespace).or_default().insert(uri.code, self.code_count);
            self.code_count = self.code_count.saturating_add(1);
        }
        for edition in stored.editions {
            let next = self.next_edition();
            self.editions.insert(edition, next);
        }
    }

    /// Finds or gives numbers.
    ///
    /// # Errors
    /// [`StoreError::LimitReached`] when there would be more than [`CODES_MAX`]; nothing is numbered then.
    pub(super) fn number(
        &mut self,
        codes: Vec<CodeUri>,
        editions: Vec<(Namespace, String)>,
    ) -> Result<Numbered, StoreError> {
        let room = CODES_MAX.saturating_sub(self.code_count.max(self.next_edition()));
        if codes.len().max(editions.len()) > room as usize {
            return Err(StoreError::LimitReached("the table of codes is full"));
        }
        let mut numbered = Numbered::default();
        for uri in codes {
            let known = self.codes.get(&uri.namespace).and_then(|codes| codes.get(&uri.code)).copied();
            let number = known.unwrap_or(self.code_count);
            if known.is_none() {
                self.code_count = self.code_count.saturating_add(1);
                self.codes.entry(uri.namespace.clone()).or_default().insert(uri.code.clone(), number);
                numbered.added.codes.push(uri);
            }
            numbered.codes.push(CodeNumber(number));
        }
        for edition in editions {
            let known = self.editions.get(&edition).copied();
            let number = known.unwrap_or_else(|| self.next_edition());
            if known.is_none() {
                self.editions.insert(edition.clone(), number);
                numbered.added.editions.push(edition);
            }
            numbered.editions.push(EditionNumber(number));
        }
        Ok(numbered)
    }

    fn next_edition(&self) -> u32 {
        u32::try_from(self.editions.len()).unwrap_or(CODES_MAX)
    }
}
