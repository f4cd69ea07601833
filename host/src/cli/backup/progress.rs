//! How far a backup or a restore is: a bar on a terminal, a line for each tenth otherwise.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::output;
use daftar_service::backup::Head;

/// Fewer things than this are over at once: nothing is said of how far it is.
const TOLD_FROM: u64 = 10_000;

/// Says how far it is.
pub(in crate::cli) struct Progress {
    bar: ProgressBar,
    /// What is done, such as `backed up`.
    done: &'static str,
    says_lines: bool,
    tenths: u64,
}

impl Progress {
    /// Nothing yet. Nothing is ever said where the command writes JSON.
    pub(in crate::cli) fn new(is_json: bool, done: &'static str) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let bar = if is_json || !is_terminal { ProgressBar::hidden() } else { ProgressBar::new(0) };
        let style = ProgressStyle::with_template("{msg} [{wide_bar}] {human_pos}/~{human_len} {per_sec} {eta}");
        let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())).with_message(done);
        Self { bar, done, says_lines: !is_json && !is_terminal, tenths: 0 }
    }

    /// So many things are done.
    pub(in crate::cli) fn at(&mut self, head: &Head, things: u64) {
        self.at_about(head.about(), things);
    }

    /// So many things of about so many are done.
    pub(in crate::cli) fn at_about(&mut self, about: u64, things: u64) {
        let about = about.max(things);
        self.bar.set_length(about);
        self.bar.set_position(things);
        let tenths = things.saturating_mul(10).checked_div(about).unwrap_or_default();
        if self.says_lines && about >= TOLD_FROM && tenths > self.tenths {
            self.tenths = tenths;
            output::note(format_args!("{} {things} of about {about} things", self.done));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
