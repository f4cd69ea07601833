//! Tokens and limits: what they cost, and what others notice of somebody who is refused.

mod memory;
mod refused;
mod tokens;
mod verify;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use daftar::app::AppState;
use daftar::domain::field::FieldSet;
use daftar::domain::grant::Grants;
use daftar::domain::scope::Scope;
use secrecy::ExposeSecret;

use crate::server::{Server, new_client};

/// Runs the benchmark and prints its figures.
pub fn run() -> Result<(), String> {
    memory::run()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let server = Server::start(folder.path()).await?;
        verify::measure(&server).await?;
        tokens::measure(&server).await?;
        memory::measure_on_disk(&server).await?;
        refused::measure(&server).await?;
        server.stop().await;
        Ok(())
    })
}

/// A token request of a new client that has the limits of all and may read individuals.
async fn token_request(app: &AppState) -> Result<Vec<u8>, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut grants = Grants::default();
    grants.insert(Scope::parse("individual:read").map_err(|error| text(&error))?, FieldSet::All);
    let created = app.clients.create(&app.system_context(), new_client(grants)?).await;
    let (client, secret) = created.map_err(|error| text(&error))?;
    let basic = STANDARD.encode(format!("{}:{}", client.id, secret.expose_secret()));
    let body = "grant_type=client_credentials";
    let head = format!(
        "POST /api/v2/oauth/token HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {basic}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    Ok(head.into_bytes())
}
