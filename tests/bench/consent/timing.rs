//! How long an answer takes about somebody who is hidden, and about somebody who does not exist, call by call in turn.
//!
//! What tells them apart is the chance that of one answer of each kind the one about the hidden takes longer (`pairs.rs`).

use std::net::SocketAddr;
use std::time::Instant;

use daftar::domain::organization::{LegalBasis, Organization};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::searches::summary;
use crate::pairs::chance_of_longer;
use crate::read::{PEOPLE, fill, request};
use crate::server::{Server, token_of};

/// How many answers of each kind are measured.
const CALLS: usize = 20_000;

pub(super) fn run() -> Result<(), String> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(measure())
}

async fn measure() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let server = Server::start(folder.path()).await?;
    fill(&server).await?;
    let organization = Organization::parse("Ministry of Health").map_err(|error| error.to_string())?;
    let token = token_of(&server.app, Some((LegalBasis::Consent, organization))).await?;
    let mut stream = TcpStream::connect(server.address).await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let (mut hidden, mut absent) = (Vec::with_capacity(CALLS), Vec::with_capacity(CALLS));
    for call in 0..CALLS {
        let number = 1 + call % PEOPLE;
        let asked = [(&mut hidden, request(&token, number)), (&mut absent, request(&token, PEOPLE + number))];
        for (times_us, request) in asked {
            times_us.push(time_us(&mut stream, server.address, &request).await?);
        }
    }
    let chance = chance_of_longer(&hidden, &absent);
    println!("GET of a hidden person: {}", summary(hidden));
    println!("GET of an absent person: {}", summary(absent));
    println!("consent: the hidden one takes longer in {:.1} of 100 pairs (50 tells nothing)", chance * 100.0);
    server.stop().await;
    Ok(())
}

/// Sends a request and waits for the whole answer, which has to be a 404.
async fn time_us(stream: &mut TcpStream, address: SocketAddr, request: &[u8]) -> Result<f64, String> {
    let text = |error: std::io::Error| format!("{address}: {error}");
    let mut answer = Vec::with_capacity(4_096);
    let sent = Instant::now();
    stream.write_all(request).await.map_err(text)?;
    loop {
        if stream.read_buf(&mut answer).await.map_err(text)? == 0 {
            return Err("the server closed a connection".to_owned());
        }
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut head = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(begin) = head.parse(&answer).map_err(|error| error.to_string())? else {
            continue;
        };
        let length = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
        let length = length.and_then(|header| std::str::from_utf8(header.value).ok()?.parse::<usize>().ok());
        if answer.len() >= begin + length.ok_or("an answer has no length")? {
            return match head.code {
                Some(404) => Ok(sent.elapsed().as_secs_f64() * 1e6),
                status => Err(format!("an answer has the status {status:?}")),
            };
        }
    }
}
