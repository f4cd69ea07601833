//! Small guests, written in WebAssembly text and encoded as components with a manifest.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::section::append_manifest;
use crate::{PinnedDigests, PluginHost, PluginHostSettings, PluginLibrary, PluginLimits, TrustPolicy, UnsignedPlugins};
use daftar_domain::manifest::{PluginKind, PluginManifest, PluginName};
use daftar_domain::plugin_key::PluginKey;

/// A manifest of that name, version and kind.
pub fn manifest(name: &str, version: &str, kind: PluginKind) -> PluginManifest {
    let json = format!(
        r#"{{"name":"{name}","version":"{version}","kind":"{kind}","interface":"0.1.0","description":"A test.","licence":"CC0-1.0"}}"#
    );
    serde_json::from_str(&json).unwrap()
}

/// Encodes a core module, given as text, as a component for a world of the plugin interface.
pub fn component(text: &str, world: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../wit/daftar-plugin/0.1.0");
    let (package, _) = resolve.push_path(folder).unwrap();
    wrapped(text, &resolve, package, world)
}

/// Encodes a core module, given as text, as a component for a world of another interface, given as WIT text.
pub fn foreign_component(text: &str, wit: &str, world: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("foreign.wit", wit).unwrap();
    wrapped(text, &resolve, package, world)
}

fn wrapped(text: &str, resolve: &Resolve, package: wit_parser::PackageId, world: &str) -> Vec<u8> {
    let mut module = wat::parse_str(text).unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    embed_component_metadata(&mut module, resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&module).unwrap().validate(true).encode().unwrap()
}

/// A component with a manifest.
pub fn plugin(component: &[u8], manifest: &PluginManifest) -> Vec<u8> {
    append_manifest(component, manifest).unwrap()
}

/// A host with two threads, limits as given for the plugin `test`, and no code cache.
pub fn host_with(limits: Option<PluginLimits>) -> Arc<PluginHost> {
    // Guests of tests are unsigned; signers have their own tests.
    host_trusting(limits, lax())
}

/// A policy that accepts unsigned plugins.
pub fn lax() -> TrustPolicy {
    TrustPolicy::new::<PluginKey>([], PinnedDigests::default(), UnsignedPlugins::Allowed)
}

/// A host that leaves engines for later, without a code cache.
pub fn host_compiling_engines_later() -> Arc<PluginHost> {
    let settings = PluginHostSettings {
        threads: Some(2),
        trust: lax(),
        compiles_engines_later: true,
        ..PluginHostSettings::default()
    };
    Arc::new(PluginHost::start(settings).unwrap())
}

fn host_trusting(limits: Option<PluginLimits>, trust: TrustPolicy) -> Arc<PluginHost> {
    let name = PluginName::parse("test").unwrap();
    let settings = PluginHostSettings {
        threads: Some(2),
        limits: limits.into_iter().map(|limits| (name.clone(), limits.into())).collect(),
        trust,
        ..PluginHostSettings::default()
    };
    Arc::new(PluginHost::start(settings).unwrap())
}

/// A library in a folder of its own.
pub struct TestLibrary {
    pub folder: tempfile::TempDir,
    pub host: Arc<PluginHost>,
    pub library: Arc<PluginLibrary>,
}

impl TestLibrary {
    pub fn new() -> Self {
        Self::with_limits(None)
    }

    pub fn with_limits(limits: Option<PluginLimits>) -> Self {
        Self::on(tempfile::tempdir().unwrap(), host_with(limits))
    }

    /// An empty library whose engines are compiled later.
    pub fn compiling_engines_later() -> Self {
        Self::on(tempfile::tempdir().unwrap(), host_compiling_engines_later())
    }

    /// Closes the library and opens the same folder with a host that compiles engines later.
    pub fn reopened_compiling_engines_later(self) -> Self {
        let Self { folder, host, library } = self;
        drop((library, host));
        Self::on(folder, host_compiling_engines_later())
    }

    /// A library with that trust policy.
    pub fn trusting(trust: TrustPolicy) -> Self {
        Self::on(tempfile::tempdir().unwrap(), host_trusting(None, trust))
    }

    fn on(folder: tempfile::TempDir, host: Arc<PluginHost>) -> Self {
        let library = Arc::new(PluginLibrary::open(host.clone(), folder.path(), None).unwrap());
        assert_eq!(library.unloaded(), []);
        Self { folder, host, library }
    }

    /// Closes the library and opens the same folder again with a new host.
    pub fn reopened(self) -> (Self, Vec<crate::InstallError>) {
        self.reopened_trusting(lax())
    }

    /// The same with another policy.
    pub fn reopened_trusting(self, trust: TrustPolicy) -> (Self, Vec<crate::InstallError>) {
        let Self { folder, host, library } = self;
        drop((library, host));
        let host = host_trusting(None, trust);
        let library = Arc::new(PluginLibrary::open(host.clone(), folder.path(), None).unwrap());
        let unloaded = library.unloaded();
        (Self { folder, host, library }, unloaded)
    }
}

impl PluginLibrary {
    /// The plugins removed by hand.
    pub fn removed(&self) -> Vec<PluginName> {
        self.for_all().removed.into_iter().collect()
    }
}

/// The time of all installs in tests.
pub fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

/// A memory image that grows from an address on, with little-endian numbers.
pub struct Image {
    base: u32,
    bytes: Vec<u8>,
}

impl Image {
    pub fn at(base: u32) -> Self {
        Self { base, bytes: Vec::new() }
    }

    /// Puts bytes at an address divisible by four, and returns it.
    pub fn put(&mut self, bytes: &[u8]) -> u32 {
        while !self.bytes.len().is_multiple_of(4) {
            self.bytes.push(0);
        }
        let address = self.base + u32::try_from(self.bytes.len()).unwrap();
        self.bytes.extend_from_slice(bytes);
        address
    }

    /// Puts bytes at an address divisible by eight, and returns it.
    pub fn put_wide(&mut self, bytes: &[u8]) -> u32 {
        while !(self.base as usize + self.bytes.len()).is_multiple_of(8) {
            self.bytes.push(0);
        }
        self.put(bytes)
    }

    /// Puts a text, and returns its address and length as a record's field.
    pub fn text(&mut self, text: &str) -> [u8; 8] {
        let address = self.put(text.as_bytes());
        pair(address, text.len())
    }

    /// The data segment of the image.
    pub fn data(&self) -> String {
        let escaped: String = self.bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
        format!("(data (i32.const {}) \"{escaped}\")", self.base)
    }
}

/// An address and a length, as strings and lists are passed.
pub fn pair(address: u32, length: usize) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&address.to_le_bytes());
    bytes[4..].copy_from_slice(&u32::try_from(length).unwrap().to_le_bytes());
    bytes
}
