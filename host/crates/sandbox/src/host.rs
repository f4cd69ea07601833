//! What a plugin can call of the host, and how much of it.
//!
//! **Invariant:** every call from a guest is charged to the budget of the call that it belongs to, before anything is done.

pub(super) mod log;

use super::limits::PluginLimits;

/// More calls to the host, or more bytes given to it, than one call may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum HostCallRefusal {
    #[error("it called the host more than the {allowed} times that one call may")]
    Calls { allowed: u64 },
    #[error("it gave the host more than the {allowed} bytes that one call may")]
    Bytes { allowed: usize },
}

/// What one call into a plugin has called of the host.
#[derive(Debug)]
pub(super) struct HostCalls {
    calls_max: u64,
    bytes_max: usize,
    calls: u64,
    bytes: usize,
}

impl HostCalls {
    pub fn new(limits: &PluginLimits) -> Self {
        Self { calls_max: limits.host_calls, bytes_max: limits.host_call_bytes, calls: 0, bytes: 0 }
    }

    /// Begins a call into the plugin.
    pub fn begin(&mut self) {
        (self.calls, self.bytes) = (0, 0);
    }

    /// Charges one call to the host that hands over so many bytes.
    ///
    /// # Errors
    /// The budget that it does not fit into.
    pub fn charge(&mut self, bytes: usize) -> Result<(), HostCallRefusal> {
        self.calls = self.calls.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.calls > self.calls_max {
            return Err(HostCallRefusal::Calls { allowed: self.calls_max });
        }
        if self.bytes > self.bytes_max {
            return Err(HostCallRefusal::Bytes { allowed: self.bytes_max });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::manifest::PluginKind;

    fn calls() -> HostCalls {
        let limits = PluginLimits::for_kind(PluginKind::VocabularyPack);
        HostCalls::new(&PluginLimits { host_calls: 3, host_call_bytes: 100, ..limits })
    }

    #[test]
    fn calls_are_allowed_up_to_their_number_and_counted_anew_for_each_call() {
        let mut calls = calls();
        for _ in 0..2 {
            calls.begin();
            assert_eq!([calls.charge(1), calls.charge(1), calls.charge(1)], [Ok(()); 3]);
            assert_eq!(calls.charge(1), Err(HostCallRefusal::Calls { allowed: 3 }));
        }
    }

    #[test]
    fn bytes_are_allowed_up_to_their_sum() {
        for (last, expected) in [
            (39, Ok(())),
            (40, Ok(())),
            (41, Err(HostCallRefusal::Bytes { allowed: 100 })),
            (usize::MAX, Err(HostCallRefusal::Bytes { allowed: 100 })),
        ] {
            let mut calls = calls();
            assert_eq!(calls.charge(60), Ok(()));
            assert_eq!(calls.charge(last), expected);
        }
    }
}
