//! A registry in PostgreSQL, which several processes can share.

pub mod index;
