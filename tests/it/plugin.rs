//! Plugins: the packs that are loaded by default, one that is installed and removed, malicious packs, open
//! vocabularies, trust in a plugin, components that exhaust the compiler, an engine
//! that is compiled while the server serves, files that are not plugins, plugins replaced
//! under load, a server that is killed while plugins change, and plugins built from a scaffold.

mod chatty;
mod compile_bomb;
mod compiling;
mod crash;
mod failing;
mod hostile_files;
mod hot_swap;
mod local;
mod lying;
mod metrics;
mod open;
mod optional;
mod packs;
mod review;
mod rollback;
mod scaffold;
mod signing;
