//! Making plugins, for the command line: the folder that an author begins with, and from such a folder to a plugin.

mod build;
mod scaffold;

pub use build::{BuiltPlugin, build, wrap};
pub use scaffold::{files, kind_of, write};
