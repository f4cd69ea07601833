//! Plugins of every released version of the interface, built when it was the newest: see `tests/data/guests/README.md`.

use std::path::Path;

use super::guest::{TestLibrary, now};
use super::rules::{told, verdicts};
use crate::domain::eligibility::Verdict;
use crate::plugin::{EngineError, FaultKind};

fn old_guest(file: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/guests");
    std::fs::read(folder.join(file)).unwrap()
}

#[test]
fn a_pack_of_interface_0_1_0_is_installed_and_read() {
    let test = TestLibrary::new();
    let installed = test.library.install(old_guest("0.1.0/gender.wasm"), now(), &|_| Ok(())).unwrap();
    assert_eq!(installed.manifest().interface.to_string(), "0.1.0");
    let contents = test.host.load_pack(&installed).unwrap();
    let codes: Vec<_> = contents.vocabularies[0].1.iter().map(|concept| concept.code.as_str()).collect();
    assert_eq!(codes, ["0", "1", "2", "9"]);
    assert!(contents.concept_groups.iter().any(|group| group.name == "feminine_gender"));
}

#[test]
fn an_engine_of_interface_0_1_0_is_installed_and_decides() {
    let test = TestLibrary::new();
    test.library.install(old_guest("0.1.0/engine.wasm"), now(), &|_| Ok(())).unwrap();
    assert_eq!(verdicts(&test, "true", 3).unwrap(), [Verdict::Eligible; 3]);
    let (summary, explanation) = told(&test, "true", 0);
    assert_eq!((summary, explanation), (None, Ok(None)), "it has no words for them");
    let fault = verdicts(&test, "panic in evaluate", 1).unwrap_err();
    assert!(matches!(&fault, EngineError::Fault(fault) if fault.kind == FaultKind::Trap), "{fault:?}");
    let budget = verdicts(&test, "allocate in compile", 1).unwrap_err();
    assert!(matches!(budget, EngineError::Exhausted { budget: "memory", .. }), "{budget:?}");
}
