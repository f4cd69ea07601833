//! Plugins: the packs that are loaded by default, one that comes and goes, packs that lie, who vouches for a plugin, components
//! made to blow up the compiler, and a server that is killed while plugins change.

mod compile_bomb;
mod crash;
mod lying;
mod optional;
mod packs;
mod signing;
