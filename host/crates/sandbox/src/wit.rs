//! The versions of the plugin interface that this host speaks.
//!
//! The rest of the host speaks domain types only. A version has a module that translates between those and the types generated for
//! it. There is one version. An older one gets a module beside it that delegates to the newest, and a case in [`InterfaceVersion`].
//!
//! **Invariant:** what comes out of a guest passes through one of these modules, where it is bounded and becomes domain types.
//! **Invariant:** every text and every list has a bound, and a complaint names the field and shows only the beginning of what
//! was there.

mod v0_1;

use v0_1 as latest;
use wasmtime::Engine;
use wasmtime::component::{Component, Linker};

pub(super) use self::latest::eligibility::{Linked as LinkedEngine, Rules};
pub(super) use self::latest::vocabulary::{Linked as LinkedPack, Pack};
use super::sandbox::HostState;
use crate::fault::excerpt;
use crate::sandbox::CallError;
use daftar_domain::manifest::{PluginKind, PluginVersion};
use daftar_domain::vocabulary::Concept;

/// A version of the plugin interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InterfaceVersion {
    V0_1_0,
}

impl InterfaceVersion {
    /// Every version that this host speaks, the newest first.
    pub const SPOKEN: [Self; 1] = [Self::V0_1_0];

    /// The version of that number, if this host speaks it.
    pub fn of(number: PluginVersion) -> Option<Self> {
        Self::SPOKEN.into_iter().find(|version| version.number() == number)
    }

    /// Its number.
    pub const fn number(self) -> PluginVersion {
        match self {
            Self::V0_1_0 => PluginVersion::new(0, 1, 0),
        }
    }

    /// The interface that a plugin of that kind must export.
    pub const fn export(self, kind: PluginKind) -> &'static str {
        match (self, kind) {
            (Self::V0_1_0, PluginKind::VocabularyPack) => "daftar:plugin/vocabulary@0.1.0",
            (Self::V0_1_0, PluginKind::EligibilityEngine) => "daftar:plugin/eligibility@0.1.0",
        }
    }

    /// The imports that hold types only, which every plugin may name: they give it nothing to call.
    pub const fn type_imports(self) -> &'static [&'static str] {
        match self {
            Self::V0_1_0 => &[
                "daftar:plugin/schema@0.1.0",
                "daftar:plugin/columns@0.1.0",
                "daftar:plugin/vocabulary@0.1.0",
                "daftar:plugin/eligibility@0.1.0",
            ],
        }
    }

    /// The imports with functions that the host links for that kind: a plugin's rights.
    pub const fn granted_imports(self, kind: PluginKind) -> &'static [&'static str] {
        match (self, kind) {
            (Self::V0_1_0, PluginKind::VocabularyPack | PluginKind::EligibilityEngine) => &["daftar:plugin/log@0.1.0"],
        }
    }
}

/// A compiled plugin with its imports linked, ready to be instantiated.
#[derive(Clone)]
pub(super) enum Linked {
    Pack(LinkedPack),
    Engine(LinkedEngine),
}

/// Links a component as a plugin of that kind.
///
/// # Errors
/// It imports what is not linked, or lacks an export.
pub(super) fn link(
    version: InterfaceVersion,
    kind: PluginKind,
    engine: &Engine,
    component: &Component,
) -> wasmtime::Result<Linked> {
    let mut linker = Linker::<HostState>::new(engine);
    for import in version.type_imports() {
        linker.instance(import)?;
    }
    let InterfaceVersion::V0_1_0 = version;
    latest::link(&mut linker)?;
    let pre = linker.instantiate_pre(component)?;
    Ok(match kind {
        PluginKind::VocabularyPack => Linked::Pack(LinkedPack::new(pre)?),
        PluginKind::EligibilityEngine => Linked::Engine(LinkedEngine::new(pre)?),
    })
}

/// Some concepts and where to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConceptPage {
    pub concepts: Vec<Concept>,
    pub next: Option<u32>,
}

/// A rule inside an instance.
#[derive(Debug, Clone, Copy)]
pub(super) struct RuleHandle(wasmtime::component::ResourceAny);

/// What an engine says about a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answered<T> {
    /// What was asked for.
    Answer(T),
    /// The rule needs more than that budget of the engine's own.
    Exhausted(EngineBudget),
}

/// A budget of an engine's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EngineBudget {
    /// The engine's name for it.
    pub name: String,
    /// How large it is.
    pub allowed: u64,
}

/// Where in an answer a value stands, such as `concept "BR": labels`. Made only when something is wrong.
type Place<'a> = &'a dyn Fn() -> String;

/// An answer that breaks the interface.
fn invalid(place: Place<'_>, reason: impl std::fmt::Display) -> CallError {
    CallError::InvalidAnswer(format!("{}: {reason}", excerpt(&place())))
}

/// A text of at most that many bytes, without control characters.
fn text(value: String, bytes_max: usize, place: Place<'_>) -> Result<String, CallError> {
    if value.len() > bytes_max {
        let (length, shown) = (value.len(), excerpt(value.get(..40).unwrap_or_default()));
        return Err(invalid(place, format_args!("a text of {length} bytes, at most {bytes_max} are read: `{shown}`")));
    }
    // Line breaks and tabs occur in definitions; nothing else below a blank has a meaning in a label or a message.
    let is_foreign = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if value.contains(is_foreign) {
        return Err(invalid(place, format_args!("a control character in the text `{}`", excerpt(&value))));
    }
    Ok(value)
}

/// A text as above that says something.
fn filled(value: String, bytes_max: usize, place: Place<'_>) -> Result<String, CallError> {
    if value.trim().is_empty() {
        return Err(invalid(place, "the text is empty"));
    }
    text(value, bytes_max, place)
}

/// A list of at most that many items, each read by `read`.
fn list<T, U>(
    items: Vec<T>,
    count_max: usize,
    place: Place<'_>,
    mut read: impl FnMut(T) -> Result<U, CallError>,
) -> Result<Vec<U>, CallError> {
    if items.len() > count_max {
        return Err(invalid(place, format_args!("a list of {} items, at most {count_max} are read", items.len())));
    }
    let mut read_items = Vec::with_capacity(items.len());
    for item in items {
        read_items.push(read(item)?);
    }
    Ok(read_items)
}

/// A name, code or URI, parsed into its type.
fn parsed<T, E: std::fmt::Display>(
    value: &str,
    place: Place<'_>,
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
    fn texts_are_bounded_by_bytes() {
        let place = || "name".to_owned();
        assert!(text("x".repeat(9), 10, &place).is_ok());
        assert!(text("x".repeat(10), 10, &place).is_ok());
        assert!(complaint(text("x".repeat(11), 10, &place)).starts_with("name: a text of 11 bytes"));
    }

    #[test]
    fn control_characters_are_refused_and_not_repeated() {
        let place = || "name".to_owned();
        let reason = complaint(text("a\u{1b}[2J".to_owned(), 10, &place));
        assert!(!reason.contains('\u{1b}'), "{reason}");
        assert!(text("two\nlines".to_owned(), 10, &place).is_ok());
    }

    #[test]
    fn an_empty_text_says_nothing() {
        assert!(complaint(filled(" \t".to_owned(), 10, &|| "label".to_owned())).contains("label: the text is empty"));
    }

    #[test]
    fn lists_are_bounded_by_items() {
        let place = || "labels".to_owned();
        assert!(list(vec![1, 2], 2, &place, Ok).is_ok());
        assert!(complaint(list(vec![1, 2, 3], 2, &place, Ok)).contains("labels: a list of 3 items"));
    }
}
