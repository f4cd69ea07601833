//! The layer between a client and the API: proxies, TLS, time, numbers, browsers.

mod capacity;
mod cors;
mod early;
mod floods;
mod headers;
mod http2;
mod ipv6;
mod proxies;
mod slow;
mod stalled;
pub(crate) mod stopping;
mod streams;
mod tls;
