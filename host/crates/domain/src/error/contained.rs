//! Panics of code that is not ours, where they are expected and made into errors.
//!
//! **Invariant:** the operator sees one line of any other panic, without what it was about: that may be data.

use std::cell::Cell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};

thread_local! {
    /// How many calls of [`contain`] this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Code panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Panicked;

/// Runs something whose panic is an answer like any other. What it changed must not be used after a panic.
///
/// # Errors
/// [`Panicked`] when it did.
pub fn contain<T>(run: impl FnOnce() -> T) -> Result<T, Panicked> {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get().saturating_sub(1));
        }
    }
    DEPTH.set(DEPTH.get().saturating_add(1));
    let _leave = Leave;
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| Panicked)
}

/// Tells panics of this process in one line each, and those that are contained not at all.
pub fn tell_panics_shortly() {
    std::panic::set_hook(Box::new(tell));
}

fn tell(panic: &PanicHookInfo<'_>) {
    if DEPTH.get() > 0 {
        return;
    }
    let place = panic.location().map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
    // Only texts that stand in the program: others may be made of data.
    let text = panic.payload().downcast_ref::<&'static str>().map(|text| format!(": {text}")).unwrap_or_default();
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("without a name").to_owned();
    let line = format!("error: a defect of daftar{place} in the thread `{name}`{text}; please report it\n");
    // Nothing can be done where standard error is closed.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_and_the_thread_goes_on() {
        assert_eq!(contain(|| 7), Ok(7));
        let inner = contain(|| contain(|| panic!("on purpose")).is_err());
        assert_eq!(inner, Ok(true));
        assert_eq!(DEPTH.get(), 0);
    }
}
