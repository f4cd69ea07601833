//! The same counts in Redis, by scripts that it runs one after the other.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use daftar::store::shared::{Lease, Take};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

/// How many connections there are.
const CONNECTIONS: usize = 16;
const TAKE: &str = "local count = tonumber(redis.call('GET', KEYS[1]) or '0') \
                    local room = tonumber(ARGV[3]) - count \
                    if room < tonumber(ARGV[1]) then return {0, count} end \
                    local given = math.min(room, tonumber(ARGV[2])) \
                    redis.call('INCRBY', KEYS[1], given) \
                    return {given, count + given}";
/// A minute is kept as when it is full again, in microseconds, as many as a number of Lua holds, and is forgotten then.
const LEASE: &str = "local time = redis.call('TIME') \
                     local now = tonumber(time[1]) * 1000000 + tonumber(time[2]) \
                     local per_minute = tonumber(ARGV[1]) \
                     local cell = 60000000 / per_minute \
                     local until_full = math.max(tonumber(redis.call('GET', KEYS[1]) or '0') - now, 0) \
                     local left = per_minute - math.ceil(until_full / cell) \
                     if left < tonumber(ARGV[2]) then return {0, until_full} end \
                     local given = math.min(left, tonumber(ARGV[3])) \
                     until_full = math.ceil(until_full + given * cell) \
                     redis.call('SET', KEYS[1], string.format('%.0f', now + until_full), 'PX', math.ceil(until_full / 1000)) \
                     return {given, until_full}";

/// A server of the benchmark's own.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub port: u16,
    _folder: TempDir,
}

impl Server {
    /// Starts one that writes what it is told to disk as often as that.
    pub fn start(appendfsync: &str) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let port = free.map_err(|error| error.to_string())?.port();
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "yes"]);
        command.args(["--appendfsync", appendfsync, "--dir"]).arg(folder.path());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let child = child.map_err(|error| format!("`redis-server` (Debian's package of that name): {error}"))?;
        Ok(Self { child, port, _folder: folder })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _is_killed = self.child.kill().and_then(|()| self.child.wait());
    }
}

type Connection = BufReader<TcpStream>;

/// Connections to a server.
#[derive(Clone)]
pub struct Redis {
    connections: Arc<[Mutex<Connection>]>,
    take: Arc<str>,
    lease: Arc<str>,
}

impl Redis {
    /// Connects to a server that is starting, and hands it the scripts.
    pub async fn connect(port: u16) -> Result<Self, String> {
        let mut connections = Vec::new();
        let mut attempts = 0;
        while connections.len() < CONNECTIONS {
            match TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
                Ok(connection) => {
                    connection.set_nodelay(true).map_err(|error| error.to_string())?;
                    connections.push(BufReader::new(connection));
                }
                Err(_) if attempts < 200 => {
                    attempts += 1;
                    tokio::time::sleep(Duration::from_millis(25)).await;
                }
                Err(error) => return Err(format!("Redis: {error}")),
            }
        }
        let mut loaded = Vec::new();
        if let Some(first) = connections.first_mut() {
            for script in [TAKE, LEASE] {
                ask(first, &["SCRIPT", "LOAD", script]).await?;
                loaded.push(Arc::from(line(first).await?));
            }
        }
        let [take, lease] = <[Arc<str>; 2]>::try_from(loaded).map_err(|_| "the scripts were not taken")?;
        Ok(Self { connections: connections.into_iter().map(Mutex::new).collect(), take, lease })
    }

    /// What was given of a day, and its count.
    pub async fn take(&self, name: &str, Take { least, most, limit }: Take) -> Result<(u64, u64), String> {
        self.run(&self.take, name, [least, most, limit]).await
    }

    /// What was given of a minute.
    pub async fn lease(&self, name: &str, Lease { per_minute, least, most }: Lease) -> Result<u64, String> {
        let minute = format!("minute/{name}");
        Ok(self.run(&self.lease, &minute, [per_minute, least, most].map(u64::from)).await?.0)
    }

    async fn run(&self, script: &str, name: &str, values: [u64; 3]) -> Result<(u64, u64), String> {
        let mut connection = self.free().await?;
        let [one, two, three] = values.map(|value| value.to_string());
        let head = ask(&mut connection, &["EVALSHA", script, "1", name, &one, &two, &three]).await?;
        if head != "*2" {
            return Err(format!("Redis: {head}"));
        }
        let mut numbers = [0; 2];
        for number in &mut numbers {
            let told = line(&mut connection).await?;
            let parsed = told.strip_prefix(':').and_then(|number| number.parse().ok());
            *number = parsed.ok_or_else(|| format!("Redis: {told}"))?;
        }
        let [given, count] = numbers;
        Ok((given, count))
    }

    /// A connection that nobody uses; there are as many as callers.
    async fn free(&self) -> Result<tokio::sync::MutexGuard<'_, Connection>, String> {
        for connection in self.connections.iter() {
            if let Ok(free) = connection.try_lock() {
                return Ok(free);
            }
        }
        Ok(self.connections.first().ok_or("there is no connection")?.lock().await)
    }
}

/// Sends a command and gives the first line of the answer.
async fn ask(connection: &mut Connection, words: &[&str]) -> Result<String, String> {
    let mut command = format!("*{}\r\n", words.len());
    for word in words {
        command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    connection.get_mut().write_all(command.as_bytes()).await.map_err(|error| error.to_string())?;
    line(connection).await
}

async fn line(connection: &mut Connection) -> Result<String, String> {
    let mut line = String::new();
    connection.read_line(&mut line).await.map_err(|error| error.to_string())?;
    Ok(line.trim_end().to_owned())
}
