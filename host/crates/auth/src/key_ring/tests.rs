//! Tests of key rotation: the signing key, the accepted keys and the file, also after a crash.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use secrecy::ExposeSecret;
use tempfile::TempDir;

use super::*;
use crate::fixtures::at;
use crate::keys::{TOKEN_KEY_FILE, TokenKeys};
use crate::token::{self, TokenDefect, TokenFault};
use daftar_domain::client::ClientId;
use daftar_domain::config::TokenConfig;
use daftar_domain::scope::ScopeSet;

const DAY_S: u64 = 86_400;
const DAY: i64 = 86_400;
const MARGIN: i64 = 60;

fn ring(folder: &TempDir, now: i64) -> KeyRing {
    KeyRing::load_or_create(folder.path(), DAY_S, at(now)).unwrap()
}

fn rotate(ring: &KeyRing, now: i64) {
    ring.carry_out(ring.prepare(None, at(now)).unwrap(), at(now)).unwrap();
}

fn signed(ring: &KeyRing, now: i64) -> String {
    let id = ClientId::parse("c").unwrap();
    let config = TokenConfig::default();
    let issued = token::issue(&ring.load(), &config, &id, &ScopeSet::default(), "j".to_owned(), at(now)).unwrap();
    issued.text.expose_secret().to_owned()
}

fn fault(ring: &KeyRing, text: &str, now: i64) -> Option<TokenFault> {
    token::verify(text, &ring.load(), &TokenConfig::default(), at(now)).err()
}

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join(KEY_FOLDER).join(TOKEN_KEY_FILE)
}

fn ids(ring: &KeyRing) -> Vec<String> {
    ring.load().all().map(|key| key.id().to_owned()).collect()
}

#[test]
fn an_old_token_is_valid_until_it_expires_and_its_key_is_then_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let ring = ring(&folder, 0);
    let first = ids(&ring);
    let last_before = signed(&ring, 1_000);
    rotate(&ring, 1_000);
    assert_eq!(ids(&ring).len(), 2);
    assert_eq!(ids(&ring)[1], first[0], "the new key is first");
    assert_eq!(fault(&ring, &last_before, 1_000 + DAY - 1), None, "valid to its last second");
    assert_eq!(ring.drop_expired(at(1_000 + DAY)).unwrap(), Vec::<String>::new(), "the key is retained for a margin");
    assert_eq!(fault(&ring, &last_before, 1_000 + DAY), Some(TokenFault::Expired));
    let over = 1_000 + DAY + MARGIN;
    let unknown = Some(TokenFault::Malformed(TokenDefect::UnknownKey));
    assert_eq!(fault(&ring, &last_before, over), unknown, "before the key is dropped");
    assert_eq!(ring.drop_expired(at(over)).unwrap(), first);
    assert_eq!(ids(&ring).len(), 1);
    assert_eq!(key_file::load(&file(&folder)).unwrap().unwrap().len(), 1, "on disk too");
    assert_eq!(fault(&ring, &last_before, 1_001), unknown, "a clock set back does not restore it");
    assert_eq!(fault(&ring, &signed(&ring, over), over + 1), None);
}

#[test]
fn a_restart_keeps_the_keys_and_their_expiry() {
    let folder = tempfile::tempdir().unwrap();
    let before = ring(&folder, 0);
    let token = signed(&before, 10);
    rotate(&before, 20);
    let after = ring(&folder, 30);
    assert_eq!(ids(&after), ids(&before));
    assert_eq!(fault(&after, &token, 40), None);
    assert_eq!(fault(&after, &signed(&before, 50), 50), None);
    let over = 20 + DAY + MARGIN;
    let later = ring(&folder, over);
    assert!(later.load().find(&ids(&before)[1], at(over)).is_none(), "no longer accepted");
    assert_eq!(later.drop_expired(at(over)).unwrap(), ids(&before)[1..]);
    assert_eq!(ids(&ring(&folder, over)), ids(&before)[..1]);
}

#[test]
fn only_the_owner_may_read_the_file_and_temporary_files_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let ring = ring(&folder, 0);
    rotate(&ring, 1);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file(&folder)), mode(&folder.path().join(KEY_FOLDER))), (0o600, 0o700));
    // A crash after the temporary file was written and before it was renamed.
    let unfinished = folder.path().join(KEY_FOLDER).join(".daftar-Ab3xYz");
    fs::copy(file(&folder), &unfinished).unwrap();
    // It may be of another server at first.
    KeyRing::load_or_create(folder.path(), DAY_S, at(2)).unwrap();
    assert!(unfinished.exists());
    let hour_ago = fs::metadata(&unfinished).unwrap().modified().unwrap() - Duration::from_secs(3_600);
    fs::File::open(&unfinished).unwrap().set_modified(hour_ago).unwrap();
    let again = KeyRing::load_or_create(folder.path(), DAY_S, at(2)).unwrap();
    assert_eq!(ids(&again), ids(&ring));
    assert!(!unfinished.exists());
}

#[test]
fn servers_that_start_at_once_use_the_same_first_key() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let start = || {
            let ring = KeyRing::load_or_create(folder.path(), DAY_S, at(0)).unwrap();
            let decisions = DecisionKeyRing::load_or_create(folder.path(), at(0)).unwrap();
            (ids(&ring), decisions.load().current().id().to_owned())
        };
        let started: Vec<_> = std::thread::scope(|scope| {
            let servers: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
            servers.into_iter().map(|server| server.join().unwrap()).collect()
        });
        assert!(started.iter().all(|keys| *keys == started[0]), "{started:?}");
    }
}

#[test]
fn a_crash_before_the_new_key_signs_leaves_both_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let dying = ring(&folder, 0);
    let rotation = dying.prepare(None, at(5)).unwrap();
    assert_eq!(rotation.replaced_id(), dying.load().current().id());
    let new = rotation.new_id().to_owned();
    dying.carry_out(rotation, at(5)).unwrap();
    // The last token of the old process, which did not know of the new key.
    let id = ClientId::parse("c").unwrap();
    let old_keys = TokenKeys::new(&key_file::load(&file(&folder)).unwrap().unwrap()[1..]).unwrap();
    let config = TokenConfig::default();
    let issued = token::issue(&old_keys, &config, &id, &ScopeSet::default(), "j".to_owned(), at(60)).unwrap();
    let next = ring(&folder, 70);
    assert_eq!(next.load().current().id(), new);
    assert_eq!(fault(&next, issued.text.expose_secret(), 60 + DAY - 1), None, "the margin covers it");
}

#[test]
fn an_overlap_shorter_than_the_life_of_a_token_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let ring = ring(&folder, 0);
    for overlap_s in [0, 1, DAY_S - 1, TOKEN_LIFETIME_S_MAX + 1, u64::MAX] {
        let refused = ring.prepare(Some(overlap_s), at(1)).err().unwrap();
        assert!(matches!(refused, RotationError::Overlap { least_s: DAY_S }), "{refused}");
        assert!(refused.to_string().contains("at least 86400 seconds"), "{refused}");
    }
    for overlap_s in [DAY_S, DAY_S + 1, TOKEN_LIFETIME_S_MAX] {
        let until = ring.prepare(Some(overlap_s), at(1)).unwrap().accepted_until();
        assert_eq!(until, Some(at(1 + i64::try_from(overlap_s).unwrap() + MARGIN)));
    }
}

#[test]
fn a_longer_earlier_lifetime_is_respected() {
    let folder = tempfile::tempdir().unwrap();
    drop(KeyRing::load_or_create(folder.path(), 60, at(0)).unwrap());
    KeyRing::load_or_create(folder.path(), 7 * DAY_S, at(1)).unwrap().raise_lifetime().unwrap();
    let shorter = KeyRing::load_or_create(folder.path(), 60, at(2)).unwrap();
    assert_eq!(shorter.prepare(None, at(3)).unwrap().accepted_until(), Some(at(3 + 7 * DAY + MARGIN)));
    rotate(&shorter, 3);
    assert_eq!(shorter.load().current().lifetime_s(), 60, "the new key signs no longer-lived tokens");
}

#[test]
fn a_start_replaces_no_key_file_and_tokens_live_no_longer_than_their_key_is_retained() {
    let folder = tempfile::tempdir().unwrap();
    drop(KeyRing::load_or_create(folder.path(), 60, at(0)).unwrap());
    let written = FileStamp::of(&file(&folder));
    let longer = ring(&folder, 1);
    assert_eq!(FileStamp::of(&file(&folder)), written, "another server may be rotating keys");
    assert!(longer.must_raise_lifetime());
    let lives_until = |second| fault(&longer, &signed(&longer, 10), 10 + second - 1).is_none();
    assert!(lives_until(60) && !lives_until(61));
    longer.raise_lifetime().unwrap();
    assert!(lives_until(DAY) && !lives_until(DAY + 1));
}

#[test]
fn a_longer_lifetime_of_another_process_is_respected() {
    let folder = tempfile::tempdir().unwrap();
    let shorter = ring(&folder, 0);
    let longer = KeyRing::load_or_create(folder.path(), 7 * DAY_S, at(1)).unwrap();
    longer.raise_lifetime().unwrap();
    assert!(shorter.reload().unwrap() && !shorter.must_raise_lifetime());
    assert_eq!(shorter.prepare(None, at(2)).unwrap().accepted_until(), Some(at(2 + 7 * DAY + MARGIN)));
    rotate(&shorter, 2);
    assert!(longer.reload().unwrap() && longer.must_raise_lifetime(), "the new key was generated for a day");
    longer.raise_lifetime().unwrap();
    assert!(!longer.must_raise_lifetime());
    assert!(shorter.reload().unwrap());
    rotate(&shorter, 3);
    let replaced = shorter.load().all().nth(1).and_then(|key| key.accepted_until());
    assert_eq!(replaced, Some(at(3 + 7 * DAY + MARGIN)));
}

#[test]
fn a_lifetime_is_raised_only_if_it_is_shorter() {
    let folder = tempfile::tempdir().unwrap();
    let ring = ring(&folder, 0);
    let written = FileStamp::of(&file(&folder));
    ring.raise_lifetime().unwrap();
    assert_eq!(FileStamp::of(&file(&folder)), written);
    let decisions = DecisionKeyRing::load_or_create(folder.path(), at(0)).unwrap();
    assert!(!ring.must_raise_lifetime() && !decisions.must_raise_lifetime());
}

#[test]
fn a_key_without_a_recorded_lifetime_is_retained_for_the_longest_time() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(KEY_FOLDER)).unwrap();
    fs::set_permissions(folder.path().join(KEY_FOLDER), fs::Permissions::from_mode(0o700)).unwrap();
    drop(key_file::load_or_create(&file(&folder), None, at(0)).unwrap());
    let ring = ring(&folder, 1);
    let month = i64::try_from(TOKEN_LIFETIME_S_MAX).unwrap();
    assert_eq!(ring.prepare(None, at(2)).unwrap().accepted_until(), Some(at(2 + month + MARGIN)));
}

#[test]
fn the_number_of_keys_is_limited() {
    let folder = tempfile::tempdir().unwrap();
    let ring = ring(&folder, 0);
    for now in 1..8 {
        rotate(&ring, now);
    }
    assert_eq!(ids(&ring).len(), TokenMaterial::RETAINED_MAX);
    let refused = ring.prepare(None, at(8)).err().unwrap();
    assert!(matches!(refused, RotationError::Full { until, .. } if until == at(1 + DAY + MARGIN)), "{refused}");
    let room = 1 + DAY + MARGIN;
    rotate(&ring, room);
    assert_eq!(ids(&ring).len(), TokenMaterial::RETAINED_MAX, "the first key was dropped");
}

#[test]
fn an_edited_file_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let ring = ring(&folder, 0);
    let rotation = ring.prepare(None, at(1)).unwrap();
    let other = tempfile::tempdir().unwrap();
    drop(KeyRing::load_or_create(other.path(), DAY_S, at(0)).unwrap());
    fs::copy(file(&other), file(&folder)).unwrap();
    let before = ids(&ring);
    let refused = ring.carry_out(rotation, at(1)).unwrap_err();
    assert!(matches!(refused, KeyError::Changed(_)), "{refused}");
    fs::remove_file(file(&folder)).unwrap();
    let rotation = ring.prepare(None, at(2)).unwrap();
    assert!(matches!(ring.carry_out(rotation, at(2)), Err(KeyError::Changed(_))));
    assert_eq!(ids(&ring), before, "the old key continues to sign");
}

#[test]
fn two_concurrent_rotations_do_not_lose_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let ring = ring(&folder, 0);
    let (one, other) = (ring.prepare(None, at(1)).unwrap(), ring.prepare(None, at(1)).unwrap());
    ring.carry_out(one, at(1)).unwrap();
    assert!(
        matches!(ring.carry_out(other, at(1)), Err(KeyError::Changed(_))),
        "it replaces a key that no longer signs"
    );
    assert_eq!(ids(&ring).len(), 2);
}

#[test]
fn a_reload_of_all_keys_reports_a_rotation_of_any() {
    let folder = tempfile::tempdir().unwrap();
    let rings = || {
        let decisions = DecisionKeyRing::load_or_create(folder.path(), at(0)).unwrap();
        SigningKeyRings { tokens: Arc::new(ring(&folder, 0)), decisions: Arc::new(decisions) }
    };
    let (one, other) = (rings(), rings());
    for (now, of_tokens, of_decisions) in [(1, false, false), (2, true, false), (3, false, true), (4, true, true)] {
        if of_tokens {
            rotate(&one.tokens, now);
        }
        if of_decisions {
            one.decisions.carry_out(one.decisions.prepare(None, at(now)).unwrap(), at(now)).unwrap();
        }
        assert_eq!(other.reload().unwrap(), of_tokens || of_decisions, "{now}");
    }
}

#[test]
fn reload_applies_a_rotation_by_another_process_and_ignores_a_damaged_file() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = [ring(&folder, 0), ring(&folder, 0)];
    assert!(!other.reload().unwrap(), "nothing has changed");
    rotate(&one, 10);
    let token = signed(&one, 20);
    assert_eq!(fault(&other, &token, 20), Some(TokenFault::Malformed(TokenDefect::UnknownKey)));
    assert!(other.reload().unwrap());
    assert_eq!(fault(&other, &token, 20), None);
    assert_eq!(ids(&one), ids(&other));
    assert!(!other.reload().unwrap() && !one.reload().unwrap());
    rotate(&other, 30);
    assert!(one.reload().unwrap(), "either process may rotate");
    let known = ids(&one);
    fs::write(file(&folder), "{").unwrap();
    assert!(one.reload().is_err());
    fs::remove_file(file(&folder)).unwrap();
    assert!(one.reload().unwrap_err().to_string().contains("the file is missing"));
    assert_eq!(ids(&one), known);
}
