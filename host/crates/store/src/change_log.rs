//! What writes touched, in their order: how whatever is derived from the records finds what has changed since it was made.

use std::fmt;

use sha2::{Digest, Sha256};

use daftar_domain::change::Sequence;
use daftar_domain::record::{RecordId, RecordKind};

/// The most writes that one look gives, whatever is asked.
pub const CHANGES_MAX: usize = 10_000;

/// What one write touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// Its place in the order of writes.
    pub sequence: Sequence,
    /// The records that it created or changed, in order; one may occur more than once. None, where it was about something else.
    pub records: Vec<(RecordKind, RecordId)>,
}

/// A register's own id, drawn when its store was made. A register that was restored from a backup is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisterId(pub [u8; 16]);

impl RegisterId {
    /// Draws the id of a new register.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "a store is made below `IdSource`, and no two registers may share an id"
    )]
    pub fn draw() -> Self {
        Self(uuid::Uuid::new_v4().into_bytes())
    }

    /// Reads an id as it is shown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_shown = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_shown {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(|number| Self(number.to_be_bytes()))
    }
}

impl fmt::Display for RegisterId {
    /// Shows 32 hexadecimal digits.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// What tells the history of one register up to one write from every other history: of another register, or of a copy that went
/// on by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryMark(pub [u8; 32]);

impl HistoryMark {
    /// The mark of a write of that register, from what is stored of it.
    pub fn new(register: RegisterId, sequence: Sequence, stored: &[u8]) -> Self {
        let digest = Sha256::new().chain_update(register.0).chain_update(sequence.0.to_be_bytes()).chain_update(stored);
        Self(digest.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_shown() {
        let id = RegisterId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(RegisterId::parse(&id.to_string()), Some(id));
        for text in ["", "0", "+0102030405060708090a0b0c0d0eff00", "000102030405060708090a0b0c0d0eff0"] {
            assert_eq!(RegisterId::parse(text), None, "{text}");
        }
    }
}
