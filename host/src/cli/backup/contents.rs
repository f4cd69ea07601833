//! What a backup holds, as commands tell it.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::output;
use crate::service::backup::{Contents, FORMAT};

/// The contents as JSON.
pub(in crate::cli) fn json_of(contents: &Contents, file: &Path) -> Value {
    let Contents { head, counts, blocks, bytes, checksum } = contents;
    json!({
        "file": file, "format": FORMAT, "daftar": head.daftar, "register": head.register, "sequence": head.sequence, "at": head.at, "keys": head.keys,
        "counts": counts, "blocks": blocks, "bytes": bytes, "checksum": checksum,
    })
}

/// Prints the contents.
pub(in crate::cli) fn print(contents: &Contents) {
    let Contents { head, counts, bytes, checksum, .. } = contents;
    output::line(format_args!(
        "the register {} as of write {}, {}, by daftar {}",
        head.register, head.sequence, head.at, head.daftar
    ));
    for (name, count) in counts {
        output::line(format_args!("  {:<22} {count}", name.replace('_', " ")));
    }
    output::line(format_args!("{bytes} bytes, checksum {checksum}"));
    output::line(if head.keys {
        "the keys are in it: whoever has the file can make tokens and knows everything in the register; keep it as safe as the server"
    } else {
        "the keys are not in it: keep the folder `keys` of the server too, as no client's secret is good without it"
    });
}
