//! Plugins: the packs that are loaded by default, one that comes and goes, and packs that lie.

mod lying;
mod optional;
mod packs;
