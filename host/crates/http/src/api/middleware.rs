//! What happens to every request and answer.

pub mod answer;
pub mod caller;
mod cors;
pub(super) mod entrance;
pub mod shown;
mod trace;
pub mod trail;
