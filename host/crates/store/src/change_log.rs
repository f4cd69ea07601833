//! The change log: the records changed by each write, in order. Caches and indexes apply the changes since their own
//! state.

use std::fmt;

use sha2::{Digest, Sha256};

use daftar_domain::change::Sequence;
use daftar_domain::record::{RecordId, RecordKind};

/// Maximum number of changes that one call returns.
pub const CHANGES_MAX: usize = 10_000;

/// The records changed by a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// Its sequence number.
    pub sequence: Sequence,
    /// The created or changed records, in order; a record may be repeated. Empty for a write of other data.
    pub records: Vec<(RecordKind, RecordId)>,
}

/// The id of a register, random for each new store. A register restored from a backup has a new id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisterId(pub [u8; 16]);

impl RegisterId {
    /// Generates the id of a new register.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "a store is created below `IdSource`, and no two registers may share an id"
    )]
    pub fn draw() -> Self {
        Self(uuid::Uuid::new_v4().into_bytes())
    }

    /// Parses the displayed form.
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
    /// Formats 32 hexadecimal digits.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// Digest that identifies the history of a register up to a write: it differs for another register, and for a copy that
/// diverged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryMark(pub [u8; 32]);

impl HistoryMark {
    /// The mark of a write of that register, computed from its stored value.
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
