//! `daftar token`

use std::io::{BufRead, Read};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::admin_client::{proxy, tls};
use super::{CliError, GlobalArgs, output};
use crate::app::serve::RunningServer;
use daftar_domain::config::client_secret_from_environment;

/// Time limit of the token endpoint's response.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a response or a secret, in bytes.
const BYTES_MAX: u64 = 64 << 10;

/// The client and its secret.
#[derive(Debug, Args)]
pub struct TokenArgs {
    /// The client's id
    client: String,
    /// File with the client's secret; without it the environment variable DAFTAR_CLIENT_SECRET, or a line of standard
    /// input
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Scopes of the token, separated by commas; repeatable; all scopes of the client if not given
    #[arg(long, value_delimiter = ',')]
    scope: Vec<String>,
    /// Public address of the server, such as `https://registry.example.org`, instead of the server that uses the data
    /// folder
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// PEM file with the CA certificates to trust for an https address; those of the system if not given
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// Prints an access token, or with `--json` the complete response of the token endpoint.
pub fn run(global: &GlobalArgs, args: &TokenArgs) -> Result<(), CliError> {
    let url = match &args.url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => public_url(global)?,
    };
    let secret = secret(args)?;
    let config = ureq::Agent::config_builder().proxy(proxy(&url)).timeout_global(Some(TIMEOUT));
    let mut config = config.max_redirects(0).http_status_as_error(false);
    if url.starts_with("https://") {
        config = config.tls_config(tls(args.ca.as_deref(), "--ca")?);
    }
    let agent: ureq::Agent = config.build().into();
    let scope = args.scope.join(" ");
    let mut form = vec![
        ("grant_type", "client_credentials"),
        ("client_id", args.client.as_str()),
        ("client_secret", secret.expose_secret()),
    ];
    form.extend((!scope.is_empty()).then_some(("scope", scope.as_str())));
    let unreachable = |error: ureq::Error| {
        CliError::unavailable(format_args!(
            "cannot reach the server at {url}: {error}; is it running, and is this its public address?"
        ))
    };
    let mut response = agent.post(format!("{url}/api/v2/oauth/token")).send_form(form).map_err(unreachable)?;
    let status = response.status().as_u16();
    let text = response.body_mut().with_config().limit(BYTES_MAX).read_to_string().map_err(unreachable)?;
    let body: Value = serde_json::from_str(&text).unwrap_or_default();
    let member = |name: &str| body.get(name).and_then(Value::as_str);
    match (status, member("access_token")) {
        (200, Some(token)) => {
            output::done(global, &body, token);
            Ok(())
        }
        (200, None) => Err(CliError::none_to("a token request")),
        _ => Err(refused(status, member("error_description").or(member("detail")), member("error"))),
    }
}

/// Returns the public address of the server that uses the data folder.
fn public_url(global: &GlobalArgs) -> Result<String, CliError> {
    RunningServer::find(&global.data_dir).and_then(|running| running.public_url).ok_or_else(|| {
        CliError::usage(format_args!(
            "no server uses the data folder `{}`: name the server with --url, or its folder with --data-dir",
            global.data_dir.display()
        ))
    })
}

fn secret(args: &TokenArgs) -> Result<SecretString, CliError> {
    let text = match (&args.secret_file, client_secret_from_environment()) {
        (Some(path), _) => std::fs::read_to_string(path).map_err(|error| CliError::cannot_read(path, &error))?,
        (None, Some(text)) => text,
        (None, None) => {
            let mut line = String::new();
            let read = std::io::stdin().lock().take(BYTES_MAX).read_line(&mut line);
            read.map_err(|error| CliError::input(format_args!("cannot read standard input: {error}")))?;
            line
        }
    };
    let text = text.trim();
    if text.is_empty() {
        let sources = "--secret-file FILE, DAFTAR_CLIENT_SECRET or a line of standard input";
        return Err(CliError::usage(format_args!("the client's secret is required: {sources}")));
    }
    Ok(SecretString::from(text))
}

fn refused(status: u16, description: Option<&str>, code: Option<&str>) -> CliError {
    let message = description.map_or_else(|| format!("the token endpoint returned status {status}"), str::to_owned);
    let refused = match status {
        401 => CliError::denied(message),
        429 | 503 => CliError::unavailable(message),
        _ => CliError::failed(message),
    };
    CliError { code: code.map(str::to_owned), ..refused }
}
