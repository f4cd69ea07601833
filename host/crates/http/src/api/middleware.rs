//! Layers around every request and response.

pub mod audit;
pub mod entrance;
pub mod response;
pub mod shown;
