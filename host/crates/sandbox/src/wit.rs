//! The supported versions of the plugin interface.
//!
//! The rest of the host uses domain types only. Each kind of plugin has a module for each version, which converts
//! between those and its generated types. There is one version so far. An older one gets modules that delegate to the
//! newest, and a row in [`InterfaceVersion::SUPPORTED`].
//!
//! **Invariant:** every value from a guest passes through one of those modules, where its size is limited and it is
//! converted to domain types.
//! **Invariant:** every text and every list has a limit, and an error names the field and shows only the start of its
//! value.

pub(super) mod v0_1;

use v0_1 as latest;
use wasmtime::Engine;
use wasmtime::component::Linker;

use super::kind::{Linked, row};
use super::sandbox::HostState;
use crate::compile::{Compiled, DATA_IMPORT};
use crate::fault::excerpt;
use crate::sandbox::CallError;
use daftar_domain::manifest::{PluginKind, PluginVersion};

/// The package of the plugin interface.
const PACKAGE: &str = "daftar:plugin";

/// A version of the plugin interface: the exports that it requires, and the imports that it permits.
#[derive(Debug)]
pub(super) struct InterfaceVersion {
    pub number: PluginVersion,
    /// The interfaces that contain only types, beside those of the kinds.
    types: &'static [&'static str],
    /// The imports with functions that the host links: the rights of a plugin.
    pub granted_imports: &'static [&'static str],
}

impl InterfaceVersion {
    /// Every supported version, newest first.
    pub const SUPPORTED: &'static [Self] = &[Self {
        number: PluginVersion::new(0, 1, 0),
        types: &["schema", "columns"],
        granted_imports: &["daftar:plugin/log@0.1.0"],
    }];

    /// The version of that number, if it is supported.
    pub fn of(number: PluginVersion) -> Option<&'static Self> {
        Self::SUPPORTED.iter().find(|version| version.number == number)
    }

    /// The interface that a plugin of that kind must export.
    pub fn export(&self, kind: PluginKind) -> String {
        self.named(row(kind).interface)
    }

    /// The imports that contain only types, which every plugin may name: they are not callable.
    pub fn type_imports(&self) -> Vec<String> {
        let exported = PluginKind::ALL.map(|kind| row(kind).interface);
        self.types.iter().copied().chain(exported).map(|interface| self.named(interface)).collect()
    }

    fn named(&self, interface: &str) -> String {
        format!("{PACKAGE}/{interface}@{}", self.number)
    }
}

/// Links a component as a plugin of that kind.
///
/// # Errors
/// It has an import that is not linked, or lacks an export.
pub(super) fn link(
    version: &InterfaceVersion,
    kind: PluginKind,
    engine: &Engine,
    compiled: &Compiled,
) -> wasmtime::Result<Box<dyn Linked>> {
    let mut linker = Linker::<HostState>::new(engine);
    for import in version.type_imports() {
        linker.instance(&import)?;
    }
    latest::link(&mut linker)?;
    if let Some(data) = &compiled.data {
        linker.root().module(DATA_IMPORT, data)?;
    }
    (row(kind).link)(linker.instantiate_pre(&compiled.code.component)?)
}

/// Converts between enums with the same case names.
macro_rules! same {
    ($value:expr, $from:ty => $to:ident { $($case:ident),+ }) => {
        match $value { $(<$from>::$case => $to::$case),+ }
    };
}
pub(super) use same;

/// The position of a value in a response, such as `concept "BR": labels`. Formatted only for errors.
pub(super) type Position<'a> = &'a dyn std::fmt::Display;

/// The error of a response that breaks the interface.
pub(super) fn invalid(place: Position<'_>, reason: impl std::fmt::Display) -> CallError {
    CallError::InvalidAnswer(format!("{}: {reason}", excerpt(&place.to_string())))
}

/// Checks that a text has at most that many bytes and no control characters.
pub(super) fn text(value: String, bytes_max: usize, place: Position<'_>) -> Result<String, CallError> {
    if value.len() > bytes_max {
        let (length, shown) = (value.len(), excerpt(value.get(..40).unwrap_or_default()));
        return Err(invalid(
            place,
            format_args!("a text of {length} bytes exceeds the limit of {bytes_max}: `{shown}`"),
        ));
    }
    // Line breaks and tabs occur in definitions; other control characters have no meaning in a label or a message.
    let is_foreign = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if value.contains(is_foreign) {
        return Err(invalid(place, format_args!("a control character in the text `{}`", excerpt(&value))));
    }
    Ok(value)
}

/// Checks a text as above, and that it is not empty.
pub(super) fn filled(value: String, bytes_max: usize, place: Position<'_>) -> Result<String, CallError> {
    if value.trim().is_empty() {
        return Err(invalid(place, "the text is empty"));
    }
    text(value, bytes_max, place)
}

/// Converts a list of at most that many items with `read`.
pub(super) fn list<T, U>(
    items: Vec<T>,
    count_max: usize,
    place: Position<'_>,
    mut read: impl FnMut(T) -> Result<U, CallError>,
) -> Result<Vec<U>, CallError> {
    if items.len() > count_max {
        return Err(invalid(place, format_args!("a list of {} items exceeds the limit of {count_max}", items.len())));
    }
    let mut read_items = Vec::with_capacity(items.len());
    for item in items {
        read_items.push(read(item)?);
    }
    Ok(read_items)
}

/// Parses a name, code or URI into its type.
pub(super) fn parsed<T, E: std::fmt::Display>(
    value: &str,
    place: Position<'_>,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, CallError> {
    parse(value).map_err(|error| invalid(place, format_args!("`{}`: {error}", excerpt(value))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint<T: std::fmt::Debug>(result: Result<T, CallError>) -> String {
        match result {
            Err(CallError::InvalidAnswer(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn texts_are_limited_by_bytes() {
        let place = "name";
        assert!(text("x".repeat(9), 10, &place).is_ok());
        assert!(text("x".repeat(10), 10, &place).is_ok());
        assert!(complaint(text("x".repeat(11), 10, &place)).starts_with("name: a text of 11 bytes"));
    }

    #[test]
    fn control_characters_are_rejected_and_not_shown() {
        let place = "name";
        let reason = complaint(text("a\u{1b}[2J".to_owned(), 10, &place));
        assert!(!reason.contains('\u{1b}'), "{reason}");
        assert!(text("two\nlines".to_owned(), 10, &place).is_ok());
    }

    #[test]
    fn an_empty_text_is_rejected() {
        assert!(complaint(filled(" \t".to_owned(), 10, &"label")).contains("label: the text is empty"));
    }

    #[test]
    fn lists_are_limited_by_items() {
        let place = "labels";
        assert!(list(vec![1, 2], 2, &place, Ok).is_ok());
        assert!(complaint(list(vec![1, 2, 3], 2, &place, Ok)).contains("labels: a list of 3 items"));
    }
}
