//! HTTP/2, by a client of our own: over plain connections, as a proxy may, and forbidden uses.

use std::net::{IpAddr, SocketAddr};

use axum::body::Bytes;
use axum::http::{HeaderMap, Request};
use daftar_tests::{Connection, TestApp};
use h2::client::SendRequest;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};

use super::capacity::metric;

/// A runtime for one test.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A socket from an address that no other client uses.
pub async fn socket(way: &Connection, server: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(IpAddr::V4(way.source()), 0)).unwrap();
    socket.connect(server).await.unwrap()
}

/// Starts an HTTP/2 connection.
pub async fn speak(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> SendRequest<Bytes> {
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(async move {
        // The result of a connection is reported by its requests.
        let _ended = connection.await;
    });
    client
}

pub fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request<()> {
    let request = Request::builder().method(method).uri(format!("https://localhost{path}"));
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).body(()).unwrap()
}

/// Reads a complete response.
pub async fn read(response: h2::client::ResponseFuture) -> Result<(u16, HeaderMap, Vec<u8>), h2::Error> {
    let (head, mut body) = response.await?.into_parts();
    let mut bytes = Vec::new();
    while let Some(part) = body.data().await {
        let part = part?;
        let _room_is_given_back = body.flow_control().release_capacity(part.len()).is_ok();
        bytes.extend_from_slice(&part);
    }
    Ok((head.status.as_u16(), head.headers, bytes))
}

pub async fn get(
    client: &SendRequest<Bytes>,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<(u16, HeaderMap, Vec<u8>), h2::Error> {
    let mut client = client.clone().ready().await?;
    let (response, _) = client.send_request(request("GET", path, headers), true)?;
    read(response).await
}

/// A plain HTTP/2 connection.
pub async fn plain(app: &TestApp) -> SendRequest<Bytes> {
    let way = app.anonymous();
    let server = way.url().trim_start_matches("http://").parse().unwrap();
    speak(socket(&way, server).await).await
}

#[test]
fn many_requests_share_a_connection_as_far_as_the_settings_allow() {
    let app = TestApp::builder().config(|config| config.server.connections.http2_streams_max = 5).start();
    let api = app.client(&["individual:read"]);
    runtime().block_on(async {
        let client = plain(&app).await;
        let bearer = format!("Bearer {}", api.token());
        let (status, headers, body) = get(&client, "/api/v2/Individual", &[("authorization", &bearer)]).await.unwrap();
        assert_eq!((status, headers["x-api-version"].to_str().unwrap()), (200, "2.0.0"));
        assert!(serde_json::from_slice::<serde_json::Value>(&body).unwrap()["total"] == 0);
        assert_eq!(client.current_max_send_streams(), 5);
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..40 {
            let client = client.clone();
            tasks.spawn(async move {
                let (status, _, body) = get(&client, "/health/live", &[]).await.unwrap();
                assert_eq!((status, body.as_slice()), (200, &b"ok\n"[..]));
            });
        }
        tasks.join_all().await;
    });
}

#[test]
fn endless_headers_are_rejected_and_the_connection_stays_open() {
    let app = TestApp::start();
    runtime().block_on(async {
        let client = plain(&app).await;
        let long = "x".repeat(80_000);
        let refused = get(&client, "/health/live", &[("x-long", &long)]).await;
        assert!(refused.as_ref().is_err() || refused.as_ref().is_ok_and(|(status, ..)| *status == 431), "{refused:?}");
        let fine = "x".repeat(40_000);
        let client = plain(&app).await;
        assert_eq!(get(&client, "/health/live", &[("x-long", &fine)]).await.unwrap().0, 200);
    });
}

#[test]
fn a_client_that_resets_its_requests_immediately_harms_no_other_client() {
    let app = TestApp::start();
    let api = app.client(&["individual:read"]);
    runtime().block_on(async {
        let client = plain(&app).await;
        for _ in 0..3_000 {
            // A server may close it at any time.
            let Ok(mut ready) = client.clone().ready().await else { break };
            let Ok((response, mut stream)) = ready.send_request(request("GET", "/metadata", &[]), true) else { break };
            tokio::task::yield_now().await;
            stream.send_reset(h2::Reason::CANCEL);
            drop(response);
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(api.get("/Individual").status, 200);
    while metric(&app, "daftar_http_requests_in_flight") > 0.0 {}
}

#[test]
fn an_unread_stream_ends_the_connection() {
    let app = TestApp::builder().config(|config| config.server.connections.write_timeout_ms = 200).start();
    runtime().block_on(async {
        let client = plain(&app).await;
        let mut ready = client.clone().ready().await.unwrap();
        let (response, _) = ready.send_request(request("GET", "/openapi.json", &[]), true).unwrap();
        let (_, mut body) = response.await.unwrap().into_parts();
        // Data is read, and the flow control window is not extended.
        let ended = loop {
            match body.data().await {
                Some(Ok(_)) => {}
                ended => break ended,
            }
        };
        assert!(matches!(ended, Some(Err(_))), "it was not sent to its end: {ended:?}");
    });
}
