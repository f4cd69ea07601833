//! The example bytes against which the writer of blobs and its reader in `plugins/codelist` are both tested.

use std::path::Path;

use super::folder::PackFolder;
use crate::pack::{blob, check};
use daftar_domain::hexadecimal;

const SETTINGS: &str = r#"
name = "sample"
version = "1.2.3"
description = "Everything that a blob can say."
licence = "CC0-1.0"
attribution = "Nobody"

[[vocabulary]]
namespace = "urn:ex:a"
name = "A"
domain = "D"
version = "1"
source = "S"
default_language = "en"
languages = ["fr", "en"]
codes = "crops.tsv"
hierarchical = true
completeness = "fragment"

[[vocabulary]]
namespace = "urn:ex:b"
name = "B"
domain = "D"
version = "2"
source = "T"
licence = "MIT"
attribution = "Some"
default_language = "en"
languages = ["en"]
completeness = "empty"
system = false
extensible = true

[[concept_group]]
name = "g"
description = "G."
include = [{ descendants_of = "urn:ex:a#t" }]
exclude = [{ code = "urn:ex:a#o" }]
"#;

const CODES: &str = "code\tparents\tstatus\treplaced_by\taliases\turi\tselectable\tprop:k\n\
    t\t\t\t\t\t\tno\t\n\
    é1\tt\t\t\tx|y\tu:1\t\tv\n\
    o\tt|é1\tinactive\té1\t\t\t\t\n";

/// Parses the file: pairs of hexadecimal digits, and comments from `#` to the end of a line.
fn example() -> Vec<u8> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../plugins/codelist/tests/data/sample.hex");
    let text = std::fs::read_to_string(file).unwrap();
    let digits = text.lines().flat_map(|line| line.split('#').next().unwrap().split_whitespace());
    hexadecimal::decode(&digits.collect::<String>()).unwrap()
}

#[test]
fn writes_the_example_bytes() {
    let folder = PackFolder::valid()
        .with("pack.toml", SETTINGS)
        .with("codes/crops.tsv", CODES)
        .with("labels/en/crops.tsv", "code\tlabel\tdefinition\nt\tT\t\né1\tE\tDef\no\tO\t\n")
        .with("labels/fr/crops.tsv", "code\tlabel\tdefinition\né1\tÉ\tDéf\n");
    let source = check(folder.path()).unwrap();
    let written = blob::write(&source).unwrap();
    assert_eq!(written, example(), "{written:02x?}");
}
