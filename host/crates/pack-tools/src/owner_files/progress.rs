//! How far an import is, told to whoever wants to show it.

/// Is told how far the reading of a file is.
pub trait Progress {
    /// The file is read from its beginning; `bytes` of it will be read, as they are on disk.
    fn begin(&mut self, bytes: u64);
    /// So many more bytes were read.
    fn advance(&mut self, bytes: u64);
}

/// Shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn begin(&mut self, _bytes: u64) {}
    fn advance(&mut self, _bytes: u64) {}
}
