//! Keys and the administrator's token: there, private, strong, not too old.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{Patient, SIGNING_KEY_DAYS_MAX};
use daftar_auth::admin_token::{ADMIN_TOKEN_FILE, AdminToken, AdminTokenError};
use daftar_auth::key_folder::{self, KeyFile};
use daftar_auth::keys::KEY_FOLDER;
use daftar_domain::checkup::{Check, CheckArea};

const AREA: CheckArea = CheckArea::Keys;
const SECONDS_OF_A_DAY: i64 = 86_400;

/// Looks at every file of keys.
pub(super) fn examine(patient: &Patient) -> Vec<Check> {
    if !patient.data_dir.is_dir() {
        return Vec::new();
    }
    let home = patient.config.store.keys_home(&patient.data_dir);
    let folder = home.join(KEY_FOLDER);
    let mut checks: Vec<Check> = folder_mode(&folder).into_iter().collect();
    checks.extend(key_folder::look(&home).into_iter().map(|file| key_file(patient, file)));
    checks.push(admin_token(patient));
    checks
}

fn folder_mode(folder: &Path) -> Option<Check> {
    // Where there is none, the files in it are told of.
    let mode = fs::metadata(folder).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then(|| {
        let shown = Patient::shown(folder);
        let message = format!("other accounts may look into {shown} (mode {mode:03o}), and no server starts with it");
        Check::problem(AREA, "mode", message, format_args!("`chmod 700 {}`", folder.display()))
    })
}

fn key_file(patient: &Patient, file: KeyFile) -> Check {
    let shown = Patient::shown(&file.path);
    let (what, is_signing) = (file.purpose, file.is_signing);
    match file.newest {
        Err(reason) => Check::problem(
            AREA,
            "usable",
            reason,
            format_args!("without {what} no server starts: mend {shown} as told"),
        ),
        Ok(None) if !patient.has_register() => {
            Check::ok(AREA, "usable", format_args!("{shown} is made when the server is first started"))
        }
        Ok(None) => {
            let remedy = format!(
                "put {shown} back from a backup: `daftar restore` into another folder brings it. A new one is made at the next start, and what was made with the old one is refused"
            );
            Check::problem(AREA, "usable", format_args!("{shown} is gone ({what}), and there is a register"), remedy)
        }
        Ok(Some(made)) => {
            let days = patient.now.duration_since(made).as_secs().div_euclid(SECONDS_OF_A_DAY);
            if is_signing && days > SIGNING_KEY_DAYS_MAX {
                let message = format!("the key that signs tokens is {days} days old");
                let remedy = format!(
                    "`daftar key rotate --data-dir {}`: a new one signs at once, tokens of the old one stay good until they expire",
                    patient.data_dir.display()
                );
                return Check::warning(AREA, "age", message, remedy);
            }
            let days = days.max(0);
            Check::ok(AREA, "usable", format_args!("{shown} is private and sound, its newest key {days} days old"))
        }
    }
}

fn admin_token(patient: &Patient) -> Check {
    let path = patient.data_dir.join(ADMIN_TOKEN_FILE);
    match AdminToken::load_file(&path) {
        Ok(_) => Check::ok(AREA, "admin_token", format_args!("{} is private and long enough", Patient::shown(&path))),
        Err(AdminTokenError::Absent(_)) => {
            let message = format!("{} is made when the server is next started", Patient::shown(&path));
            Check::ok(AREA, "admin_token", message)
        }
        Err(error @ (AdminTokenError::File(_) | AdminTokenError::Unusable(_) | AdminTokenError::Entropy(_))) => {
            let remedy = format!(
                "`chmod 600 {0}` if nobody else has read it; else `rm {0}`: the next start makes another token",
                path.display()
            );
            Check::problem(AREA, "admin_token", error, remedy)
        }
    }
}
