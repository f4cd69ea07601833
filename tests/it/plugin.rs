//! Plugins: the packs that are loaded by default, one that comes and goes, packs that lie, open vocabularies, and plugins made
//! from nothing.

mod lying;
mod open;
mod optional;
mod packs;
mod scaffold;
