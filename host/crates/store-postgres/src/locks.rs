//! The numbers of advisory locks, each of which stands for one thing over all processes of a database.

/// Held while tables are changed: `daftar` in ASCII. The others count on from it.
pub(super) const TABLES: i64 = 0x6461_6674_6172;
/// Held while plugins or settings are changed.
pub(super) const TURN: i64 = TABLES + 1;
/// Held by who sums up the audit log.
pub(super) const AUDIT_SUMS: i64 = TABLES + 2;
