//! What happens to every request and answer.

pub mod answer;
pub mod trail;
