//! The file: its path, its permissions, and the detection of changes.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn a_file_is_written_whole_for_its_owner_and_never_over_another() {
    let (folder, file, app) = small();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let first = fs::read(&file).unwrap();
    assert!(first.starts_with(b"daftar-backup-file 1 {"));
    let refused = back_up(app.data_dir(), &file, &[]);
    assert_eq!((refused.code, refused.stdout.as_str()), (73, ""));
    assert!(refused.stderr.contains("is there already, and was left as it is"), "{refused:?}");
    assert_eq!(fs::read(&file).unwrap(), first);
    drop(back_up(app.data_dir(), &file, &["--force"]).expect_success());
    assert_ne!(fs::read(&file).unwrap(), first, "the audit log is longer");
    drop(check(&file).expect_success());
    let nowhere = back_up(app.data_dir(), &folder.path().join("no/such/folder/b"), &[]);
    assert_eq!(nowhere.code, 73);
    assert!(
        nowhere.stderr.contains("cannot write") && nowhere.stderr.contains("its folder does not exist"),
        "{nowhere:?}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left behind");
}

#[test]
fn a_backup_goes_to_standard_output_as_it_does_to_a_file() {
    let (folder, _, app) = small();
    let output = daftar_tests::process::command(app.data_dir(), &["backup", "-"]).output().unwrap();
    assert!(output.status.success());
    let file = folder.path().join("piped.daftar");
    fs::write(&file, &output.stdout).unwrap();
    assert_eq!(check(&file).expect_success().json()["counts"]["individuals"], 6);
    assert!(String::from_utf8_lossy(&output.stderr).contains("wrote the register as of write"));
}

#[test]
fn faults_of_a_file_are_reported_and_none_of_it_is_served() {
    let (folder, file, _app) = small();
    let whole = fs::read(&file).unwrap();
    let reported = check(&file).expect_success().json();
    assert_eq!((reported["bytes"].as_u64(), &reported["counts"]["individuals"]), (Some(whole.len() as u64), &json!(6)));
    let changed = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    let newer = [b"daftar-backup-file 2".as_slice(), &whole[20..]].concat();
    let cases = [
        ("cut", whole[..whole.len() - 1].to_vec(), "was truncated"),
        ("half", whole[..whole.len() / 2].to_vec(), "was truncated"),
        ("empty", Vec::new(), "this is no backup"),
        ("foreign", b"PK\x03\x04 and so on".to_vec(), "this is no backup"),
        ("newer", newer, "the backup is of format 2, and this daftar reads formats up to 1"),
        ("middle", changed(whole.len() / 2), "is damaged: its checksum is wrong"),
        ("last", changed(whole.len() - 1), "is damaged: its checksum is wrong"),
        ("longer", [whole.as_slice(), b"\n"].concat(), "continues after its end"),
    ];
    for (name, bytes, reason) in cases {
        let file = folder.path().join(name);
        fs::write(&file, bytes).unwrap();
        let refused = check(&file);
        assert_eq!((refused.code, refused.stdout.as_str()), (66, ""), "{name}");
        assert!(refused.stderr.contains(reason), "{name}: {}", refused.stderr);
        let data_dir = folder.path().join(format!("{name}.restored"));
        let refused = restore(&data_dir, &file);
        assert_eq!(refused.code, 66, "{name}");
        assert!(refused.stderr.contains(reason), "{name}: {}", refused.stderr);
        if data_dir.exists() {
            assert!(data_dir.join("restore.unfinished").exists(), "{name}");
            let served = run(&data_dir, &["client", "list"]);
            assert_eq!(served.code, 1, "{name}");
            assert!(served.stderr.contains("holds a restore that was not finished"), "{name}: {served:?}");
        }
    }
}

#[test]
fn a_restore_goes_into_an_empty_folder_only() {
    let (folder, file, app) = small();
    let refused = restore(app.data_dir(), &file);
    assert_eq!((refused.code, refused.stdout.as_str()), (73, ""));
    let text = &refused.stderr;
    assert!(
        text.contains("restored into an empty folder") && text.contains("`admin.token`") && text.contains("more"),
        "{text}"
    );

    let data_dir = folder.path().join("other");
    fs::create_dir(&data_dir).unwrap();
    fs::write(data_dir.join("notes.txt"), "mine").unwrap();
    assert!(restore(&data_dir, &file).stderr.contains("`notes.txt`"));
    assert_eq!(fs::read_dir(&data_dir).unwrap().count(), 1);
    fs::remove_file(data_dir.join("notes.txt")).unwrap();
    drop(restore(&data_dir, &file).expect_success());
    assert!(restore(&data_dir, &file).stderr.contains("restored into an empty folder"));
    let dry = run(&data_dir, &["restore", text_of(&file), "--dry-run"]).expect_success().stdout;
    assert!(dry.contains("is valid and can be restored completely") && dry.contains("individuals"), "{dry}");
}

fn text_of(path: &Path) -> &str {
    path.to_str().unwrap()
}
