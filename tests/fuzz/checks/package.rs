//! The file of a plugin: its manifest and all checks before it is compiled. The first byte chooses whether the rest is a
//! component or the manifest of an empty one.

use daftar_domain::manifest::PluginManifest;
use daftar_sandbox::InstallStep;
use daftar_sandbox::section::{MANIFEST_SECTION, append_manifest, read_manifest};
use daftar_sandbox::testing::check_statically;

/// Maximum length of a message, in bytes: it quotes at most 300 characters of the file.
const MESSAGE_BYTES_MAX: usize = 4_000;
/// A component without sections.
const EMPTY: &[u8] = b"\0asm\x0d\x00\x01\x00";

pub fn check(input: &[u8]) {
    let Some((choice, rest)) = input.split_first() else { return };
    let component = match choice % 2 {
        0 => rest.to_vec(),
        _ => with_manifest(rest),
    };
    match read_manifest(&component) {
        Ok(manifest) => {
            let json = serde_json::to_vec(&manifest).expect("a manifest can be written");
            let again: PluginManifest = serde_json::from_slice(&json).expect("and read");
            assert_eq!(again, manifest, "a manifest is written as it was read");
            assert!(append_manifest(&component, &manifest).is_err(), "a second manifest is rejected");
            if let Ok(appended) = append_manifest(EMPTY, &manifest) {
                assert_eq!(read_manifest(&appended).ok(), Some(manifest), "an appended manifest is read");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let Err(refused) = check_statically(component) else { return };
    let message = refused.to_string();
    assert!(message.len() <= MESSAGE_BYTES_MAX, "{} bytes: {message}", message.len());
    assert!(!message.contains(char::is_control), "{message:?} is one line");
    assert!(!is_later(refused.step), "{message}: nothing was compiled");
}

fn is_later(step: InstallStep) -> bool {
    [InstallStep::Compile, InstallStep::CompileBudget, InstallStep::Smoke, InstallStep::Content].contains(&step)
}

/// An empty component with these bytes as its manifest.
fn with_manifest(json: &[u8]) -> Vec<u8> {
    let name = MANIFEST_SECTION.as_bytes();
    let mut content = number(name.len());
    content.extend_from_slice(name);
    content.extend_from_slice(json);
    [EMPTY, &[0], &number(content.len()), &content].concat()
}

/// An unsigned LEB128 number.
fn number(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(u8::try_from(value % 0x80).unwrap() | 0x80);
        value /= 0x80;
    }
    bytes.push(u8::try_from(value).unwrap());
    bytes
}
