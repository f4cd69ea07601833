//! How commands find the server that uses a data folder.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The file in the data folder that says where the server is.
const FILE: &str = "server.json";

/// A server that runs on a data folder.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunningServer {
    /// Its admin API, without a path.
    pub admin_url: String,
    /// Its process.
    pub process_id: u32,
}

/// Says where the server is for as long as this value lives.
#[derive(Debug)]
pub struct Announcement {
    path: PathBuf,
}

impl RunningServer {
    /// The server that uses the folder, if one says so and is alive.
    #[must_use]
    pub fn find(data_dir: &Path) -> Option<Self> {
        let text = fs::read_to_string(data_dir.join(FILE)).ok()?;
        let server: Self = serde_json::from_str(&text).ok()?;
        Path::new("/proc").join(server.process_id.to_string()).exists().then_some(server)
    }

    /// Writes down where the server is.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn announce(&self, data_dir: &Path) -> std::io::Result<Announcement> {
        let path = data_dir.join(FILE);
        let text = serde_json::to_string(self).map_err(std::io::Error::other)?;
        fs::write(&path, text)?;
        Ok(Announcement { path })
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(error = %error, "the file that says where the server is cannot be removed");
        }
    }
}
