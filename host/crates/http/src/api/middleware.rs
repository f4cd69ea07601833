//! What happens to every request and answer.

pub mod answer;
pub mod entrance;
pub mod shown;
pub mod trail;
