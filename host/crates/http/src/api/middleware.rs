//! What happens to every request and answer.

pub mod response;
pub mod entrance;
pub mod shown;
pub mod audit;
