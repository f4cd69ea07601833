//! A stream of bytes as lines, some at a time.
//!
//! **Invariant:** a line that is too long is passed over as it arrives and never held; the last line of a stream that broke off is
//! no line.

use std::collections::VecDeque;
use std::time::Duration;

use axum::body::Bytes;
use futures_util::{Stream, StreamExt, stream};

use crate::api::extract::body::RECORD_BYTES_MAX;
use daftar_domain::error::AppError;

/// The longest line, in bytes without its end: as long as the body of the biggest create.
pub const LINE_BYTES_MAX: usize = RECORD_BYTES_MAX;
/// How many lines are handed on together.
const BATCH_LINES_MAX: usize = 128;
/// How many bytes of lines are handed on together, but for one line that is longer.
const BATCH_BYTES_MAX: usize = 256 << 10;
/// How long nothing may arrive.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// One line with its number.
#[derive(Debug, PartialEq, Eq)]
pub struct RawLine {
    /// Its number, counted by line ends.
    pub line: u64,
    /// What it says; nothing where it is too long.
    pub text: Option<Vec<u8>>,
}

/// Cuts lines out of bytes as they come.
struct Splitter {
    line: u64,
    open: Vec<u8>,
    is_too_long: bool,
    complete: VecDeque<RawLine>,
    complete_bytes: usize,
}

impl Splitter {
    fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = bytes.split_at(end);
            self.open(line);
            self.close();
            bytes = rest.get(1..).unwrap_or_default();
        }
        self.open(bytes);
    }

    fn open(&mut self, part: &[u8]) {
        if self.open.len().saturating_add(part.len()) > LINE_BYTES_MAX {
            self.is_too_long = true;
            self.open = Vec::new();
        }
        if !self.is_too_long {
            self.open.extend_from_slice(part);
        }
    }

    fn close(&mut self) {
        let text = std::mem::take(&mut self.open);
        let text = if std::mem::take(&mut self.is_too_long) { None } else { Some(text) };
        let is_blank = text.as_ref().is_some_and(|text| text.iter().all(u8::is_ascii_whitespace));
        if !is_blank {
            self.complete_bytes = self.complete_bytes.saturating_add(text.as_ref().map_or(0, Vec::len));
            self.complete.push_back(RawLine { line: self.line, text });
        }
        self.line = self.line.saturating_add(1);
    }

    fn batch(&mut self) -> Vec<RawLine> {
        let mut batch = Vec::new();
        let mut bytes = 0_usize;
        while batch.len() < BATCH_LINES_MAX && bytes < BATCH_BYTES_MAX {
            let Some(line) = self.complete.pop_front() else { break };
            let length = line.text.as_ref().map_or(0, Vec::len);
            bytes = bytes.saturating_add(length);
            self.complete_bytes = self.complete_bytes.saturating_sub(length);
            batch.push(line);
        }
        batch
    }

    fn is_full(&self) -> bool {
        self.complete.len() >= BATCH_LINES_MAX || self.complete_bytes >= BATCH_BYTES_MAX
    }
}

/// The lines of a stream, the first of which has that number. Blank ones are counted and left out.
pub fn batches<S, E>(body: S, first_line: u64) -> impl Stream<Item = Result<Vec<RawLine>, AppError>> + Send
where
    S: Stream<Item = Result<Bytes, E>> + Unpin + Send,
    E: Send,
{
    let (open, complete) = (Vec::new(), VecDeque::new());
    let splitter = Splitter { line: first_line, open, is_too_long: false, complete, complete_bytes: 0 };
    stream::unfold((Some(body), splitter), |(mut body, mut splitter)| async move {
        loop {
            if splitter.is_full() || (body.is_none() && !splitter.complete.is_empty()) {
                let batch = splitter.batch();
                return Some((Ok(batch), (body, splitter)));
            }
            let source = body.as_mut()?;
            match tokio::time::timeout(SILENCE_MAX, source.next()).await {
                Ok(Some(Ok(bytes))) => splitter.feed(&bytes),
                Ok(None) => {
                    if !splitter.open.is_empty() || splitter.is_too_long {
                        splitter.close();
                    }
                    body = None;
                }
                Ok(Some(Err(_))) => {
                    let detail = "the lines broke off: what came whole before is written".to_owned();
                    return Some((Err(AppError::Malformed(detail)), (None, splitter)));
                }
                Err(_) => {
                    let detail = format!("no line arrived for {} seconds", SILENCE_MAX.as_secs());
                    return Some((Err(AppError::Malformed(detail)), (None, splitter)));
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines_of(parts: Vec<Result<&'static [u8], ()>>) -> (Vec<(u64, Option<usize>)>, bool) {
        let parts = parts.into_iter().map(|part| part.map(Bytes::from_static));
        let (mut lines, mut is_broken) = (Vec::new(), false);
        let mut batches = Box::pin(batches(stream::iter(parts), 5));
        while let Some(batch) = batches.next().await {
            match batch {
                Ok(batch) => lines.extend(batch.into_iter().map(|line| (line.line, line.text.map(|text| text.len())))),
                Err(_) => is_broken = true,
            }
        }
        (lines, is_broken)
    }

    #[tokio::test]
    async fn lines_are_cut_wherever_the_parts_end() {
        assert_eq!(lines_of(vec![]).await, (vec![], false));
        let parts = vec![Ok(&b"ab"[..]), Ok(b"c\n\r\nde\n"), Ok(b"\n"), Ok(b"f")];
        assert_eq!(lines_of(parts).await, (vec![(5, Some(3)), (7, Some(2)), (9, Some(1))], false));
    }

    #[tokio::test]
    async fn what_broke_off_is_no_line() {
        let parts = vec![Ok(&b"ab\nc"[..]), Err(())];
        let (lines, is_broken) = lines_of(parts).await;
        assert!(is_broken && !lines.contains(&(6, Some(1))), "{lines:?}");
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_passed_over() {
        let part: &'static [u8] = Box::leak(vec![b'x'; LINE_BYTES_MAX / 2].into_boxed_slice());
        let parts = vec![Ok(part), Ok(part), Ok(b"\n"), Ok(part), Ok(part), Ok(b"y\nz\n")];
        assert_eq!(lines_of(parts).await, (vec![(5, Some(LINE_BYTES_MAX)), (6, None), (7, Some(1))], false));
    }
}
