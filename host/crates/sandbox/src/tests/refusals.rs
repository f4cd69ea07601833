//! Files that are rejected before any of their code runs, each at its step.

use wasm_encoder::{ComponentSection as _, ComponentSectionId, ModuleArg, RawSection};

use crate::limits::default_limits;
use crate::package::Package;
use crate::testing::guest::{component, foreign_component, host_with, manifest, plugin};
use crate::testing::pack_guest::PackGuest;
use crate::{CompileIn, Inspection, InstallError, InstallStep, PluginLimits, SignatureState, TrustPolicy};
use daftar_domain::manifest::{PluginKind, PluginVersion};

fn refusal(bytes: Vec<u8>) -> InstallError {
    Package::read(bytes).map(|_| ()).unwrap_err()
}

fn pack_manifest() -> daftar_domain::manifest::PluginManifest {
    manifest("test", "1.0.0", PluginKind::VocabularyPack)
}

#[test]
fn a_valid_file_has_its_name_and_digest() {
    let bytes = PackGuest::default().build();
    let trust = TrustPolicy::default();
    let inspection = Inspection::of(bytes.clone(), None, &trust, &CompileIn::ThisProcess).unwrap();
    assert_eq!(inspection.manifest, pack_manifest());
    assert_eq!(inspection.digest, crate::Digest::of(&bytes));
    assert_eq!(inspection.signature, SignatureState::Unsigned);
    let surface = inspection.surface.as_ref().unwrap();
    assert_eq!((inspection.size_bytes, surface.imports.len()), (bytes.len(), 0));
    assert_eq!(surface.exports, ["daftar:plugin/vocabulary@0.1.0"]);
    assert!(inspection.compiled_bytes.unwrap() > surface.code_bytes, "{inspection:?}");
    assert_eq!(inspection.refusal, None);
}

#[test]
fn random_bytes_and_zeros_are_unreadable() {
    let mut random = vec![0u8; 4_096];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for byte in &mut random {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *byte = state.to_le_bytes()[3];
    }
    for bytes in [random, vec![0; 1 << 20], b"PK\x03\x04".to_vec(), Vec::new()] {
        assert_eq!(refusal(bytes).step, InstallStep::Unreadable);
    }
}

#[test]
fn a_file_of_64_megabytes_of_zeros_is_rejected_quickly() {
    assert_eq!(refusal(vec![0; 64 << 20]).step, InstallStep::Unreadable);
    assert_eq!(refusal(vec![0; (64 << 20) + 1]).step, InstallStep::TooLarge);
}

#[test]
fn a_file_that_is_truncated_anywhere_is_rejected() {
    let whole = PackGuest::default().build();
    for length in 0..whole.len() {
        let step = refusal(whole[..length].to_vec()).step;
        assert!(matches!(step, InstallStep::Unreadable | InstallStep::Manifest), "{length}: {step}");
    }
}

#[test]
fn a_file_with_one_byte_changed_never_panics_and_never_changes_its_digest_silently() {
    let whole = PackGuest::default().build();
    let digest = crate::Digest::of(&whole);
    for index in 0..whole.len() {
        let mut changed = whole.clone();
        changed[index] ^= 0x20;
        if let Ok(package) = Package::read(changed) {
            assert_ne!(package.digest, digest);
        }
    }
}

#[test]
fn a_core_module_is_not_a_component() {
    let module = wat::parse_str(PackGuest::default().text()).unwrap();
    let error = refusal(module);
    assert_eq!(error.step, InstallStep::NotAComponent);
    assert!(error.reason.contains("component"), "{error}");
}

#[test]
fn a_component_without_a_manifest_is_rejected() {
    let error = refusal(component(&PackGuest::default().text(), "vocabulary-pack"));
    assert_eq!((error.step, error.plugin), (InstallStep::Manifest, None));
}

#[test]
fn an_unknown_interface_version_is_rejected_with_the_supported_ones() {
    let component = component(&PackGuest::default().text(), "vocabulary-pack");
    let mut manifest = pack_manifest();
    // A newer version, and an old one that the host no longer supports.
    for number in [PluginVersion::new(9, 9, 0), PluginVersion::new(0, 0, 9)] {
        manifest.interface = number;
        let error = refusal(plugin(&component, &manifest));
        assert_eq!(error.step, InstallStep::InterfaceVersion);
        let says = |text: &str| error.reason.contains(text);
        assert!(says(&number.to_string()) && says("this server supports 0.1.0"), "{error}");
        assert_eq!(error.plugin.map(|name| name.to_string()).as_deref(), Some("test"));
    }
}

#[test]
fn a_kind_that_the_exports_do_not_match_is_rejected() {
    let component = component(&PackGuest::default().text(), "vocabulary-pack");
    let error = refusal(plugin(&component, &manifest("test", "1.0.0", PluginKind::EligibilityEngine)));
    assert_eq!(error.step, InstallStep::InterfaceVersion);
    assert!(error.reason.contains("`daftar:plugin/vocabulary@0.1.0`"), "{error}");
}

#[test]
fn every_import_that_is_not_granted_is_listed() {
    let wit = "
        package foreign:guest@1.0.0;
        world guest {
            import wasi:cli/environment@0.2.0;
            import wasi:clocks/monotonic-clock@0.2.0;
            import log: func(line: string);
            export daftar:plugin/vocabulary@0.1.0;
        }
        package wasi:cli@0.2.0 { interface environment { get: func() -> u32; } }
        package wasi:clocks@0.2.0 { interface monotonic-clock { now: func() -> u64; } }
        package daftar:plugin@0.1.0 { interface vocabulary { describe: func() -> u32; } }
    ";
    let text = r#"(module
        (import "wasi:cli/environment@0.2.0" "get" (func (result i32)))
        (import "wasi:clocks/monotonic-clock@0.2.0" "now" (func (result i64)))
        (import "$root" "log" (func (param i32 i32)))
        (memory (export "memory") 1)
        (func (export "daftar:plugin/vocabulary@0.1.0#describe") (result i32) (i32.const 0)))"#;
    let error = refusal(plugin(&foreign_component(text, wit, "guest"), &pack_manifest()));
    assert_eq!(error.step, InstallStep::Imports);
    for import in ["`wasi:cli/environment@0.2.0`", "`wasi:clocks/monotonic-clock@0.2.0`", "`log`"] {
        assert!(error.reason.contains(import), "{error}");
    }
    assert!(error.reason.contains("granted daftar:plugin/log@0.1.0"), "{error}");
}

#[test]
fn a_callable_import_of_our_own_name_is_rejected_too() {
    let wit = "
        package foreign:guest@1.0.0;
        world guest { import daftar:plugin/schema@0.1.0; export daftar:plugin/vocabulary@0.1.0; }
        package daftar:plugin@0.1.0 {
            interface schema { all-records: func() -> u32; }
            interface vocabulary { describe: func() -> u32; }
        }
    ";
    let text = r#"(module
        (import "daftar:plugin/schema@0.1.0" "all-records" (func (result i32)))
        (memory (export "memory") 1)
        (func (export "daftar:plugin/vocabulary@0.1.0#describe") (result i32) (i32.const 0)))"#;
    let error = refusal(plugin(&foreign_component(text, wit, "guest"), &pack_manifest()));
    assert_eq!(error.step, InstallStep::Imports);
}

#[test]
fn right_names_with_wrong_types_are_rejected() {
    let wit = "
        package daftar:plugin@0.1.0;
        interface vocabulary {
            describe: func() -> u32;
            concept-groups: func() -> u32;
            concepts: func(a: u32) -> u32;
            resolve: func(a: u32) -> u32;
        }
        world guest { export vocabulary; }
    ";
    let text = r#"(module
        (memory (export "memory") 1)
        (func (export "daftar:plugin/vocabulary@0.1.0#describe") (result i32) (i32.const 0))
        (func (export "daftar:plugin/vocabulary@0.1.0#concept-groups") (result i32) (i32.const 0))
        (func (export "daftar:plugin/vocabulary@0.1.0#concepts") (param i32) (result i32) (i32.const 0))
        (func (export "daftar:plugin/vocabulary@0.1.0#resolve") (param i32) (result i32) (i32.const 0)))"#;
    let host = host_with(None);
    let package = Package::read(plugin(&foreign_component(text, wit, "guest"), &pack_manifest())).unwrap();
    let loaded = std::sync::Arc::new(host.load(&package).unwrap());
    let error = host.try_out(&loaded).unwrap_err();
    assert_eq!(error.step, InstallStep::Smoke);
    assert!(error.reason.starts_with("invalid_answer") && error.reason.contains("type mismatch"), "{error}");
}

#[test]
fn an_export_that_lacks_a_function_is_rejected() {
    let wit = "
        package daftar:plugin@0.1.0;
        interface vocabulary { describe: func() -> u32; }
        world guest { export vocabulary; }
    ";
    let text = r#"(module
        (memory (export "memory") 1)
        (func (export "daftar:plugin/vocabulary@0.1.0#describe") (result i32) (i32.const 0)))"#;
    let package = Package::read(plugin(&foreign_component(text, wit, "guest"), &pack_manifest())).unwrap();
    let error = host_with(None).load(&package).map(|_| ()).unwrap_err();
    assert_eq!(error.step, InstallStep::InterfaceVersion);
    assert!(error.reason.contains("concept"), "{error}");
}

#[test]
fn a_plugin_that_can_never_start_within_its_limits_is_too_large() {
    let host = host_with(None);
    let table = PackGuest { top: "(table 4001 funcref)", ..PackGuest::default() };
    let memory = PackGuest { memory: "1537", ..PackGuest::default() };
    for guest in [table, memory] {
        let error = host.load(&Package::read(guest.build()).unwrap()).map(|_| ()).unwrap_err();
        assert_eq!(error.step, InstallStep::TooLarge, "{error}");
    }
    let limits = PluginLimits { core_instances: 1, ..default_limits(PluginKind::VocabularyPack) };
    let tables = PackGuest { top: "(table 1 funcref) (table 1 funcref)", ..PackGuest::default() };
    let error = host_with(Some(limits)).load(&Package::read(tables.build()).unwrap()).map(|_| ()).unwrap_err();
    assert_eq!(error.step, InstallStep::TooLarge, "{error}");
}

#[test]
fn a_component_of_more_memories_than_an_instance_may_have_is_too_large() {
    let loaded = |further: usize| {
        let package = Package::read(plugin(&with_memories(further), &pack_manifest())).unwrap();
        host_with(None).load(&package).map(drop)
    };
    loaded(1).unwrap();
    let error = loaded(2).unwrap_err();
    assert_eq!(error.step, InstallStep::TooLarge);
    assert!(error.reason.contains("3 memories; the limit is 2"), "{error}");
}

/// A pack with its own memory, and further core instances with a memory each.
fn with_memories(further: usize) -> Vec<u8> {
    let mut bytes = component(&PackGuest::default().text(), "vocabulary-pack");
    let parts = wasmparser::Parser::new(0).parse_all(&bytes).map(Result::unwrap);
    let modules = parts.filter(|part| matches!(part, wasmparser::Payload::ModuleSection { .. })).count();
    let module = wat::parse_str("(module (memory 1))").unwrap();
    let mut instances = wasm_encoder::InstanceSection::new();
    for _ in 0..further {
        instances.instantiate(u32::try_from(modules).unwrap(), std::iter::empty::<(&str, ModuleArg)>());
    }
    RawSection { id: ComponentSectionId::CoreModule.into(), data: &module }.append_to_component(&mut bytes);
    instances.append_to_component(&mut bytes);
    bytes
}

#[test]
fn disabled_features_are_rejected() {
    let relaxed = "(func (drop (i8x16.relaxed_swizzle (v128.const i64x2 0 0) (v128.const i64x2 0 0))))";
    let exception = "(tag $e) (func (throw $e))";
    for top in [relaxed, exception] {
        let error = refusal(PackGuest { top, ..PackGuest::default() }.build());
        assert_eq!(error.step, InstallStep::Unreadable, "{error}");
    }
    let plain = "(func (drop (i8x16.swizzle (v128.const i64x2 0 0) (v128.const i64x2 0 0))))";
    assert!(Package::read(PackGuest { top: plain, ..PackGuest::default() }.build()).is_ok());
}

#[test]
fn a_component_of_components_is_rejected_before_the_compiler() {
    let composed = r"(component
        (component $inner (core module $part (memory 1)) (core instance (instantiate $part)))
        (instance (instantiate $inner)))";
    let error = refusal(plugin(&wat::parse_str(composed).unwrap(), &pack_manifest()));
    assert_eq!(error.step, InstallStep::Unreadable);
    assert!(error.reason.contains("build one component"), "{error}");
}
