//! The file of further headers for the collector: one `name: value` a line, `#` begins a comment.
//!
//! **Invariant:** a file that everybody may read is refused, and no message tells a value.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use secrecy::SecretString;

/// The biggest file that is read.
const FILE_BYTES_MAX: u64 = 16 * 1024;
/// The most headers.
const HEADERS_MAX: usize = 32;
/// What others than owner and group may do with the file; must be nothing. A group may read: that is how secrets are handed to
/// containers.
const OTHERS_MASK: u32 = 0o027;
/// Headers that the client itself writes.
const OURS: [&str; 6] =
    ["content-type", "content-length", "content-encoding", "transfer-encoding", "host", "connection"];

/// A header with a value that nobody else may know.
#[derive(Debug)]
pub(super) struct Header {
    pub name: String,
    pub value: SecretString,
}

/// Reads the file.
///
/// # Errors
/// One sentence that names the file and what is wrong with it.
pub(super) fn read(path: &Path) -> Result<Vec<Header>, String> {
    let wrong = |reason: String| format!("`otlp.headers_file`: `{}` {reason}", path.display());
    let failed = |error: std::io::Error| wrong(format!("cannot be read: {error}"));
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let mode = metadata.permissions().mode() & 0o777;
    if !metadata.is_file() {
        return Err(wrong("is not a regular file".to_owned()));
    }
    if mode & OTHERS_MASK != 0 {
        return Err(wrong(format!("may be read or changed by others (mode {mode:03o}): `chmod 600` it")));
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(wrong(format!("has more than {FILE_BYTES_MAX} bytes")));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    parse(&text).map_err(|(line, reason)| wrong(format!("line {line}: {reason}")))
}

fn parse(text: &str) -> Result<Vec<Header>, (usize, &'static str)> {
    let mut headers = Vec::new();
    for (line, number) in text.lines().map(str::trim).zip(1..) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_once(':').ok_or((number, "write `name: value`"))?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
            return Err((number, "what stands before the colon is no name of a header"));
        }
        if OURS.contains(&name.as_str()) {
            return Err((number, "that header is written by the server itself"));
        }
        if value.is_empty() || !value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
            return Err((number, "the value has characters that a header cannot have"));
        }
        if headers.len() == HEADERS_MAX {
            return Err((number, "there are more than 32 headers"));
        }
        headers.push(Header { name, value: value.into() });
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn names_and_values_are_read_and_comments_are_not() {
        let headers = parse("# the key\n\nAuthorization: Bearer a:b c\nx-scope-orgid:7\n").unwrap();
        let read: Vec<_> = headers.iter().map(|header| (header.name.as_str(), header.value.expose_secret())).collect();
        assert_eq!(read, [("authorization", "Bearer a:b c"), ("x-scope-orgid", "7")]);
    }

    #[test]
    fn what_is_wrong_is_told_by_its_line_and_without_the_value() {
        for (text, line, told) in [
            ("authorization Bearer SECRET", 1, "write `name: value`"),
            ("a: b\n: SECRET", 2, "no name of a header"),
            ("a b: SECRET", 1, "no name of a header"),
            ("Content-Type: SECRET", 1, "written by the server itself"),
            ("a: SECRET\u{7f}", 1, "characters that a header cannot have"),
            ("a:", 1, "characters that a header cannot have"),
        ] {
            let (at, reason) = parse(text).unwrap_err();
            assert_eq!(at, line, "{text}");
            assert!(reason.contains(told) && !reason.contains("SECRET"), "{text}: {reason}");
        }
        let many = |count: usize| parse(&"a: b\n".repeat(count));
        assert_eq!(many(32).unwrap().len(), 32);
        assert_eq!(many(33).unwrap_err().0, 33);
    }

    #[test]
    fn a_file_that_everybody_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("headers");
        std::fs::write(&path, "authorization: SECRET\n").unwrap();
        for (mode, is_read) in
            [(0o600, true), (0o400, true), (0o440, true), (0o644, false), (0o604, false), (0o660, false)]
        {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let outcome = read(&path);
            assert_eq!(outcome.is_ok(), is_read, "{mode:o}");
            if let Err(reason) = outcome {
                assert!(reason.contains("headers") && !reason.contains("SECRET"), "{reason}");
            }
        }
        assert!(read(&folder.path().join("absent")).unwrap_err().contains("absent"));
        assert!(read(folder.path()).unwrap_err().contains("not a regular file"));
    }
}
