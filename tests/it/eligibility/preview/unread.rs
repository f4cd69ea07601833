//! Previews whose lines are not read: they end, and others are served.

use std::net::{IpAddr, SocketAddr};

use axum::body::Bytes;
use axum::http::{Request, StatusCode};
use daftar_tests::records::person;
use daftar_tests::{ApiClient, TestApp};
use h2::RecvStream;
use serde_json::{Value, json};
use tokio::net::TcpSocket;
use tokio::runtime::{Builder, Runtime};

use super::turns::until;
/// Responses that have begun, on one connection whose flow control blocks all bodies.
pub struct Unread {
    /// Of each response.
    pub statuses: Vec<StatusCode>,
    _bodies: Vec<RecvStream>,
    _runtime: Runtime,
}

/// Starts this number of streamed previews and reads nothing of them.
pub fn begin(client: &ApiClient, count: usize) -> Unread {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (way, token) = (client.connection().clone(), client.token().to_owned());
    let (statuses, bodies) = runtime.block_on(async move {
        let server = way.url().trim_start_matches("http://").parse().unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(IpAddr::V4(way.source()), 0)).unwrap();
        let stream = socket.connect(server).await.unwrap();
        let (client, connection) = h2::client::Builder::new().initial_window_size(0).handshake(stream).await.unwrap();
        tokio::spawn(async move { drop(connection.await) });
        let mut responses = Vec::new();
        for _ in 0..count {
            let request = Request::post("https://localhost/api/v2/Eligibility/$preview")
                .header("authorization", format!("Bearer {token}"))
                .header("accept", "application/x-ndjson")
                .header("content-type", "application/json");
            let mut client = client.clone().ready().await.unwrap();
            let (response, mut body) = client.send_request(request.body(()).unwrap(), false).unwrap();
            let rule = json!({"expression": "true", "subjects": true}).to_string();
            body.send_data(Bytes::from(rule), true).unwrap();
            responses.push(response);
        }
        let (mut statuses, mut bodies) = (Vec::new(), Vec::new());
        for response in responses {
            let (head, body) = response.await.unwrap().into_parts();
            statuses.push(head.status);
            bodies.push(body);
        }
        (statuses, bodies)
    });
    Unread { statuses, _bodies: bodies, _runtime: runtime }
}

/// Number of people that a preview of another client counts.
pub fn counted(client: &ApiClient) -> Value {
    client.post("/Eligibility/$preview", &json!({"expression": "true"})).expect(200).json()["total"].clone()
}

#[test]
fn as_many_as_there_may_be_of_every_client_hold_no_place_once_they_are_at_their_end() {
    let app = TestApp::start();
    let clerk = app.client(&["individual:all"]);
    for number in 0..3 {
        drop(clerk.create_individual(&person(&number.to_string(), json!({}))));
    }
    let analyst = || app.client(&["individual:read", "eligibility:read"]);
    // All slots, a quarter for each client.
    let unread: Vec<Unread> = (0..4).map(|_| begin(&analyst(), 64)).collect();
    assert!(unread.iter().flat_map(|unread| &unread.statuses).all(|status| *status == 200));
    until(&app, |[previews, running, waiting, _]| previews + running + waiting == 0);
    assert_eq!(counted(&analyst()), 3);
}
