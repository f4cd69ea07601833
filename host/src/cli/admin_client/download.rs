//! An answer that is read as it arrives, whichever way it comes.

use std::io::{self, Read};

use axum::body::{Body, Bytes};
use http_body_util::BodyExt;
use tokio::runtime::Runtime;

/// The body of an answer. Reads block until bytes are there; a body that was broken off is an error, never an early end.
pub struct Download<'c>(Box<dyn Read + 'c>);

impl<'c> Download<'c> {
    /// What a server sends.
    pub(super) fn of_server(response: axum::http::Response<ureq::Body>) -> Self {
        Self(Box::new(response.into_body().into_reader()))
    }

    /// What a router in this process makes.
    pub(super) fn of_router(runtime: &'c Runtime, body: Body) -> Self {
        Self(Box::new(Frames { runtime, body, left: Bytes::new() }))
    }
}

impl Read for Download<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// The frames of a body, one after the other.
struct Frames<'c> {
    runtime: &'c Runtime,
    body: Body,
    left: Bytes,
}

impl Read for Frames<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left.is_empty() {
            match self.runtime.block_on(self.body.frame()) {
                None => return Ok(0),
                Some(Err(error)) => return Err(io::Error::other(error)),
                Some(Ok(frame)) => self.left = frame.into_data().unwrap_or_default(),
            }
        }
        let taken = self.left.split_to(self.left.len().min(buffer.len()));
        if let Some(room) = buffer.get_mut(..taken.len()) {
            room.copy_from_slice(&taken);
        }
        Ok(taken.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_of_the_router_is_read_to_its_end_in_pieces_of_any_size() {
        let runtime = Runtime::new().unwrap();
        for size in [1, 3, 64] {
            let mut download = Download::of_router(&runtime, Body::from("a body of some bytes"));
            let mut text = Vec::new();
            let mut buffer = vec![0; size];
            loop {
                match download.read(&mut buffer).unwrap() {
                    0 => break,
                    read => text.extend_from_slice(&buffer[..read]),
                }
            }
            assert_eq!(text, b"a body of some bytes", "{size}");
        }
    }
}
