//! The source format and the builder, from the folder to the answers of the built component.

mod answers;
mod folder;
mod golden;
mod problems;
mod rebuild;
mod shipped;
