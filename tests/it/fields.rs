//! Grants that open some fields only.

mod differential;
mod grants;
mod memberships;
mod probes;
mod rules;
mod samples;
mod unread;
mod worlds;
mod writes;
