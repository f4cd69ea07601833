//! The published lists known to the importers: their metadata, and the acknowledgements that their publishers require.

use crate::publisher_files::draft::{DraftCode, DraftPack, DraftVocabulary, version_of};
use daftar_domain::vocabulary::Completeness;

/// A published list, with the metadata of its pack and its vocabulary.
pub struct Publication<'a> {
    pub pack_name: &'a str,
    pub description: &'a str,
    pub licence: &'a str,
    pub attribution: &'a str,
    /// The publication and its release; an `{edition}` at the end is replaced by the edition.
    pub source: &'a str,
    pub note: &'a str,
    /// The namespace URI of the codes.
    pub namespace: &'a str,
    /// The vocabulary's name.
    pub name: &'a str,
    /// The subject area.
    pub domain: &'a str,
    /// The name of its tables, without `.tsv`.
    pub table: &'a str,
}

impl Publication<'_> {
    fn source(&self, edition: &str) -> String {
        let before = self.source.strip_suffix("{edition}");
        before.map_or_else(|| self.source.to_owned(), |before| format!("{before}{edition}"))
    }

    /// The complete vocabulary in English, with a column of parents.
    pub fn vocabulary(&self, edition: String, codes: Vec<DraftCode>) -> DraftVocabulary {
        DraftVocabulary {
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
            domain: self.domain.to_owned(),
            source: self.source(&edition),
            edition,
            table: self.table.to_owned(),
            languages: vec!["en".to_owned()],
            completeness: Completeness::Full,
            rule: None,
            codes,
        }
    }

    /// The pack of that vocabulary.
    pub fn pack(&self, edition: String, codes: Vec<DraftCode>) -> DraftPack {
        self.pack_of(&edition.clone(), vec![self.vocabulary(edition, codes)])
    }

    /// The pack of these vocabularies.
    pub fn pack_of(&self, edition: &str, vocabularies: Vec<DraftVocabulary>) -> DraftPack {
        DraftPack {
            pack_name: self.pack_name.to_owned(),
            description: self.description.to_owned(),
            licence: self.licence.to_owned(),
            attribution: self.attribution.to_owned(),
            source: self.source(edition),
            note: self.note.to_owned(),
            version: version_of(edition),
            vocabularies,
        }
    }
}

const WHO_LICENCE: &str = "CC-BY-ND-3.0-IGO";

const WHO_NOTE: &str = "The codes, titles and URIs are those of the file published by the World Health Organization (WHO), under the
Creative Commons Attribution-NoDerivatives 3.0 IGO licence (https://creativecommons.org/licenses/by-nd/3.0/igo/).

- No title was edited or translated. Hyphens that show the depth in WHO's table are not part of a title; white space is one line.
- Code and URI stay together with the title, as WHO asks.
- Not WHO's are: the keys of headings without a code, the selectable flags, and the columns whose names begin with
  `prop:`, except for values of WHO's table.
- A subset may be passed on; a changed title or an own translation may not.";

/// ICD-11 for mortality and morbidity statistics.
pub const ICD_11: Publication<'static> = Publication {
    pack_name: "icd-11",
    description: "Diseases and health conditions of ICD-11 MMS with its chapters and blocks.",
    licence: WHO_LICENCE,
    attribution: "International Classification of Diseases, Eleventh Revision (ICD-11), World Health Organization \
        (WHO) 2019/2021 https://icd.who.int/browse11. Licensed under Creative Commons Attribution-NoDerivatives 3.0 \
        IGO licence (CC BY-ND 3.0 IGO).",
    source: "WHO, ICD-11 for Mortality and Morbidity Statistics, {edition}",
    note: WHO_NOTE,
    namespace: "urn:who:icd-11",
    name: "ICD-11 for Mortality and Morbidity Statistics",
    domain: "Health",
    table: "icd-11",
};

/// Body functions of ICF; its pack contains activities too.
pub const ICF_BODY_FUNCTIONS: Publication<'static> = Publication {
    pack_name: "icf",
    description: "Body functions and activities of the ICF.",
    licence: WHO_LICENCE,
    attribution: "International Classification of Functioning, Disability and Health (ICF), World Health Organization \
        (WHO) https://icd.who.int/browse11. Licensed under Creative Commons Attribution-NoDerivatives 3.0 IGO licence \
        (CC BY-ND 3.0 IGO).",
    source: "WHO, International Classification of Functioning, Disability and Health, {edition}",
    note: WHO_NOTE,
    namespace: "urn:who:icf:b",
    name: "ICF body functions",
    domain: "Disability",
    table: "icf-b",
};

/// Activities of ICF.
pub const ICF_ACTIVITIES: Publication<'static> = Publication {
    namespace: "urn:who:icf:d",
    name: "ICF activities and participation",
    table: "icf-d",
    ..ICF_BODY_FUNCTIONS
};

/// ISCO-08.
pub const ISCO_08: Publication<'static> = Publication {
    pack_name: "isco-08",
    description: "Occupations of ISCO-08 on all four levels.",
    licence: "Titles © ILO, reproduced with acknowledgement",
    attribution: "International Labour Organization, International Standard Classification of Occupations 2008 (ISCO-08)",
    source: "ILO, International Standard Classification of Occupations 2008",
    note: "The classification and its titles are © International Labour Organization: International Standard
Classification of Occupations 2008 (ISCO-08). They are reproduced with acknowledgement. The definitions of the publication are
not included.",
    namespace: "urn:ilo:isco-08",
    name: "Occupations (ISCO-08)",
    domain: "Labor",
    table: "isco-08",
};

/// AGROVOC.
pub const AGROVOC: Publication<'static> = Publication {
    pack_name: "agrovoc",
    description: "Concepts of AGROVOC.",
    licence: "CC-BY-4.0",
    attribution: "AGROVOC, © FAO, licensed under CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/); changed: subset",
    source: "FAO, AGROVOC, {edition}",
    note: "AGROVOC, © FAO, https://agrovoc.fao.org, licensed under Creative Commons Attribution 4.0 International
(https://creativecommons.org/licenses/by/4.0/). Changed: a subset of its concepts, labels and links.

That licence covers the labels in English, French, Spanish, Russian, Arabic and Chinese. Labels in other languages belong to the
institutions that contributed them; ask them before passing such labels on.",
    namespace: "urn:fao:agrovoc",
    name: "AGROVOC",
    domain: "Agriculture",
    table: "agrovoc",
};

/// Currencies, from SIX.
pub const SIX_CURRENCIES: Publication<'static> = Publication {
    pack_name: "currency",
    description: "Currencies, funds and metals of ISO 4217.",
    licence: "Codes of ISO 4217, free to use; table of SIX, the maintenance agency",
    attribution: "ISO 4217, maintained by SIX Financial Information AG",
    source: "SIX, ISO 4217 list one, published {edition}",
    note: "The codes are those of ISO 4217 and may be used freely. The table is list one of SIX Financial Information AG, the
maintenance agency of the standard.",
    namespace: "urn:iso:std:iso:4217",
    name: "Currencies",
    domain: "Geographic",
    table: "currency",
};

/// Languages, from SIL.
pub const SIL_LANGUAGES: Publication<'static> = Publication {
    pack_name: "language",
    description: "Languages of ISO 639 that have a two-letter code.",
    licence: "SIL terms of use for the ISO 639-3 code tables",
    attribution: "ISO 639-3 code tables, SIL International, https://iso639-3.sil.org",
    source: "SIL International, ISO 639-3 code tables",
    note: "The table is that of SIL International, the registration authority of ISO 639-3 (https://iso639-3.sil.org). It may
be used freely, also in products, when the source is named, nothing is changed that would mislead about the standard, and the
table itself is not sold.",
    namespace: "urn:iso:std:iso:639",
    name: "Languages",
    domain: "Geographic",
    table: "language",
};

/// A list of the iso-codes project, as an alternative to another publication of the same standard.
macro_rules! iso_codes {
    ($standard:literal, $publication:expr) => {
        Publication {
            licence: "LGPL-2.1-or-later",
            attribution: concat!("Codes: ", $standard, ". Names: the iso-codes project"),
            source: concat!($standard, ", as collected by the iso-codes project"),
            note: concat!(
                "The codes are those of ",
                $standard,
                " and may be used freely. The names and the table are those of the iso-codes\n",
                "project (https://salsa.debian.org/iso-codes-team/iso-codes), under the GNU Lesser General Public License, \
                 version 2.1 or later."
            ),
            ..$publication
        }
    };
}

/// Countries, from iso-codes.
pub const ISO_COUNTRIES: Publication<'static> = iso_codes!(
    "ISO 3166-1",
    Publication {
        pack_name: "country",
        description: "Countries and territories of ISO 3166-1 by alpha-2 code.",
        namespace: "urn:iso:std:iso:3166-1",
        name: "Countries",
        table: "country",
        ..SIL_LANGUAGES
    }
);

/// Languages, from iso-codes.
pub const ISO_LANGUAGES: Publication<'static> = iso_codes!("ISO 639", SIL_LANGUAGES);

/// Currencies, from iso-codes.
pub const ISO_CURRENCIES: Publication<'static> = iso_codes!("ISO 4217", SIX_CURRENCIES);
