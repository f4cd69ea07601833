//! Who asks: the address that limits, the audit log and whoever else goes by.
//!
//! **Invariant:** the one place that knows an address from a header. Only the public listener believes headers, and only those of a
//! trusted proxy.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::HeaderMap;

use crate::state::AppState;

/// The other end of a connection, as its listener knows it. A request that came over no connection has none.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Whether it speaks TLS with us.
    pub is_tls: bool,
    /// Why nothing but its probes of health are answered, where that is so.
    pub refusal: Option<Refusal>,
}

/// Why a connection is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// There are too many connections.
    Full,
    /// There are too many connections from its address.
    AddressFull,
    /// It came by plain HTTP, which only trusted proxies may, and is none.
    NotAProxy,
}

/// Which side of the server a request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entrance {
    /// The public listener: by proxies, from browsers, and by anybody.
    Public,
    /// A listener of the administrator, or a request that is made within another one.
    Inside,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The address; an IPv4 address is never written as IPv6.
    pub address: IpAddr,
    /// Whether it asks by HTTPS, of us or of a trusted proxy.
    pub is_https: bool,
    /// Whether it asks through a trusted proxy.
    pub is_by_proxy: bool,
}

impl Caller {
    /// Who sent a request.
    pub(super) fn of(app: &AppState, request: &Request, entrance: Entrance) -> Option<Self> {
        let peer = request.extensions().get::<Peer>()?;
        let own = Self { address: peer.address.to_canonical(), is_https: peer.is_tls, is_by_proxy: false };
        let server = &app.config.server;
        let is_believed =
            entrance == Entrance::Public && server.trusted_proxies.iter().any(|network| network.contains(own.address));
        if !is_believed {
            return Some(own);
        }
        let header = server.forwarded_header;
        let address = header.caller(own.address, &server.trusted_proxies, lines(request.headers(), header.name()));
        let is_https = own.is_https || header.is_https(lines(request.headers(), header.protocol_name()));
        Some(Self { address, is_https, is_by_proxy: true })
    }
}

fn lines<'h>(headers: &'h HeaderMap, name: &'static str) -> impl DoubleEndedIterator<Item = &'h [u8]> {
    headers.get_all(name).iter().map(|value| value.as_bytes())
}
