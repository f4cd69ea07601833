//! Shared parts of the end-to-end tests: the real server on free ports, clients by role, requests byte for byte.
//!
//! **Invariant:** no connection made here leaves the loopback interface, and nothing is installed or fetched.
//!
//! **Invariant:** a register in this process has a clock that the test moves. Servers in processes of their own, and what they share in a
//! database, have the machine's: a test polls them ([`postgres::eventually`]), for a minute at most, or for four while plugins are
//! compiled, and no outcome depends on a shorter time.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what is here runs in tests only, where a panic is how a test fails"
)]

mod support;

pub use support::admin::Admin;
pub use support::app::{TestApp, TestAppBuilder};
pub use support::artifacts;
pub use support::client::{ApiClient, Credentials};
pub use support::collector;
pub use support::contract;
pub use support::http::{Connection, Held, Request, Response, fresh_address};
pub use support::model;
pub use support::packs;
pub use support::postgres;
pub use support::power;
pub use support::process::{self, Finished, Server};
pub use support::records;
pub use support::script;
pub use support::snapshot::{errors, redacted};
pub use support::template;
pub use support::token;
pub use support::torture;
