//! The blob of the generic pack: every page of every vocabulary, read as the host reads them.

use daftar_codelist::blob::Blob;

/// Maximum number of concepts of a page, and of pages that are read of a vocabulary.
const PAGE_CONCEPTS: u32 = 50;
const PAGES_MAX: u32 = 20;

/// The input is a blob; a second run gives it the magic bytes, the format and the length that it should have.
pub fn check(input: &[u8]) {
    read(input);
    let mut repaired = input.to_vec();
    if repaired.len() >= 16 {
        let length = u32::try_from(repaired.len()).unwrap();
        repaired[..8].copy_from_slice(b"DFTRCODE");
        repaired[8..12].copy_from_slice(&1_u32.to_le_bytes());
        repaired[12..16].copy_from_slice(&length.to_le_bytes());
        read(&repaired);
    }
}

fn read(bytes: &[u8]) {
    let Ok(blob) = Blob::open(bytes) else { return };
    if let Ok(groups) = blob.concept_groups() {
        assert!(groups.len() <= bytes.len(), "each group takes bytes");
    }
    let Ok(descriptions) = blob.descriptions() else { return };
    for (index, description) in descriptions.iter().enumerate() {
        assert!(description.languages.contains(&description.default_language));
        // Of vocabularies with one namespace the first one is read.
        if descriptions.iter().take(index).any(|earlier| earlier.namespace == description.namespace) {
            continue;
        }
        let page = |cursor| blob.page(&description.namespace, cursor, PAGE_CONCEPTS);
        let mut cursor = 0;
        for _ in 0..PAGES_MAX {
            let Ok(Ok(page)) = page(cursor) else { break };
            assert!(page.concepts.len() <= PAGE_CONCEPTS as usize);
            for concept in &page.concepts {
                let mut labels = concept.labels.iter().chain(&concept.definitions);
                assert!(labels.all(|label| description.languages.contains(&label.language)));
            }
            let Some(next) = page.next else { break };
            assert!(next > cursor, "the next page is a later one");
            cursor = next;
        }
    }
    let unknown = descriptions.iter().all(|description| description.namespace != "urn:no:such");
    if unknown {
        assert!(blob.page("urn:no:such", 0, 1).is_ok_and(|page| page.is_err()), "a vocabulary that does not exist");
    }
}
