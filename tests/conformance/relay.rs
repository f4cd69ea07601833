//! Relays connections to the server, each from a loopback address of its own: the server counts requests without a
//! token by address, and the fuzzer calls from one.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};

use daftar_tests::fresh_address;
use socket2::{Domain, Socket, Type};

/// Starts the relay, which runs until the program ends; returns its address, without a path.
pub fn start(server_url: &str) -> String {
    let port = server_url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a URL with a port");
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port can be had");
    let url = format!("http://{}", listener.local_addr().expect("a listener has an address"));
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || pass_on(client, server));
        }
    });
    url
}

fn pass_on(client: TcpStream, server: SocketAddr) {
    let Ok(upstream) = connect(server) else { return };
    let (Ok(client_reads), Ok(upstream_writes)) = (client.try_clone(), upstream.try_clone()) else { return };
    let sending = std::thread::spawn(move || copy(client_reads, upstream_writes));
    copy(upstream, client);
    drop(sending.join());
}

fn connect(server: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(IpAddr::V4(fresh_address()), 0).into())?;
    socket.connect(&server.into())?;
    Ok(socket.into())
}

/// Until either side closes; the other is closed as well.
fn copy(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _is_reported = to.shutdown(Shutdown::Write).is_ok();
}
