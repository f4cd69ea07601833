//! Plugins: an optional pack from its installation to its removal, and packs that lie.

mod lying;
mod optional;
