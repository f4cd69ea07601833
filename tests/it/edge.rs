//! What lies between a client and the API: proxies, TLS, time, numbers, browsers.

mod cors;
mod crowds;
mod headers;
mod http2;
mod ipv6;
mod proxies;
mod slow;
mod streams;
pub(crate) mod stopping;
mod tls;
