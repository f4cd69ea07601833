//! What happens to every request and answer.

pub mod answer;
mod shown;
pub mod trail;
