//! The generic pack: any vocabulary that consists of data only.
//!
//! This crate is built once into a core module without codes. The pack builder of the server instantiates that module,
//! reserves memory with [`RESERVE_EXPORT`], writes a *blob* there, and uses the resulting memory as the initial memory
//! of a new module. So a pack starts with its data in place: nothing is parsed or allocated at start, and a call reads
//! only its part of the blob. The finished pack no longer exports `reserve`.
//!
//! # The blob, format 1
//!
//! Integers of the header (`frame`) are `u32`, little-endian. Everything else consists of *numbers* (unsigned LEB128,
//! at most 32 bits), *texts* (a number of bytes, then UTF-8), *lists* (a number of items, then the items) and *options*
//! (a number, 0 or 1, then the value if 1). Offsets count from the start of the blob.
//!
//! ```text
//! frame       magic "DFTRCODE" (8 bytes) | format u32 = 1 | length of the whole blob u32
//!             | offset of the concept groups u32 | number of vocabularies u32 | offset of each vocabulary u32 …
//! vocabulary  number of concepts u32 | offset of each concept u32 … | namespace, name, domain, version, source,
//! licence,
//!             attribution: texts | languages: list of texts, the default language first
//!             | completeness: number (0 full, 1 fragment, 2 empty)
//!             | flags: number (1 hierarchical, 2 open, 4 system, 8 extensible)
//! concept     code: text | flags: number (1 active, 2 selectable) | parents: list of texts | replaced-by: option of
//! text
//!             | labels: list of (index of the language: number, text) | definitions: likewise | aliases: list of texts
//!             | uri: option of text | properties: list of (key, value: texts)
//! groups      list of (name, description: texts, includes, excludes: lists of (0 code or 1 descendants-of: number,
//! text))
//! ```
//!
//! Vocabularies and concepts keep the order of their source, which is the order of the pages.
//!
//! **Invariant:** the pack builder writes and checks the blob; one that cannot be read means a broken pack, and the
//! call traps.
//! **Invariant:** no state changes after the snapshot: the same call returns the same response.

pub mod blob;

#[cfg(target_arch = "wasm32")]
mod guest;

/// The function that reserves memory for the blob: `(length: i32) -> i32`, the address. Called once, at build time.
pub const RESERVE_EXPORT: &str = "daftar-codelist-reserve";
