//! How many files and sockets the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is open beside the connections of the public listener: the store, checkpoints, plugins, the administrator.
pub(in crate::app) const OTHERS: u64 = 512;

/// Sees to it that so many connections can be open, and says how many can be.
pub(super) fn make_room(connections: u64) -> u64 {
    let wanted = connections.saturating_add(OTHERS);
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return connections;
    }
    let possible = limit.maximum.unwrap_or(u64::MAX).min(wanted);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(possible), maximum: limit.maximum });
    let possible = if raised.is_ok() { possible } else { current };
    if possible >= wanted {
        return connections;
    }
    let fitting = possible.saturating_sub(OTHERS).max(possible / 2).max(1);
    tracing::warn!(
        connections.max = fitting,
        files.max = possible,
        "the process may not have as many files open as `[server.connections] max` needs, so fewer connections are taken; raise its limit (`ulimit -n`, `LimitNOFILE=`)"
    );
    fitting
}
