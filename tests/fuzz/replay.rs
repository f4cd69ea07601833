//! Runs every target with the inputs of its corpus (seeds, and inputs for which a check failed once) and with mutations of
//! them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use daftar_fuzz::mutation::mutated;
use daftar_fuzz::{PROGRAMS, Target};

/// Number of mutations of each target, without another one in the environment.
const MUTATIONS: u64 = 500;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = read.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Runs one target in this test; a failure names every input that fails.
fn replay(name: &str) {
    let (program, target) = targets().find(|(_, target)| target.name == name).unwrap();
    let inputs = entries(&corpus().join(program).join(name));
    assert!(!inputs.is_empty(), "`corpus/{program}/{name}` has no input");
    let read: Vec<Vec<u8>> = inputs.iter().map(|path| fs::read(path).unwrap()).collect();
    let fails = |bytes: &[u8]| catch_unwind(|| (target.check)(bytes)).is_err();
    let failed: Vec<&PathBuf> =
        inputs.iter().zip(&read).filter(|(_, bytes)| fails(bytes)).map(|(path, _)| path).collect();
    assert!(failed.is_empty(), "these inputs fail: {failed:#?}");
    let bytes_max = target.bytes_max();
    for number in 0..mutations() {
        let bytes = mutated(&read, number, bytes_max);
        assert!(!fails(&bytes), "mutation {number} fails: \"{}\"", bytes.escape_ascii());
    }
}

/// Number of mutations of each target.
fn mutations() -> u64 {
    let number = std::env::var_os("DAFTAR_FUZZ_MUTATIONS");
    number.map_or(MUTATIONS, |number| number.to_str().unwrap().parse().unwrap())
}

/// Every target with its program.
fn targets() -> impl Iterator<Item = (&'static str, &'static Target)> {
    PROGRAMS.iter().flat_map(|(program, targets)| targets.iter().map(|target| (*program, target)))
}

macro_rules! replays {
    ($($name:ident)+) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })+

        /// The targets that are replayed here.
        const REPLAYED: &[&str] = &[$(stringify!($name)),+];
    };
}

replays! {
    backup checkpoint code_list forwarded identifier pack_source package path query record_body rule stored_record token token_request
}

#[test]
fn every_target_is_replayed_and_has_a_corpus_within_its_limit() {
    let names: BTreeSet<&str> = targets().map(|(_, target)| target.name).collect();
    assert_eq!(names, REPLAYED.iter().copied().collect());
    let folder = |program: &str, target: &Target| corpus().join(program).join(target.name);
    let expected: BTreeSet<PathBuf> = targets().map(|(program, target)| folder(program, target)).collect();
    let folders = entries(&corpus()).into_iter().flat_map(|program| entries(&program));
    assert_eq!(folders.collect::<BTreeSet<_>>(), expected, "each folder is of a target");
    for (program, target) in targets() {
        // The fuzzer would try the first part of a longer input only.
        let is_long = |file: &PathBuf| fs::metadata(file).unwrap().len() > target.bytes_max() as u64;
        let long: Vec<PathBuf> = entries(&folder(program, target)).into_iter().filter(is_long).collect();
        assert!(long.is_empty(), "longer than the {} bytes of `limits.tsv`: {long:#?}", target.bytes_max());
    }
}
