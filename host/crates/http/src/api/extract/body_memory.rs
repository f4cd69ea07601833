//! The memory of JSON bodies: a limit for one body, and one for the bodies of all requests together.
//!
//! The value of a body takes more memory than its text, at most a hundred times as much: `{"":0}` has 6 bytes, and its
//! object more than 600. The memory is estimated before a body is parsed, and reserved until its response is finished.
//! Most bodies are small and are not counted.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::error::Problem;
use daftar_domain::error_code::ErrorCode;

/// The limits of one body, and of all together, in KiB. A batch copies a body up to twice.
const BODY_KIB_MAX: u32 = 256 << 10;
const KIB_MAX: u32 = 512 << 10;
/// A body is counted if its value takes at least so many bytes.
const COUNTED_FROM: u64 = 256 << 10;
/// The memory for each `{`, `[`, `:`, `"` and `,` of a body, in bytes, where the nodes of an object are half full, and a
/// list and a text have the least allocation.
const OBJECT_BYTES: u64 = 560;
const LIST_BYTES: u64 = 160;
const MEMBER_BYTES: u64 = 110;
const QUOTE_BYTES: u64 = 16;
const ITEM_BYTES: u64 = 32;

/// Reserves memory for bodies.
#[derive(Debug, Clone)]
pub struct BodyMemory(Arc<Semaphore>);

impl Default for BodyMemory {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(KIB_MAX as usize)))
    }
}

impl BodyMemory {
    /// Reserves the memory of a body; none for a small one. Bodies wait for memory in order of arrival.
    ///
    /// # Errors
    /// 413 for a body above the limit of one body, 503 if there is not enough memory within `wait_max`.
    pub async fn reserve(&self, body: &[u8], wait_max: Duration) -> Result<Option<OwnedSemaphorePermit>, Problem> {
        let bytes = estimated(body);
        if bytes < COUNTED_FROM {
            return Ok(None);
        }
        let kib = u32::try_from(bytes >> 10).ok().filter(|kib| *kib <= BODY_KIB_MAX).ok_or_else(|| {
            let detail = "the body has too many objects and lists for one request: send fewer at a time";
            Problem::new(ErrorCode::BodyTooLarge, detail)
        })?;
        let reserving = Arc::clone(&self.0).acquire_many_owned(kib);
        match tokio::time::timeout(wait_max, reserving).await {
            Ok(Ok(reserved)) => Ok(Some(reserved)),
            Ok(Err(_)) | Err(_) => {
                Err(Problem::new(ErrorCode::Overloaded, "too many large bodies are being processed, retry later"))
            }
        }
    }
}

/// The memory of a JSON value, in bytes, rather too much: characters in texts are counted as if they were outside.
fn estimated(body: &[u8]) -> u64 {
    let of_byte = |byte: &u8| match byte {
        b'{' => OBJECT_BYTES,
        b'[' => LIST_BYTES,
        b':' => MEMBER_BYTES,
        b'"' => QUOTE_BYTES,
        b',' => ITEM_BYTES,
        _ => 0,
    };
    body.iter().map(of_byte).sum::<u64>() + body.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT_MAX: Duration = Duration::from_millis(10);

    #[tokio::test]
    async fn large_bodies_share_the_memory_and_a_larger_one_is_rejected() {
        let memory = BodyMemory::default();
        let code = |reserved: Result<Option<OwnedSemaphorePermit>, Problem>| reserved.unwrap_err().code;
        assert!(memory.reserve(br#"{"name": {"family": "x"}}"#, WAIT_MAX).await.unwrap().is_none());
        let half = br#"{"":0},"#.repeat(350_000);
        let first = memory.reserve(&half, WAIT_MAX).await.unwrap();
        let second = memory.reserve(&half, WAIT_MAX).await.unwrap();
        assert!(first.is_some() && second.is_some());
        assert_eq!(code(memory.reserve(&half, WAIT_MAX).await), ErrorCode::Overloaded);
        drop(first);
        assert!(memory.reserve(&half, WAIT_MAX).await.is_ok());
        assert_eq!(code(memory.reserve(&half.repeat(2), WAIT_MAX).await), ErrorCode::BodyTooLarge);
    }

    #[test]
    fn the_estimate_is_not_below_the_memory_of_a_value() {
        // An object of one member, a list of one item, an item, a short text, and a member of a large object.
        for (part, bytes_min) in
            [("{\"\":0},", 632), ("[0],", 32 + 128), ("0,", 32), ("\"x\",", 32 + 32), ("\"abcd\":\"x\",", 107 + 2 * 32)]
        {
            let body = part.repeat(1_000);
            assert!(estimated(body.as_bytes()) >= 1_000 * bytes_min, "{part}");
        }
    }
}
