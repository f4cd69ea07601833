//! Tests of the source format and the builder, from the folder to the responses of the built component.

mod answers;
mod folder;
mod golden;
mod problems;
mod rebuild;
mod shipped;
