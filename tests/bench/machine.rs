//! The machine that figures are of, and how much of its processors and memory a process has used.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use crate::report::Spread;

/// Ticks of processor time per second in `/proc` (`USER_HZ` of Linux).
const TICKS_PER_SECOND: f64 = 100.0;
/// Number of writes and syncs of a page by which the time of a sync is measured.
const SYNCS: usize = 200;

/// A machine.
pub struct Machine {
    processor: String,
    cores: usize,
    memory_gib: f64,
    kernel: String,
    /// Milliseconds of one `fdatasync` after a write of 4 KiB.
    fdatasync_ms: Spread,
}

impl Machine {
    /// The one that this runs on, with the disk of `folder`.
    pub fn of(folder: &Path) -> Result<Self, String> {
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor = field(&processors, "model name").unwrap_or("unknown").to_owned();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Ok(Self {
            processor,
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: kib(&memory, "MemTotal") / 1_048_576.0,
            kernel: kernel.trim().to_owned(),
            fdatasync_ms: fdatasync_ms(folder).map_err(|error| error.to_string())?,
        })
    }

    /// As it is written into reports.
    pub fn json(&self) -> Value {
        let Self { processor, cores, memory_gib, kernel, fdatasync_ms } = self;
        json!({
            "processor": processor,
            "cores": cores,
            "memory_gib": memory_gib.round(),
            "kernel": kernel,
            "fdatasync_ms": fdatasync_ms.median,
            "fdatasync_most_ms": fdatasync_ms.high,
        })
    }
}

fn fdatasync_ms(folder: &Path) -> std::io::Result<Spread> {
    let file = fs::File::create(folder.join("fdatasync"))?;
    let page = [7; 4_096];
    let mut times = Vec::with_capacity(SYNCS);
    for number in 0..SYNCS {
        let started = Instant::now();
        file.write_all_at(&page, (number * page.len()) as u64)?;
        file.sync_data()?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    fs::remove_file(folder.join("fdatasync"))?;
    Ok(Spread::of(times))
}

fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim())
}

fn kib(text: &str, name: &str) -> f64 {
    let number = field(text, name).and_then(|value| value.trim_end_matches(" kB").parse().ok());
    number.unwrap_or_default()
}

/// The memory of a process that is in use, in MiB.
pub fn resident_mib(pid: u32) -> f64 {
    kib(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default(), "VmRSS") / 1_024.0
}

/// The seconds of processors that a process has used, with those of its children.
pub fn processor_seconds(pid: u32) -> f64 {
    let ticks = fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|stat| ticks(&stat)).unwrap_or_default();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks.flat_map(|task| {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<u32>>()
    });
    ticks / TICKS_PER_SECOND + children.map(processor_seconds).sum::<f64>()
}

/// The fields 14 to 17 of the line, counted behind the name, which may hold anything: its own and those of children
/// that ended.
fn ticks(stat: &str) -> Option<f64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let fields = behind_name.split_whitespace().skip(11).take(4);
    fields.map(|field| field.parse::<f64>().ok()).sum()
}

/// The bytes of all files below a folder.
pub fn bytes_below(folder: &Path) -> Result<u64, String> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let entry = entry.map_err(|error| error.to_string())?;
        let about = entry.metadata().map_err(|error| error.to_string())?;
        bytes += if about.is_dir() { bytes_below(&entry.path())? } else { about.len() };
    }
    Ok(bytes)
}

/// Bytes as MiB.
pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}
