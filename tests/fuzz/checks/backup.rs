//! Backups. The input is read as it is, and once more with the checksums and counts of blocks that it should have.

use daftar_service::backup::{BackupProblem, Contents, Depth, extent_of, head_of, inspect};
use sha2::{Digest as _, Sha256};

/// Lengths of the head of a block and of a checksum, in bytes.
const BLOCK_HEAD_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 32;
/// Maximum length of a message, in bytes.
const MESSAGE_BYTES_MAX: usize = 2_000;

pub fn check(input: &[u8]) {
    of(input);
    if let Some(sealed) = sealed(input) {
        of(&sealed);
    }
}

fn of(bytes: &[u8]) {
    let read = |bytes: &[u8], depth| read_or_explained(inspect(bytes, depth, &mut |_, _| ()));
    let blocks = read(bytes, Depth::Blocks);
    let whole = read(bytes, Depth::Everything);
    let _extent = read_or_explained(extent_of(std::io::Cursor::new(bytes)));
    let Some(Contents { head, bytes: length, .. }) = &whole else { return };
    assert_eq!(blocks.as_ref(), whole.as_ref(), "what can be restored has valid blocks, and says the same");
    assert_eq!(*length, bytes.len() as u64, "all of it was read");
    assert_eq!(head_of(bytes).ok().as_ref(), Some(head));
    for cut in [bytes.len() - 1, bytes.len() / 2] {
        assert!(
            read(&bytes[..cut], Depth::Blocks).is_none_or(|read| read.signature != blocks.as_ref().unwrap().signature)
        );
    }
    let mut longer = bytes.to_vec();
    longer.push(0);
    assert!(read(&longer, Depth::Blocks).is_none(), "an appended byte is detected");
}

/// The same blocks with the checksums that they should have; none if there is no first line.
fn sealed(input: &[u8]) -> Option<Vec<u8>> {
    let line = input.iter().position(|byte| *byte == b'\n')? + 1;
    let (line, mut rest) = input.split_at(line);
    let mut bytes = line.to_vec();
    let mut chain: [u8; CHECKSUM_BYTES] = Sha256::digest(line).into();
    while let Some((head, after)) = rest.split_at_checked(BLOCK_HEAD_BYTES) {
        let packed = u32::from_le_bytes(head[12..16].try_into().ok()?) as usize;
        let Some((payload, after)) = after.split_at_checked(packed) else { break };
        chain = Sha256::new().chain_update(chain).chain_update(head).chain_update(payload).finalize().into();
        bytes.extend_from_slice(head);
        bytes.extend_from_slice(payload);
        bytes.extend_from_slice(&chain);
        rest = after.get(CHECKSUM_BYTES..).unwrap_or_default();
    }
    bytes.extend_from_slice(rest);
    Some(bytes)
}

/// The value; none for an error, which must have a short text.
fn read_or_explained<T>(read: Result<T, BackupProblem>) -> Option<T> {
    read.inspect_err(|problem| {
        let message = problem.to_string();
        assert!(!message.is_empty() && message.len() <= MESSAGE_BYTES_MAX, "{} bytes: {message}", message.len());
    })
    .ok()
}
