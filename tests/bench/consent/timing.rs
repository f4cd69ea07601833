//! How long an answer takes about somebody who is hidden, and about somebody who does not exist, call by call in turn.
//!
//! What tells them apart is the chance that of one answer of each kind the one about the hidden takes longer (`pairs.rs`).

use daftar::domain::organization::{LegalBasis, Organization};
use tokio::net::TcpStream;

use super::searches::summary;
use crate::load::time_us;
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
    let mut buffer = Vec::with_capacity(4 * 1024);
    let (mut hidden, mut absent) = (Vec::with_capacity(CALLS), Vec::with_capacity(CALLS));
    for call in 0..CALLS {
        let number = 1 + call % PEOPLE;
        let asked = [(&mut hidden, request(&token, number)), (&mut absent, request(&token, PEOPLE + number))];
        for (times_us, request) in asked {
            times_us.push(time_us(&mut stream, &mut buffer, &request, 404).await?);
        }
    }
    let chance = chance_of_longer(&hidden, &absent);
    println!("GET of a hidden person: {}", summary(hidden));
    println!("GET of an absent person: {}", summary(absent));
    println!("consent: the hidden one takes longer in {:.1} of 100 pairs (50 tells nothing)", chance * 100.0);
    server.stop().await;
    Ok(())
}
