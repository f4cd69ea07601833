//! How much time of the processors a program has used.

use std::fs;

/// What Linux counts in, for programs that ask (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// The seconds that a process has used, with those of its children, of which it has waited for some.
pub fn seconds(pid: u32) -> f64 {
    let ticks = fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|stat| ticks(&stat)).unwrap_or_default();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks.flat_map(|task| {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<u32>>()
    });
    ticks / TICKS_PER_SECOND + children.map(seconds).sum::<f64>()
}

/// What it used itself and what children used that have ended: the fields 14 to 17 of the line, counted behind the name, which may hold
/// anything.
fn ticks(stat: &str) -> Option<f64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let fields = behind_name.split_whitespace().skip(11).take(4);
    fields.map(|field| field.parse::<f64>().ok()).sum()
}
