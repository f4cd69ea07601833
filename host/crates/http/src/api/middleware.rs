//! What happens to every request and answer.

pub mod audit;
pub mod entrance;
pub mod response;
pub mod shown;
