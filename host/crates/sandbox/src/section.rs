//! The manifest of a plugin: a custom section of the outermost component, with JSON.
//!
//! **Invariant:** reading needs no engine and runs no code; it parses the headers of the outermost sections only.

use wasmparser::{Encoding, Parser, Payload};

use daftar_domain::manifest::PluginManifest;

/// The name of the custom section.
pub const MANIFEST_SECTION: &str = "daftar:manifest";

/// The largest manifest, in bytes: generous for names, reasons and extension fields.
pub const MANIFEST_BYTES_MAX: usize = 64 * 1024;

/// How deep components may be nested: what a file of nested components costs the validator grows with the square of it.
const DEPTH_MAX: usize = 8;

/// The largest number of modules and components within a component.
const SECTIONS_MAX: usize = 256;

/// The reason why a manifest could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The bytes are not WebAssembly, or are corrupt.
    #[error("this is not a WebAssembly component: {reason}")]
    NotWasm {
        /// The error of the parser.
        reason: String,
    },
    /// The bytes are a core module.
    #[error(
        "this is a core WebAssembly module; a plugin is a component (wrap it, for example with `daftar pack build`)"
    )]
    CoreModule,
    /// It consists of too many parts.
    #[error(
        "the component has more than {SECTIONS_MAX} modules and components within it, or more than {DEPTH_MAX} within one another"
    )]
    TooNested,
    /// The manifest is missing.
    #[error("the component has no manifest: it lacks the custom section `{MANIFEST_SECTION}`")]
    Missing,
    /// There are several manifests, which would be ambiguous.
    #[error("the component has more than one manifest: the custom section `{MANIFEST_SECTION}` is duplicated")]
    Repeated,
    /// The manifest exceeds the size limit.
    #[error("the manifest has {bytes} bytes; the limit is {MANIFEST_BYTES_MAX}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The manifest is not JSON of the expected form.
    #[error("the manifest is not valid at `{field}`: {reason}")]
    Malformed {
        /// The invalid field, `.` for the whole.
        field: String,
        /// The reason.
        reason: String,
    },
}

/// Reads the manifest of a component.
///
/// # Errors
/// See [`ManifestError`].
pub fn read_manifest(component: &[u8]) -> Result<PluginManifest, ManifestError> {
    if !component.starts_with(b"\0asm") {
        let reason = "its header is missing; use a file built by `daftar pack build` or `daftar plugin build`";
        return Err(ManifestError::NotWasm { reason: reason.to_owned() });
    }
    let mut found: Option<&[u8]> = None;
    let (mut depth, mut sections) = (0_usize, 0_usize);
    for payload in Parser::new(0).parse_all(component) {
        match payload.map_err(|error| ManifestError::NotWasm { reason: error.to_string() })? {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => return Err(ManifestError::CoreModule),
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                (depth, sections) = (depth + 1, sections + 1);
                if depth > DEPTH_MAX || sections > SECTIONS_MAX {
                    return Err(ManifestError::TooNested);
                }
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CustomSection(section)
                if depth == 0 && section.name() == MANIFEST_SECTION && found.replace(section.data()).is_some() =>
            {
                return Err(ManifestError::Repeated);
            }
            // Other sections do not concern the manifest.
            _ => {}
        }
    }
    parse_manifest(found.ok_or(ManifestError::Missing)?)
}

/// Parses the JSON of a manifest.
fn parse_manifest(json: &[u8]) -> Result<PluginManifest, ManifestError> {
    if json.len() > MANIFEST_BYTES_MAX {
        return Err(ManifestError::TooLarge { bytes: json.len() });
    }
    let malformed = |field: String, reason: String| ManifestError::Malformed { field, reason };
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let manifest = serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|error| malformed(error.path().to_string(), error.inner().to_string()))?;
    deserializer.end().map_err(|error| malformed(".".to_owned(), error.to_string()))?;
    Ok(manifest)
}

/// Appends the manifest to a component.
///
/// # Errors
/// The bytes are not a component, they have a manifest already, or the manifest is too large.
pub fn append_manifest(component: &[u8], manifest: &PluginManifest) -> Result<Vec<u8>, ManifestError> {
    match read_manifest(component) {
        Err(ManifestError::Missing) => {}
        Ok(_) => return Err(ManifestError::Repeated),
        Err(other) => return Err(other),
    }
    let json = serde_json::to_vec(manifest)
        .map_err(|error| ManifestError::Malformed { field: ".".to_owned(), reason: error.to_string() })?;
    if json.len() > MANIFEST_BYTES_MAX {
        return Err(ManifestError::TooLarge { bytes: json.len() });
    }
    let mut bytes = component.to_vec();
    let section = wasm_encoder::CustomSection { name: MANIFEST_SECTION.into(), data: json.as_slice().into() };
    wasm_encoder::ComponentSection::append_to_component(&section, &mut bytes);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> PluginManifest {
        let json = r#"{"name":"gender","version":"1.0.0","kind":"vocabulary-pack","interface":"0.1.0",
            "description":"Sex of a person.","licence":"CC0-1.0"}"#;
        serde_json::from_str(json).unwrap()
    }

    /// A component within as many others, each with as many empty components beside it.
    fn nested(depth: usize, beside: usize) -> Vec<u8> {
        let mut component = wasm_encoder::Component::new();
        for _ in 0..beside {
            component.section(&wasm_encoder::NestedComponentSection(&wasm_encoder::Component::new()));
        }
        for _ in 0..depth {
            let mut outer = wasm_encoder::Component::new();
            outer.section(&wasm_encoder::NestedComponentSection(&component));
            component = outer;
        }
        component.finish()
    }

    #[test]
    fn a_component_of_too_many_components_is_refused_before_it_is_validated() {
        for (depth, beside) in [(DEPTH_MAX, 0), (0, SECTIONS_MAX), (1, SECTIONS_MAX - 1)] {
            assert!(matches!(read_manifest(&nested(depth, beside)), Err(ManifestError::Missing)), "{depth} {beside}");
        }
        for (depth, beside) in [(DEPTH_MAX + 1, 0), (1_000, 0), (0, SECTIONS_MAX + 1), (1, SECTIONS_MAX)] {
            assert!(matches!(read_manifest(&nested(depth, beside)), Err(ManifestError::TooNested)), "{depth} {beside}");
        }
    }

    /// A component with one core module, which has `inner` as a custom section.
    fn component_around(inner: Option<&str>) -> Vec<u8> {
        let mut module = wasm_encoder::Module::new();
        if let Some(json) = inner {
            module
                .section(&wasm_encoder::CustomSection { name: MANIFEST_SECTION.into(), data: json.as_bytes().into() });
        }
        let mut component = wasm_encoder::Component::new();
        component.section(&wasm_encoder::ModuleSection(&module));
        component.finish()
    }

    fn with_section(json: &str) -> Vec<u8> {
        let mut bytes = component_around(None);
        let section = wasm_encoder::CustomSection { name: MANIFEST_SECTION.into(), data: json.as_bytes().into() };
        wasm_encoder::ComponentSection::append_to_component(&section, &mut bytes);
        bytes
    }

    #[test]
    fn reads_an_appended_section() {
        let component = append_manifest(&component_around(None), &manifest()).unwrap();
        assert_eq!(read_manifest(&component).unwrap(), manifest());
    }

    #[test]
    fn rejects_bytes_that_are_not_wasm() {
        assert!(matches!(read_manifest(b"PK\x03\x04"), Err(ManifestError::NotWasm { .. })));
        assert!(matches!(read_manifest(b""), Err(ManifestError::NotWasm { .. })));
    }

    #[test]
    fn rejects_a_component_that_is_truncated_anywhere() {
        let whole = append_manifest(&component_around(None), &manifest()).unwrap();
        for length in 0..whole.len() {
            let cut = read_manifest(&whole[..length]);
            assert!(matches!(cut, Err(ManifestError::NotWasm { .. } | ManifestError::Missing)), "{length}: {cut:?}");
        }
    }

    #[test]
    fn rejects_a_core_module() {
        let module = wasm_encoder::Module::new().finish();
        assert!(matches!(read_manifest(&module), Err(ManifestError::CoreModule)));
    }

    #[test]
    fn rejects_a_component_without_a_manifest() {
        assert!(matches!(read_manifest(&component_around(None)), Err(ManifestError::Missing)));
    }

    #[test]
    fn a_manifest_of_an_inner_module_is_ignored() {
        let json = serde_json::to_string(&manifest()).unwrap();
        assert!(matches!(read_manifest(&component_around(Some(&json))), Err(ManifestError::Missing)));
    }

    #[test]
    fn rejects_two_manifests() {
        let once = append_manifest(&component_around(None), &manifest()).unwrap();
        assert!(matches!(append_manifest(&once, &manifest()), Err(ManifestError::Repeated)));
        let json = serde_json::to_vec(&manifest()).unwrap();
        let mut twice = once;
        let section = wasm_encoder::CustomSection { name: MANIFEST_SECTION.into(), data: json.as_slice().into() };
        wasm_encoder::ComponentSection::append_to_component(&section, &mut twice);
        assert!(matches!(read_manifest(&twice), Err(ManifestError::Repeated)));
    }

    #[test]
    fn names_the_invalid_field() {
        let json = serde_json::to_string(&manifest()).unwrap();
        for (right, wrong, field) in [
            ("\"gender\"", "\"Gender\"", "name"),
            ("\"1.0.0\"", "1", "version"),
            ("\"vocabulary-pack\"", "\"driver\"", "kind"),
            ("}", ",\"limits\":{\"fuel\":{\"value\":-1,\"reason\":\"\"}}}", "limits.fuel.value"),
        ] {
            match read_manifest(&with_section(&json.replacen(right, wrong, 1))) {
                Err(ManifestError::Malformed { field: named, .. }) => assert_eq!(named, field),
                other => panic!("{field}: {other:?}"),
            }
        }
    }

    #[test]
    fn rejects_trailing_json_after_the_manifest() {
        let json = serde_json::to_string(&manifest()).unwrap();
        assert!(matches!(read_manifest(&with_section(&format!("{json} {{}}"))), Err(ManifestError::Malformed { .. })));
    }

    #[test]
    fn limits_the_size_of_a_manifest() {
        let mut largest = manifest();
        let spare = MANIFEST_BYTES_MAX - serde_json::to_vec(&largest).unwrap().len();
        largest.description.push_str(&"x".repeat(spare));
        assert!(append_manifest(&component_around(None), &largest).is_ok());
        largest.description.push('x');
        let error = append_manifest(&component_around(None), &largest).unwrap_err();
        assert!(matches!(error, ManifestError::TooLarge { bytes } if bytes == MANIFEST_BYTES_MAX + 1), "{error}");
        let json = serde_json::to_string(&largest).unwrap();
        assert!(matches!(read_manifest(&with_section(&json)), Err(ManifestError::TooLarge { .. })));
    }
}
