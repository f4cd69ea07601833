//! Tests with plugins that misbehave: the host is unaffected.

mod breaker;
mod code_cache;
mod crash;
mod faults;
mod isolation;
mod library;
mod limits;
mod logs;
mod pending;
mod refusals;
mod rules;
mod trust;

use crate::InstallError;
use crate::package::{Candidate, Package};

impl Package {
    /// Checks a file without verifying its signature.
    fn read(bytes: Vec<u8>) -> Result<Self, InstallError> {
        Candidate::read(bytes)?.check()
    }
}
