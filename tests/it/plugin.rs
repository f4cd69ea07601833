//! Plugins: the packs that are loaded by default, one that comes and goes, packs that lie, and open vocabularies.

mod lying;
mod open;
mod optional;
mod packs;
