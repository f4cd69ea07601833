//! How commands find the server that uses a data folder.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::PLUGINS_FOLDER;

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
    /// The server that uses the folder, if one does: the file alone proves nothing, since a server that was killed leaves it
    /// behind and somebody else may listen at its address now. Who uses the folder holds the lock of its plugins.
    #[must_use]
    pub fn find(data_dir: &Path) -> Option<Self> {
        let text = fs::read_to_string(data_dir.join(FILE)).ok()?;
        let server = serde_json::from_str(&text).ok()?;
        daftar_sandbox::is_in_use(&data_dir.join(PLUGINS_FOLDER)).then_some(server)
    }

    /// Writes down where the server is.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn announce(&self, data_dir: &Path) -> std::io::Result<Announcement> {
        let path = data_dir.join(FILE);
        let text = serde_json::to_string(self).map_err(std::io::Error::other)?;
        // Written whole, and readable by its owner alone.
        super::packs::write_file(&path, text.as_bytes())?;
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
