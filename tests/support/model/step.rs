//! One operation of a generated sequence. Names are small numbers, so that operations meet: the same identifier, the
//! same group, the same idempotency key.

use crate::support::dice::Dice;

/// Number of values of identifiers of individuals.
pub(super) const VALUES: u8 = 8;
/// Number of groups.
pub(super) const GROUPS: u8 = 3;
/// Number of family names, and of dates of birth.
pub(super) const NAMES: u8 = 3;
const KEYS: u64 = 6;
/// Number of pauses before a kill.
const PAUSES: u64 = 100;
/// Steps of the clock in minutes: forward, and back.
const MINUTES: [i16; 2 * NAMES as usize] = [61, 427, 1_501, -61, -427, -1_380];

/// The precondition of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// None.
    Any,
    /// `If-Match` with the version that the record has.
    Current,
    /// `If-Match` with a version that it never had.
    Stale,
}

/// An operation. `value` is an identifier of an individual, `key` an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the operands that each operation names")]
pub enum Step {
    /// Creates an individual.
    Register { value: u8, born: u8, key: Option<u8> },
    /// Replaces an individual, with the identifiers that it has and without a name.
    Replace { value: u8, born: u8, condition: Condition },
    /// Changes the name of an individual.
    Rename { value: u8, name: u8, condition: Condition },
    /// Adds an identifier to an individual.
    AddIdentifier { value: u8, more: u8 },
    /// Ends an identifier of an individual.
    EndIdentifier { value: u8, ended: u8 },
    /// Creates a group with two members; the first is its head.
    CreateGroup { group: u8, head: u8, other: u8 },
    /// Adds a member to a group.
    AddMember { group: u8, value: u8, is_head: bool, key: Option<u8> },
    /// Ends a membership in a group.
    RemoveMember { group: u8, value: u8 },
    /// Enrols an individual in the program.
    Enrol { value: u8, key: Option<u8> },
    /// Ends the enrolment of an individual.
    Exit { value: u8 },
    /// Creates two individuals in one transaction.
    Transaction { first: u8, second: u8, key: Option<u8> },
    /// Records a consent of an individual to the organization, valid for this number of days after today.
    Consent { value: u8, days: u8 },
    /// Withdraws one of the recorded consents.
    Withdraw { nth: u8 },
    /// Sends so many requests as each client with small limits.
    Spend { count: u8 },
    /// Installs the other version of a plugin.
    Swap,
    /// Lets time pass, or sets the clock back by a negative number of minutes, if the test sets the clock.
    Pass { minutes: i16 },
    /// Sends later requests to another server.
    Use { server: u8 },
    /// Stops a server as a service manager does, and starts it again.
    Restart,
    /// Kills a server while it creates individuals, enrols the individual and adds it to the group, and starts it
    /// again. The pause before the kill is in tenths of a millisecond.
    Kill { group: u8, value: u8, pause: u8 },
}

impl Step {
    /// Its idempotency key.
    pub(super) fn key(self) -> Option<u8> {
        match self {
            Self::Register { key, .. }
            | Self::AddMember { key, .. }
            | Self::Enrol { key, .. }
            | Self::Transaction { key, .. } => key,
            _ => None,
        }
    }

    /// The next operation of a sequence.
    pub(super) fn random(dice: &mut Dice) -> Self {
        let mut below = |limit: u64| u8::try_from(dice.below(limit)).expect("small numbers");
        let (kind, value, other) = (below(100), below(VALUES.into()), below(VALUES.into()));
        let (group, small, coin) = (below(GROUPS.into()), below(NAMES.into()), below(2) == 0);
        let key = (below(3) == 0).then(|| below(KEYS));
        let condition = [Condition::Any, Condition::Any, Condition::Current, Condition::Stale][usize::from(below(4))];
        match kind {
            0..20 => Self::Register { value, born: small, key },
            20..28 => Self::Replace { value, born: small, condition },
            28..35 => Self::Rename { value, name: small, condition },
            35..42 => Self::AddIdentifier { value, more: other },
            42..48 => Self::EndIdentifier { value, ended: if coin { value } else { other } },
            48..53 => Self::CreateGroup { group, head: value, other },
            53..61 => Self::AddMember { group, value, is_head: coin, key },
            61..66 => Self::RemoveMember { group, value },
            66..73 => Self::Enrol { value, key },
            73..77 => Self::Exit { value },
            77..82 => Self::Transaction { first: value, second: other, key },
            82..86 => Self::Consent { value, days: small },
            86..89 => Self::Withdraw { nth: value },
            89..91 => Self::Spend { count: 1 + other },
            91..92 => Self::Swap,
            92..95 => Self::Pass { minutes: MINUTES[usize::from(small) + if coin { 0 } else { usize::from(NAMES) }] },
            95..97 => Self::Use { server: small },
            97..98 => Self::Restart,
            _ => Self::kill(dice),
        }
    }

    /// A kill during some requests.
    pub(super) fn kill(dice: &mut Dice) -> Self {
        let mut below = |limit: u64| u8::try_from(dice.below(limit)).expect("small numbers");
        Self::Kill { group: below(GROUPS.into()), value: below(VALUES.into()), pause: below(PAUSES) }
    }
}
