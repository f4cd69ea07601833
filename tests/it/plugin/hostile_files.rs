//! Files that are no plugins, sent to a server that serves on: nothing, noise, zeros, halves, and what only looks like
//! one.

use std::fs;

use daftar_tests::process::run;
use daftar_tests::records::{FEMALE, person};
use daftar_tests::{TestApp, artifacts};
use serde_json::json;

/// Bytes without any order, the same ones each time.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn files_that_are_not_plugins_are_rejected_at_their_step_and_the_server_continues() {
    let app = TestApp::start();
    let admin = app.admin();
    let client = app.client(&["individual:all"]);
    let installed = admin.plugin_names();
    let whole = fs::read(artifacts::plugin("gender")).unwrap();
    let module = fs::read(artifacts::plugins().join("../guests/codelist.wasm")).unwrap();
    let component_header = b"\0asm\x0d\0\x01\0";
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("nothing", Vec::new(), "unreadable"),
        ("noise", noise(1 << 20), "unreadable"),
        ("noise after a header", [&component_header[..], &noise(1 << 16)].concat(), "unreadable"),
        ("64 MiB of zeros", vec![0; 64 << 20], "unreadable"),
        ("64 MiB of zeros with a header", [&component_header[..], &vec![0; (64 << 20) - 8]].concat(), "unreadable"),
        ("a core module", module, "not_a_component"),
        ("a component of nothing", component_header.to_vec(), "manifest"),
        ("the first byte", whole[..1].to_vec(), "unreadable"),
        ("a header cut in half", whole[..6].to_vec(), "unreadable"),
        ("half of a pack", whole[..whole.len() / 2].to_vec(), "unreadable"),
        ("all but the last byte", whole[..whole.len() - 1].to_vec(), "unreadable"),
    ];
    for (number, (what, file, step)) in cases.into_iter().enumerate() {
        let refused = admin.install(&file).expect(422);
        let reported = format!("was rejected at step `{step}`: ");
        assert!(refused.detail().contains(&reported) && refused.detail().len() < 1_000, "{what}: {}", refused.detail());
        drop(client.create_individual(&person(&number.to_string(), json!({"gender": FEMALE}))));
    }
    let too_large = admin.install(&vec![0; (64 << 20) + 1]).expect(413);
    assert!(too_large.detail().contains("67108864"), "{}", too_large.detail());
    assert_eq!(admin.plugin_names(), installed);
}

#[test]
fn a_file_that_cannot_be_sent_is_refused_before_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("zeros.wasm");
    fs::File::create(&file).unwrap().set_len((64 << 20) + 1).unwrap();
    for (path, reason) in [(file.as_path(), "`too_large`"), (folder.path(), "not a file")] {
        for command in ["inspect", "install"] {
            let refused = run(folder.path(), &["plugin", command, path.to_str().unwrap()]);
            assert!(refused.code == 66 && refused.stderr.contains(reason), "{command}: {refused:?}");
        }
    }
}
