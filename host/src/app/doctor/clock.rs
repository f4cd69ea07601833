//! The clock: not before what was written last, not before the program was made, kept right by somebody.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use jiff::{SignedDuration, Timestamp};

use super::{Patient, age};
use daftar_domain::checkup::{Check, CheckArea};

const AREA: CheckArea = CheckArea::Clock;
/// By how much the newest file of the store may be ahead of the clock: two clocks of a network disk differ a little.
const AHEAD_MAX: SignedDuration = SignedDuration::from_secs(120);
/// After so long without a write a clock that leapt ahead is worth a look: tokens and consents would end at once.
const SILENCE_MAX: SignedDuration = SignedDuration::from_hours(24 * 365);
const SET_IT: &str = "set the machine's clock and let it be kept right: `timedatectl set-ntp true`, or chrony";

/// What the system says of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Right,
    ByNobody,
    NotTold,
}

/// Looks at the clock.
pub(super) fn examine(patient: &Patient) -> Vec<Check> {
    let mut checks: Vec<Check> =
        patient.built_from.map(|built| against_build(patient.now, built)).into_iter().collect();
    checks.extend(last_write(&patient.store()).map(|at| against_store(patient.now, at)));
    checks.push(told(kept(patient)));
    checks
}

/// When the newest file of the store was written, by the clock of then.
fn last_write(store: &Path) -> Option<Timestamp> {
    let entries = fs::read_dir(store).ok()?;
    let times = entries.filter_map(|entry| entry.ok()?.metadata().ok()?.modified().ok());
    times.max().and_then(|at| Timestamp::try_from(at).ok())
}

fn against_build(now: Timestamp, built: Timestamp) -> Check {
    if now < built {
        let message = format!("the clock shows {now}, and this program was made after {built}");
        return Check::problem(AREA, "build", message, SET_IT);
    }
    Check::ok(AREA, "build", format_args!("the clock shows {now}, after this program was made"))
}

fn against_store(now: Timestamp, at: Timestamp) -> Check {
    let ahead = at.duration_since(now);
    if ahead > AHEAD_MAX {
        let message = format!(
            "the clock shows {now}, and the register was written at {at}: the clock was put back, or was ahead then"
        );
        return Check::problem(AREA, "store", message, SET_IT);
    }
    if ahead < -SILENCE_MAX {
        let message =
            format!("the register was last written {}: is the clock, which shows {now}, right?", age(now, at));
        return Check::warning(AREA, "store", message, SET_IT);
    }
    Check::ok(AREA, "store", format_args!("the register was last written {}", age(now, at)))
}

fn told(kept: Kept) -> Check {
    match kept {
        Kept::Right => Check::ok(AREA, "ntp", "the system keeps the clock right"),
        Kept::ByNobody => {
            let message = "nothing keeps the clock right: tokens, consents and limits go by it";
            Check::warning(AREA, "ntp", message, "`timedatectl set-ntp true`, or install chrony")
        }
        Kept::NotTold => {
            let message = "whether something keeps the clock right cannot be told here, as in a container, whose clock is the machine's";
            Check::not_known(AREA, "ntp", message)
        }
    }
}

fn kept(patient: &Patient) -> Kept {
    if Path::new("/run/systemd/timesync/synchronized").exists() {
        return Kept::Right;
    }
    // A server starts no programs for this; a command does, where systemd answers.
    if patient.is_server() || !Path::new("/run/systemd/system").is_dir() {
        return Kept::NotTold;
    }
    let asked = Command::new("timedatectl")
        .args(["show", "--property=NTPSynchronized", "--value"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    match asked.as_ref().map(|output| output.stdout.trim_ascii()) {
        Ok(b"yes") => Kept::Right,
        Ok(b"no") => Kept::ByNobody,
        Ok(_) | Err(_) => Kept::NotTold,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::checkup::CheckState;

    #[test]
    fn a_clock_before_the_last_write_or_the_build_is_a_problem() {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let now = at("2026-03-01T12:00:00Z");
        for (written, state) in [
            ("2026-03-01T12:02:00Z", CheckState::Ok),
            ("2026-03-01T12:02:01Z", CheckState::Problem),
            ("2025-03-01T12:00:00Z", CheckState::Ok),
            ("2025-03-01T11:59:59Z", CheckState::Warning),
        ] {
            assert_eq!(against_store(now, at(written)).state, state, "{written}");
        }
        assert_eq!(against_build(now, at("2026-03-01T12:00:01Z")).state, CheckState::Problem);
        assert_eq!(against_build(now, now).state, CheckState::Ok);
    }

    #[test]
    fn a_clock_that_nobody_keeps_is_warned_of_and_one_of_a_container_is_not() {
        let states = [Kept::Right, Kept::ByNobody, Kept::NotTold].map(|kept| told(kept).state);
        assert_eq!(states, [CheckState::Ok, CheckState::Warning, CheckState::NotKnown]);
    }

    #[test]
    fn the_last_write_is_that_of_the_newest_file() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(last_write(&folder.path().join("none")), None);
        let written: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        for (name, seconds) in [("db", 0), ("acknowledged", 60), ("conf", -3_600)] {
            let file = fs::File::create(folder.path().join(name)).unwrap();
            let at = written + SignedDuration::from_secs(seconds);
            file.set_modified(at.into()).unwrap();
        }
        assert_eq!(last_write(folder.path()), Some(written + SignedDuration::from_secs(60)));
    }
}
