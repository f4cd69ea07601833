//! The tables of codes and editions.
//!
//! **Invariant:** numbers are assigned in order from 0 on and rows are never changed. Codes that got numbers together
//! are one part; the row `daftar.last` counts the parts.

use std::collections::BTreeMap;

use tokio_postgres::Row;

use daftar_domain::code::{CodeUri, Namespace};
use daftar_store::record::code_table::encode_parts;
use daftar_store::record::json::CodeNames;
use daftar_store::{StoreError, StoredCodeTable};

use super::failure::corrupt;
use super::rows::{column, number, signed};

/// Codes and editions of parts from `$1` on and before `$2`: `is_edition`, number, vocabulary, code or edition, part.
pub(super) const PARTS: &str = "SELECT false, number, system, code, part FROM daftar.code WHERE part >= $1 AND part < $2 \
                                UNION ALL \
                                SELECT true, number, system, edition, part FROM daftar.edition WHERE part >= $1 AND part < $2 \
                                ORDER BY 5, 1, 2";

/// A row of one of the tables.
#[derive(Debug)]
pub(super) struct CodeRow {
    pub(super) number: i64,
    pub(super) system: String,
    pub(super) text: String,
    pub(super) part: i64,
}

/// New rows of both tables.
#[derive(Debug, Default)]
pub(super) struct CodeRows {
    pub(super) codes: Vec<CodeRow>,
    pub(super) editions: Vec<CodeRow>,
}

impl CodeRows {
    /// True if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.codes.is_empty() && self.editions.is_empty()
    }

    /// Adds a part, whose first code and edition get these numbers.
    pub(super) fn add(&mut self, part: u64, (codes, editions): (usize, usize), added: &StoredCodeTable) {
        let row = |number: u64, system: &Namespace, text: &str| CodeRow {
            number: signed(number),
            system: system.as_str().to_owned(),
            text: text.to_owned(),
            part: signed(part),
        };
        let uris = (codes as u64..).zip(&added.codes);
        self.codes.extend(uris.map(|(number, uri)| row(number, &uri.namespace, uri.code.as_str())));
        let names = (editions as u64..).zip(&added.editions);
        self.editions.extend(names.map(|(number, (system, edition))| row(number, system, edition)));
    }

    /// Adds codes and editions in the parts that every store uses, from that part on. Returns the number of parts.
    pub(super) fn add_parts(
        &mut self,
        first: u64,
        names: &mut CodeNames,
        added: &StoredCodeTable,
    ) -> Result<u64, StoreError> {
        let mut parts = 0;
        for value in encode_parts(added)? {
            let part = daftar_store::record::code_table::decode(&value)?;
            self.add(first.saturating_add(parts), names.counts(), &part);
            names.apply(&part);
            parts += 1;
        }
        Ok(parts)
    }
}

/// The parts of rows of [`PARTS`], by number.
pub(super) fn parts_of(rows: &[Row]) -> Result<BTreeMap<u64, StoredCodeTable>, StoreError> {
    let mut parts: BTreeMap<u64, StoredCodeTable> = BTreeMap::new();
    // Of codes and of editions: the number after the last.
    let mut next: [Option<u64>; 2] = [None, None];
    for row in rows {
        let (is_edition, at) = (column::<bool>(row, 0)?, number(row, 1)?);
        let [code, edition] = &mut next;
        let next = if is_edition { edition } else { code };
        if next.is_some_and(|next| next != at) {
            return Err(corrupt("code table", "a number before it is missing"));
        }
        *next = Some(at.saturating_add(1));
        let (system, text): (&str, &str) = (column(row, 2)?, column(row, 3)?);
        let part = parts.entry(number(row, 4)?).or_default();
        if is_edition {
            let system = Namespace::parse(system).map_err(|_| corrupt("code table", "a vocabulary is none"))?;
            part.editions.push((system, text.to_owned()));
        } else {
            let uri = CodeUri::from_parts(system, text).map_err(|_| corrupt("code table", "a code is none"))?;
            part.codes.push(uri);
        }
    }
    Ok(parts)
}
