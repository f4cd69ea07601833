//! The bill of materials: CycloneDX 1.6, as JSON.
//!
//! **Invariant:** the same sources produce the same bytes: its serial number is derived from its content, its time is the commit's.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::packages::{CodeList, Crate, GUESTS, PROGRAM, Shipped};
use crate::commit::Commit;
use crate::failure::Failure;
use crate::files::hexadecimal;

const SCHEMA: &str = "http://cyclonedx.org/schema/bom-1.6.schema.json";

/// The document. `plugins` are the files of the release by name, with their digests.
pub fn document(
    shipped: &Shipped,
    lists: &[CodeList],
    plugins: &[(String, String)],
    commit: &Commit,
) -> Result<Vec<u8>, Failure> {
    let program = own(shipped, PROGRAM)?;
    let mut components: Vec<Value> = shipped.crates.values().filter(|one| one.name != PROGRAM).map(library).collect();
    let guests: Vec<String> = GUESTS.iter().map(|name| own(shipped, name).map(reference)).collect::<Result<_, _>>()?;
    let mut dependencies: Vec<Value> = shipped.crates.values().map(|one| depends(one, &[])).collect();
    let mut parts = Vec::new();
    for (name, digest) in plugins {
        let list = lists.iter().find(|list| list.name == *name);
        let list =
            list.ok_or_else(|| Failure::new(format!("the plugin `{name}` has no source that says its licence")))?;
        let reference = format!("plugin:{name}@{}", list.version);
        components.push(plugin(&reference, list, digest));
        let guest = GUESTS.iter().position(|guest| is_made_of(name, guest)).unwrap_or(1);
        let made_of: Vec<&String> = guests.get(guest).into_iter().collect();
        dependencies.push(json!({"ref": reference, "dependsOn": made_of}));
        parts.push(reference);
    }
    if let Some(first) = dependencies.iter_mut().find(|one| one.get("ref") == Some(&json!(reference(program)))) {
        *first = depends(program, &parts);
    }
    let mut metadata = Map::new();
    if let Some(at) = commit.rfc3339() {
        metadata.insert("timestamp".to_owned(), json!(at));
    }
    let mut about = json!({
        "type": "application", "bom-ref": reference(program), "name": PROGRAM, "version": program.version,
        "licenses": licences(program),
    });
    if let (Some(about), Some(name)) = (about.as_object_mut(), &commit.name) {
        about.insert("properties".to_owned(), json!([{"name": "daftar:commit", "value": name}]));
    }
    metadata.insert("component".to_owned(), about);
    let content = json!({"metadata": metadata, "components": components, "dependencies": dependencies});
    let number = uuid_of(&hexadecimal(Sha256::new_with_prefix(content.to_string())));
    let mut document = json!({
        "$schema": SCHEMA, "bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": format!("urn:uuid:{number}"), "version": 1,
    });
    if let (Some(document), Value::Object(content)) = (document.as_object_mut(), content) {
        document.extend(content);
    }
    let mut bytes = serde_json::to_vec_pretty(&document).map_err(|error| Failure::new(error.to_string()))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// True if a plugin is compiled from that guest; the others are the generic pack with their data.
fn is_made_of(plugin: &str, guest: &str) -> bool {
    match plugin {
        "eligibility-cel" => guest == "daftar-cel",
        "language-tag" => guest == "daftar-language-tag",
        _ => guest == "daftar-codelist",
    }
}

fn own<'s>(shipped: &'s Shipped, name: &str) -> Result<&'s Crate, Failure> {
    let found = shipped.crates.values().find(|one| one.is_own && one.name == name);
    found.ok_or_else(|| Failure::new(format!("there is no package `{name}`")))
}

fn reference(one: &Crate) -> String {
    format!("pkg:cargo/{}@{}", one.name, one.version)
}

fn library(one: &Crate) -> Value {
    let mut component = json!({
        "type": "library", "bom-ref": reference(one), "name": one.name, "version": one.version,
        "purl": reference(one), "licenses": licences(one),
    });
    if let Some(component) = component.as_object_mut() {
        if let Some(checksum) = &one.checksum {
            component.insert("hashes".to_owned(), json!([{"alg": "SHA-256", "content": checksum}]));
        }
        if let Some(repository) = one.repository.as_ref().filter(|url| url.starts_with("https://")) {
            component.insert("externalReferences".to_owned(), json!([{"type": "vcs", "url": repository}]));
        }
    }
    component
}

fn licences(one: &Crate) -> Value {
    json!(one.licence.iter().map(|expression| json!({"expression": expression})).collect::<Vec<_>>())
}

/// A plugin with its data, whose licence may have no short name.
fn plugin(reference: &str, list: &CodeList, digest: &str) -> Value {
    json!({
        "type": "library", "bom-ref": reference, "name": list.name, "version": list.version,
        "description": "plugin in the sandbox, with its data",
        "licenses": [{"license": {"name": list.licence}}],
        "copyright": list.attribution,
        "hashes": [{"alg": "SHA-256", "content": digest}],
    })
}

fn depends(one: &Crate, more: &[String]) -> Value {
    let crates = one.dependencies.iter().map(|id| format!("pkg:cargo/{id}"));
    let on: Vec<String> = crates.chain(more.iter().cloned()).collect();
    json!({"ref": reference(one), "dependsOn": on})
}

/// A UUID of version 8 (RFC 9562), derived from a digest.
fn uuid_of(digest: &str) -> String {
    let part = |from: usize, to: usize| digest.get(from..to).unwrap_or_default();
    format!("{}-{}-8{}-8{}-{}", part(0, 8), part(8, 12), part(12, 15), part(15, 18), part(18, 30))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn shipped() -> Shipped {
        let one = |name: &str, is_own: bool, on: &[&str]| Crate {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: Some("MIT OR Apache-2.0".to_owned()),
            repository: Some("https://example.org/a".to_owned()),
            authors: Vec::new(),
            checksum: (!is_own).then(|| "0".repeat(64)),
            folder: std::path::PathBuf::new(),
            is_own,
            dependencies: on.iter().map(|name| format!("{name}@1.0.0")).collect::<BTreeSet<_>>(),
        };
        let mut shipped = Shipped::default();
        for (name, is_own, on) in [
            (PROGRAM, true, &["serde"][..]),
            ("daftar-cel", true, &["cel"]),
            ("daftar-codelist", true, &[]),
            ("daftar-language-tag", true, &[]),
            ("serde", false, &[]),
            ("cel", false, &[]),
        ] {
            shipped.crates.insert(format!("{name}@1.0.0"), one(name, is_own, on));
        }
        shipped
    }

    fn lists() -> Vec<CodeList> {
        ["eligibility-cel", "gender"]
            .map(|name| CodeList {
                name: name.to_owned(),
                version: "2.0.0".to_owned(),
                licence: "© A Publisher, with acknowledgement".to_owned(),
                attribution: "A Publisher".to_owned(),
                note: None,
            })
            .to_vec()
    }

    fn plugins() -> Vec<(String, String)> {
        ["eligibility-cel", "gender"].map(|name| (name.to_owned(), "1".repeat(64))).to_vec()
    }

    #[test]
    fn crates_guests_and_code_lists_are_in_it_and_the_same_sources_make_the_same_bytes() {
        let commit = Commit { name: Some("abc".to_owned()), committed_s: Some(1_772_366_400) };
        let bytes = document(&shipped(), &lists(), &plugins(), &commit).unwrap();
        assert_eq!(bytes, document(&shipped(), &lists(), &plugins(), &commit).unwrap());
        let read: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(read["metadata"]["timestamp"], "2026-03-01T12:00:00Z");
        let names: Vec<&str> =
            read["components"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            ["cel", "daftar-cel", "daftar-codelist", "daftar-language-tag", "serde", "eligibility-cel", "gender"]
        );
        let on = |reference: &str| {
            let all = read["dependencies"].as_array().unwrap();
            all.iter().find(|one| one["ref"] == reference).unwrap()["dependsOn"].clone()
        };
        let expected = json!(["pkg:cargo/serde@1.0.0", "plugin:eligibility-cel@2.0.0", "plugin:gender@2.0.0"]);
        assert_eq!(on("pkg:cargo/daftar@1.0.0"), expected);
        assert_eq!(on("plugin:eligibility-cel@2.0.0"), json!(["pkg:cargo/daftar-cel@1.0.0"]));
        assert_eq!(on("plugin:gender@2.0.0"), json!(["pkg:cargo/daftar-codelist@1.0.0"]));
        assert!(document(&shipped(), &[], &plugins(), &commit).is_err(), "a plugin without a licence is not shipped");
    }
}
