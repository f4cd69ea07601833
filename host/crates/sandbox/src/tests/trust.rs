//! Signers of plugins: verified before anything else, and without effect on the rights of a plugin.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::testing::guest::{foreign_component, manifest, now, plugin};
use crate::testing::pack_guest::{LOOP, PackGuest};
use crate::testing::rule_guest::letters;
use crate::{
    Digest, InstallError, InstallStep, PinnedDigests, PluginHost, PluginHostSettings, PluginLibrary, PluginOffer,
    PrivateKey, Signer, TrustPolicy, UnsignedPlugins,
};
use daftar_domain::manifest::{PluginKind, PluginName};
use daftar_domain::plugin_key::PluginKey;
use daftar_domain::plugin_key::{SignedKind, TrustedKey};

fn library(folder: &Path, trust: TrustPolicy) -> PluginLibrary {
    let settings = PluginHostSettings { threads: Some(2), trust, ..PluginHostSettings::default() };
    PluginLibrary::open(Arc::new(PluginHost::start(settings).unwrap()), folder, None).unwrap()
}

fn pins(files: &[&[u8]]) -> TrustPolicy {
    let digests = PinnedDigests::of(files.iter().map(|file| Digest::of(file)));
    TrustPolicy::new::<PluginKey>([], digests, UnsignedPlugins::Refused)
}

fn refusal(library: &PluginLibrary, file: &[u8]) -> InstallError {
    library.install(file.to_vec(), now(), &|_| Ok(())).map(|_| ()).unwrap_err()
}

/// A pack with an import that is not granted.
fn importing() -> Vec<u8> {
    let wit = "
        package foreign:guest@1.0.0;
        world guest { import disk: func() -> u32; export daftar:plugin/vocabulary@0.1.0; }
        package daftar:plugin@0.1.0 { interface vocabulary { describe: func() -> u32; } }
    ";
    let text = r#"(module
        (import "$root" "disk" (func (result i32)))
        (memory (export "memory") 1)
        (func (export "daftar:plugin/vocabulary@0.1.0#describe") (result i32) (i32.const 0)))"#;
    plugin(&foreign_component(text, wit, "guest"), &manifest("test", "1.0.0", PluginKind::VocabularyPack))
}

#[test]
fn a_pinned_digest_grants_no_rights_and_skips_no_step() {
    let folder = tempfile::tempdir().unwrap();
    let loops = PackGuest { describe: LOOP, ..PackGuest::default() }.build();
    let (importing, sound) = (importing(), PackGuest::default().build());
    let library = library(folder.path(), pins(&[&importing, &loops, &sound]));
    assert_eq!(refusal(&library, &importing).step, InstallStep::Imports);
    assert_eq!(refusal(&library, &loops).step, InstallStep::Smoke);
    let pinned = library.install(sound.clone(), now(), &|_| Ok(())).unwrap();
    assert_eq!(pinned.signer, Signer::Pinned);
    let unsigned = PluginOffer {
        unsigned: UnsignedPlugins::Allowed,
        ..PackGuest { name: "other", ..PackGuest::default() }.build().into()
    };
    let unsigned = library.install(unsigned, now(), &|_| Ok(())).unwrap();
    assert_eq!(unsigned.signer, Signer::Unsigned);
    assert_eq!(pinned.loaded().limits(), unsigned.loaded().limits());
}

#[test]
fn an_untrusted_file_is_rejected_before_other_checks() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path(), pins(&[]));
    assert_eq!(refusal(&library, &importing()).step, InstallStep::Signature);
    let key = PrivateKey::generate().unwrap();
    let file = PackGuest::default().build();
    let signature = Some(key.sign(&file).to_string());
    let error = library.prepare(PluginOffer { signature, ..file.into() }).unwrap_err();
    assert_eq!(error.step, InstallStep::Signature);
    assert!(error.reason.contains(&key.public_key().id().to_string()), "{error}");
}

#[test]
fn a_signed_file_that_was_changed_or_truncated_is_rejected_naming_digest_and_key() {
    let folder = tempfile::tempdir().unwrap();
    let key = PrivateKey::generate().unwrap();
    let trust = TrustPolicy::new([key.public_key()], PinnedDigests::default(), UnsignedPlugins::Refused);
    let library = library(folder.path(), trust);
    let file = PackGuest::default().build();
    let (signature, id) = (key.sign(&file).to_string(), key.public_key().id().to_string());
    let changed = |index: usize| {
        let mut changed = file.clone();
        changed[index] ^= 1;
        changed
    };
    // Headers, code, names, the manifest; and the last byte.
    let places = (0..file.len()).step_by(13).chain([file.len() - 1]);
    for bytes in places.flat_map(|index| [changed(index), file[..index.max(1)].to_vec()]) {
        let digest = Digest::of(&bytes).to_string();
        let (signature, unsigned) = (Some(signature.clone()), UnsignedPlugins::Allowed);
        let offer = PluginOffer { signature, unsigned, ..bytes.into() };
        let error = library.prepare(offer).unwrap_err();
        assert_eq!(error.step, InstallStep::Signature, "{error}");
        assert!(error.reason.contains(&digest) && error.reason.contains(&id), "{error}");
    }
}

#[test]
fn a_key_that_is_no_longer_trusted_installs_no_more_and_its_plugins_stay() {
    let folder = tempfile::tempdir().unwrap();
    let key = PrivateKey::generate().unwrap();
    let signed = |version| {
        let file = PackGuest { version, ..PackGuest::default() }.build();
        PluginOffer { signature: Some(key.sign(&file).to_string()), ..file.into() }
    };
    let trusting = TrustPolicy::new([key.public_key()], PinnedDigests::default(), UnsignedPlugins::Refused);
    drop(library(folder.path(), trusting).install(signed("1.0.0"), now(), &|_| Ok(())).unwrap());
    let library = library(folder.path(), pins(&[]));
    let [stored] = library.list().try_into().unwrap();
    assert_eq!(stored.signer, Signer::Key(key.public_key().id()));
    let error = library.install(signed("2.0.0"), now(), &|_| Ok(())).unwrap_err();
    assert_eq!(error.step, InstallStep::Signature);
}

#[test]
fn a_limited_key_installs_only_the_plugins_that_it_is_limited_to() {
    let folder = tempfile::tempdir().unwrap();
    let key = PrivateKey::generate().unwrap();
    let names = Some(vec![PluginName::parse("gear").unwrap()]);
    let limited =
        TrustedKey::limited(key.public_key(), names, Some(vec![SignedKind::Plugin(PluginKind::VocabularyPack)]));
    let library =
        library(folder.path(), TrustPolicy::new([limited], PinnedDigests::default(), UnsignedPlugins::Refused));
    let signed = |file: Vec<u8>| PluginOffer { signature: Some(key.sign(&file).to_string()), ..file.into() };
    let gear = PackGuest { name: "gear", ..PackGuest::default() }.build();
    library.install(signed(gear), now(), &|_| Ok(())).unwrap();
    for file in [PackGuest::default().build(), letters("gear", "2.0.0")] {
        let error = library.install(signed(file.clone()), now(), &|_| Ok(())).unwrap_err();
        assert_eq!(error.step, InstallStep::Signature, "{error}");
        assert!(error.reason.contains("limits to the names `gear` and the kinds vocabulary-pack"), "{error}");
        // A folder of plugins does not bypass the limit.
        let plugins = tempfile::tempdir().unwrap();
        let path = plugins.path().join("plugin.wasm");
        fs::write(&path, &file).unwrap();
        fs::write(plugins.path().join("plugin.wasm.sig"), key.sign(&file).to_string()).unwrap();
        let offer = library.read_newer(&path).unwrap();
        assert_eq!(library.prepare(offer).unwrap_err().step, InstallStep::Signature);
    }
    assert_eq!(library.list().len(), 1);
}
