//! Settings that cannot be used: the server does not start, says which key is wrong, and exits with 64.

use std::path::Path;

use daftar_tests::Server;
use daftar_tests::process::{Finished, create_client, run};

const CONFIG_ERROR: i32 = 78;

fn serve(data_dir: &Path, arguments: &[&str]) -> Finished {
    run(data_dir, &[&["serve"], arguments].concat())
}

fn with_config(text: &str) -> Finished {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("daftar.toml");
    std::fs::write(&file, text).unwrap();
    let finished = serve(&folder.path().join("data"), &["--config", file.to_str().unwrap()]);
    assert!(!folder.path().join("data").exists(), "nothing is made before the settings are known to be right");
    finished
}

#[test]
fn plain_http_stays_on_loopback() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    for (flag, address, key) in [
        ("--listen", "0.0.0.0:0", "server.listen"),
        ("--listen", "[::]:0", "server.listen"),
        ("--listen", "192.0.2.1:80", "server.listen"),
        ("--admin-listen", "0.0.0.0:0", "server.admin_listen"),
    ] {
        let refused = serve(&data_dir, &[flag, address]);
        assert_eq!(refused.code, CONFIG_ERROR, "{refused:?}");
        assert!(refused.stderr.contains(&format!("`{key}` is {address}")), "{refused:?}");
    }
    let refused = with_config("[server]\nlisten = '0.0.0.0:8080'\n");
    assert_eq!(refused.code, CONFIG_ERROR, "{refused:?}");
    assert!(refused.stderr.contains("server.tls.cert"), "{refused:?}");
}

#[test]
fn unknown_keys_and_bad_values_are_named() {
    for (text, what) in [
        ("[server]\nlistne = '127.0.0.1:1'\n", "unknown key `server.listne`; did you mean `server.listen`?"),
        ("[tokn]\n", "unknown key `tokn`; did you mean `token`?"),
        ("[server]\nlisten = 8080\n", "listen"),
        ("[server]\nlisten = 'localhost'\n", "listen"),
        ("[server\n", "not TOML"),
        ("[token]\nlifetime_s = 1\n", "`token.lifetime_s`"),
        ("[log]\nlevel = 'loud'\n", "level"),
        ("[server]\npublic_url = 'registry.example'\n", "`server.public_url`"),
    ] {
        let refused = with_config(text);
        assert_eq!(refused.code, CONFIG_ERROR, "{text}: {refused:?}");
        assert!(refused.stderr.contains(what), "{text}: {refused:?}");
        assert!(refused.stderr.contains("daftar.toml"), "{text}: {refused:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let refused = serve(folder.path(), &["--config", "/nowhere/daftar.toml"]);
    assert_eq!(refused.code, CONFIG_ERROR, "{refused:?}");
    assert!(refused.stderr.contains("/nowhere/daftar.toml"), "{refused:?}");
}

#[test]
fn an_address_or_a_folder_in_use_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let server = daftar_tests::Server::serve(&data_dir, &[]);
    let address = server.url.strip_prefix("http://").unwrap();
    let other = folder.path().join("other");
    let refused = serve(&other, &["--listen", address, "--admin-listen", "127.0.0.1:0"]);
    assert!(refused.code == 69 && refused.stderr.contains(address), "{refused:?}");
    let refused = serve(&data_dir, &["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    assert!(refused.code == 69 && refused.stderr.contains("in use"), "{refused:?}");
    let token = daftar_tests::token::PATH;
    assert_eq!(server.connection().request("GET", token).send().status, 405, "the first one serves on");
    drop(server.stop().expect_success());
}

#[test]
fn wrong_usage_is_reported_by_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["fly"][..], &["serve", "--listen", "nowhere"], &["client", "show"], &["client", "create"]] {
        let refused = run(folder.path(), arguments);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains("Usage") || refused.stderr.contains("--help"), "{refused:?}");
    }
}

#[test]
fn records_live_where_the_settings_say() {
    let folder = tempfile::tempdir().unwrap();
    let (data_dir, elsewhere) = (folder.path().join("data"), folder.path().join("disk/records"));
    let file = folder.path().join("daftar.toml");
    std::fs::write(&file, format!("[store]\npath = '{}'\n", elsewhere.display())).unwrap();
    let config = ["--config", file.to_str().unwrap()];
    let server = Server::serve(&data_dir, &config);
    let id = create_client(&data_dir, &["individual:read"]).id;
    drop(server.stop().expect_success());
    assert!(elsewhere.read_dir().unwrap().next().is_some() && !data_dir.join("store").exists());
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&elsewhere).unwrap().permissions().mode() & 0o777, 0o700);
    let found = run(&data_dir, &[&["client", "show", &id, "--json"][..], &config].concat()).expect_success().json();
    assert_eq!(found["client_id"], id.as_str());
}
