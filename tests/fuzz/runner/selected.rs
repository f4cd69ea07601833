//! The target that the environment names. One program has several targets, because linking it takes longer than most runs.

use std::sync::LazyLock;

use daftar_fuzz::Target;

/// The environment variable with the name of the target.
const TARGET: &str = "DAFTAR_FUZZ_TARGET";

static SELECTED: LazyLock<&'static Target> = LazyLock::new(|| {
    let name = std::env::var(TARGET).unwrap_or_default();
    daftar_fuzz::find(&name).unwrap_or_else(|| {
        let targets = daftar_fuzz::PROGRAMS.iter().flat_map(|(_, targets)| targets.iter());
        let known: Vec<&str> = targets.map(|target| target.name).collect();
        panic!("`{TARGET}` is `{name}`; this program has the targets {}", known.join(", "))
    })
});

pub fn check(input: &[u8]) {
    (SELECTED.check)(input);
}
