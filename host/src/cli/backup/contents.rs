//! What a backup holds, as commands tell it.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::output;
use daftar_service::backup::{Authenticity, Contents, FORMAT};

/// The contents as JSON.
pub(in crate::cli) fn json_of(contents: &Contents, file: &Path) -> Value {
    let Contents { head, counts, blocks, bytes, checksum, signature } = contents;
    json!({
        "file": file, "format": FORMAT, "daftar": head.daftar, "register": head.register, "sequence": head.sequence, "at": head.at, "keys": head.keys,
        "counts": counts, "blocks": blocks, "bytes": bytes, "checksum": checksum.to_hex(),
        "signed_by": signature.as_ref().map(|signature| signature.key().to_string()),
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
    output::line(format_args!("{bytes} bytes, checksum {}", checksum.to_hex()));
    output::line(if head.keys {
        "the keys are in it: whoever has the file can make tokens and knows everything in the register; keep it as safe as the server"
    } else {
        "the keys are not in it: keep the folder `keys` of the server too, as no client's secret is good without it"
    });
}

/// Who signed a backup, in a word for programs.
pub(in crate::cli) const fn name_of(authenticity: Authenticity) -> &'static str {
    match authenticity {
        Authenticity::Signed(_) => "verified",
        Authenticity::UnknownKey(_) => "not_verified",
        Authenticity::Unsigned => "none",
    }
}

/// Says who signed a backup.
pub(in crate::cli) fn print_authenticity(authenticity: Authenticity) {
    match authenticity {
        Authenticity::Signed(key) => output::line(format_args!("signed by the trusted key {key}")),
        Authenticity::UnknownKey(key) => output::line(format_args!(
            "signed by the key {key}; the signature was NOT verified, as no key is trusted for backups: name one with --trusted-key, or in `[plugins] trusted_keys` with --config"
        )),
        Authenticity::Unsigned => output::line(
            "there is NO signature: the checksums tell damage, not who made or changed the file (`daftar backup --sign KEY` signs)",
        ),
    }
}
