//! How many files the process may have open.

use rustix::process::{Resource, getrlimit};

use super::Patient;
use crate::app::serve::descriptors::OTHERS;
use daftar_domain::checkup::{Check, CheckArea};

const AREA: CheckArea = CheckArea::OpenFiles;

/// Compares the limit with `[server.connections] max`.
pub(super) fn examine(patient: &Patient) -> Vec<Check> {
    // A server raises its limit as far as it may.
    let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    vec![judge(patient.config.server.connections.max, most)]
}

fn judge(connections: u64, most: u64) -> Check {
    let wanted = connections.saturating_add(OTHERS);
    if most >= wanted {
        let message = format!("a process of this account may have {} files open, and {wanted} are wanted", shown(most));
        return Check::ok(AREA, "limit", message);
    }
    let message = format!(
        "a process of this account may have {most} files open, and `server.connections.max` of {connections} wants {wanted}: fewer connections are taken"
    );
    let remedy = format!(
        "`LimitNOFILE={wanted}` in the systemd unit (or `ulimit -Hn {wanted}` as root), or a lower `server.connections.max`"
    );
    Check::warning(AREA, "limit", message, remedy)
}

fn shown(limit: u64) -> String {
    if limit == u64::MAX { "any number of".to_owned() } else { limit.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::checkup::CheckState;

    #[test]
    fn fewer_files_than_connections_need_are_warned_of() {
        assert_eq!(judge(4_096, 4_096 + OTHERS).state, CheckState::Ok);
        let short = judge(4_096, 4_095 + OTHERS);
        assert_eq!(short.state, CheckState::Warning);
        assert!(short.remedy.unwrap().contains(&format!("LimitNOFILE={}", 4_096 + OTHERS)));
        assert_eq!(judge(100_000, u64::MAX).state, CheckState::Ok);
    }
}
