//! Files of plugins outside of any register, for the command line: what is in them, who signed them.

use std::path::Path;

use daftar_domain::config::PluginsConfig;
use daftar_domain::error::why_not_read;
pub use daftar_sandbox::{
    CompileIn, Inspection, PinnedDigests, PluginSignature, PrivateKey, SIGNATURE_SUFFIX, SignatureState,
    UnsignedPlugins,
};
use daftar_sandbox::{PACKAGE_BYTES_MAX, TrustPolicy, read_signature_of};

/// A plugin's file with the signature that lies beside it.
pub struct PluginFile {
    /// The file.
    pub bytes: Vec<u8>,
    /// The line of its `.sig` file.
    pub signature: Option<String>,
}

/// Reads a plugin's file and the signature beside it.
///
/// # Errors
/// One of them cannot be read, or is too large; one sentence.
pub fn read(file: &Path) -> Result<PluginFile, String> {
    let shown = file.display();
    let unreadable = |error: std::io::Error| format!("cannot read `{shown}`: {}", why_not_read(&error));
    let metadata = std::fs::metadata(file).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(format!("cannot read `{shown}`: it is not a file; name a `.wasm` file"));
    }
    if metadata.len() > PACKAGE_BYTES_MAX as u64 {
        let bytes = metadata.len();
        return Err(format!(
            "`{shown}` was refused at step `too_large`: the file has {bytes} bytes; at most {PACKAGE_BYTES_MAX} are read"
        ));
    }
    let bytes = std::fs::read(file).map_err(unreadable)?;
    let signature = read_signature_of(file).map_err(|error| format!("cannot read the signature {error}"))?;
    Ok(PluginFile { bytes, signature })
}

/// What can be told of a plugin's file without running anything of it.
///
/// # Errors
/// The step that refuses it, and why.
pub fn inspect(file: PluginFile, config: &PluginsConfig, pinned: PinnedDigests) -> Result<Inspection, String> {
    let trust = TrustPolicy::new(config.trusted_keys.iter().cloned(), pinned, UnsignedPlugins::Refused);
    let inspection = Inspection::of(file.bytes, file.signature.as_deref(), &trust, &CompileIn::this_program());
    inspection.map_err(|error| error.to_string())
}

/// Signs a plugin's file and leaves the signature beside it.
///
/// # Errors
/// It is no plugin, or the signature cannot be written.
pub fn sign(file: &Path, bytes: &[u8], key: &PrivateKey) -> Result<PluginSignature, String> {
    daftar_sandbox::section::read_manifest(bytes)
        .map_err(|error| format!("`{}` is not signed: {error}", file.display()))?;
    let signature = key.sign(bytes);
    let mut path = file.as_os_str().to_owned();
    path.push(SIGNATURE_SUFFIX);
    super::packs::write_file(Path::new(&path), format!("{signature}\n").as_bytes())
        .map_err(|error| format!("cannot write `{}`: {error}", Path::new(&path).display()))?;
    Ok(signature)
}
