//! Vocabulary packs from plain files: the source format, its checks, and the builder.

pub mod section;
