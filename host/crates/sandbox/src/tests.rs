//! Plugins that misbehave, and that the host is not harmed.

mod breaker;
mod crash;
mod faults;
mod kept_code;
mod library;
mod limits;
mod logs;
mod refusals;
mod rules;
mod trust;

use crate::InstallError;
use crate::package::{Candidate, Package};

impl Package {
    /// Checks a file without judging its signature.
    fn read(bytes: Vec<u8>) -> Result<Self, InstallError> {
        Candidate::read(bytes)?.check()
    }
}
