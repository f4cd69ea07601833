//! Which program it is, and what shells and `man` are given.

use std::process::{Command, Stdio};

use daftar_tests::artifacts;
use daftar_tests::process::run;
use serde_json::json;

#[test]
fn the_version_names_protocols_and_formats() {
    let folder = tempfile::tempdir().unwrap();
    let message = run(folder.path(), &["version", "--json"]).expect_success().json();
    assert_eq!(message["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(message["plugin_interfaces"], json!(["daftar:plugin@0.1.0"]));
    assert_eq!(
        (&message["api"], &message["store_layout"], &message["backup_format"]),
        (&json!("2.0.0"), &json!(1), &json!(1))
    );
    assert!(message["wasmtime"].as_str().unwrap().starts_with("48."), "{message}");
    assert!(message["rustc"].as_str().unwrap().starts_with("rustc 1."), "{message}");
    assert!(message["target"].as_str().unwrap().contains("linux"), "{message}");
    assert!(message["pinned_plugins"].as_u64().unwrap() > 10, "{message}");
    // Tests run a development build, which does not know its commit and says so.
    assert_eq!((&message["commit"], &message["committed_at"]), (&json!(null), &json!(null)));
    let text = run(folder.path(), &["version"]).expect_success().stdout;
    assert!(text.contains("commit             not recorded"), "{text}");
    let short = run(folder.path(), &["--version"]).expect_success().stdout;
    assert_eq!(short, format!("daftar {} (commit not recorded)\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn bash_completes_commands_options_and_values() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("daftar.bash");
    std::fs::write(&script, run(folder.path(), &["completions", "bash"]).expect_success().stdout).unwrap();
    let complete = |words: &[&str]| -> Vec<String> {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let last = words.len() - 1;
        let requested = format!(
            "source '{}'; COMP_WORDS=({}); COMP_CWORD={last}; COMP_LINE='{}'; COMP_POINT=${{#COMP_LINE}}; \
             _daftar daftar '{}' '{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            script.display(),
            quoted.join(" "),
            words.join(" "),
            words[last],
            words[last.saturating_sub(1)],
        );
        let output = Command::new("bash").args(["--norc", "-c", &requested]).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    };
    assert_eq!(complete(&["daftar", "ver"]), ["verify", "version"]);
    assert!(complete(&["daftar", "client", "rot"]).contains(&"rotate-secret".to_owned()));
    assert_eq!(complete(&["daftar", "client", "create", "--leg"]), ["--legal-basis"]);
    assert_eq!(complete(&["daftar", "import", "--on-existing", "s"]), ["skip"]);
    assert_eq!(complete(&["daftar", "compile"]), [""], "what servers run is not offered");
}

#[test]
fn every_shell_and_every_command_has_its_own() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(folder.path(), &["completions", shell]).expect_success().stdout;
        assert!(script.contains("rotate-secret"), "{shell}");
    }
    let man = folder.path().join("man");
    drop(run(folder.path(), &["manual", man.to_str().unwrap()]).expect_success());
    for page in ["daftar.1", "daftar-doctor.1", "daftar-client-create.1", "daftar-plugin-install.1"] {
        let text = std::fs::read_to_string(man.join(page)).unwrap();
        assert!(text.contains(".TH"), "{page}");
    }
    assert!(artifacts::program().is_file());
}
