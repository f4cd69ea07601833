//! What each owner asks to be said with its codes: names, licences, acknowledgements.

/// What a pack says about itself, and the note on its data's licence.
#[derive(Debug, Clone)]
pub struct Owner {
    /// The pack's name.
    pub pack_name: String,
    /// What it brings, in one sentence.
    pub description: String,
    /// Licence of the data.
    pub licence: String,
    /// The acknowledgement; may be empty.
    pub attribution: String,
    /// Which publication.
    pub source: String,
    /// What `LICENSE-DATA.md` says.
    pub note: String,
}

const WHO_LICENCE: &str = "CC-BY-ND-3.0-IGO";

const WHO_NOTE: &str = "The codes, titles and URIs are those of the file published by the World Health Organization (WHO), under the
Creative Commons Attribution-NoDerivatives 3.0 IGO licence (https://creativecommons.org/licenses/by-nd/3.0/igo/).

- No title was edited or translated. Hyphens that show the depth in WHO's table are not part of a title; white space is one line.
- Code and URI stay together with the title, as WHO asks.
- Not WHO's are: the keys of headings that have no code, the marks of what may be chosen, and the columns whose names begin with
  `prop:` but for what they repeat of WHO's table.
- A subset may be passed on; a changed title or an own translation may not.";

/// ICD-11 for mortality and morbidity statistics.
pub fn icd_11(edition: &str) -> Owner {
    Owner {
        pack_name: "icd-11".to_owned(),
        description: "Diseases and health conditions of ICD-11 MMS with its chapters and blocks.".to_owned(),
        licence: WHO_LICENCE.to_owned(),
        attribution: "International Classification of Diseases, Eleventh Revision (ICD-11), World Health Organization \
            (WHO) 2019/2021 https://icd.who.int/browse11. Licensed under Creative Commons Attribution-NoDerivatives 3.0 \
            IGO licence (CC BY-ND 3.0 IGO)."
            .to_owned(),
        source: format!("WHO, ICD-11 for Mortality and Morbidity Statistics, {edition}"),
        note: WHO_NOTE.to_owned(),
    }
}

/// ICF.
pub fn icf(edition: &str) -> Owner {
    Owner {
        pack_name: "icf".to_owned(),
        description: "Body functions and activities of the ICF.".to_owned(),
        licence: WHO_LICENCE.to_owned(),
        attribution: "International Classification of Functioning, Disability and Health (ICF), World Health Organization \
            (WHO) https://icd.who.int/browse11. Licensed under Creative Commons Attribution-NoDerivatives 3.0 IGO licence \
            (CC BY-ND 3.0 IGO)."
            .to_owned(),
        source: format!("WHO, International Classification of Functioning, Disability and Health, {edition}"),
        note: WHO_NOTE.to_owned(),
    }
}

/// ISCO-08.
pub fn isco_08() -> Owner {
    Owner {
        pack_name: "isco-08".to_owned(),
        description: "Occupations of ISCO-08 on all four levels.".to_owned(),
        licence: "Titles © ILO, reproduced with acknowledgement".to_owned(),
        attribution: "International Labour Organization, International Standard Classification of Occupations 2008 (ISCO-08)"
            .to_owned(),
        source: "ILO, International Standard Classification of Occupations 2008".to_owned(),
        note: "The classification and its titles are © International Labour Organization: International Standard
Classification of Occupations 2008 (ISCO-08). They are reproduced with acknowledgement. The definitions of the publication are
not included."
            .to_owned(),
    }
}

/// AGROVOC.
pub fn agrovoc(edition: &str) -> Owner {
    Owner {
        pack_name: "agrovoc".to_owned(),
        description: "Concepts of AGROVOC.".to_owned(),
        licence: "CC-BY-4.0".to_owned(),
        attribution: "AGROVOC, © FAO, licensed under CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/); changed: subset"
            .to_owned(),
        source: format!("FAO, AGROVOC, {edition}"),
        note: "AGROVOC, © FAO, https://agrovoc.fao.org, licensed under Creative Commons Attribution 4.0 International
(https://creativecommons.org/licenses/by/4.0/). Changed: a subset of its concepts, labels and links.

That licence covers the labels in English, French, Spanish, Russian, Arabic and Chinese. Labels in other languages belong to the
institutions that contributed them; ask them before passing such labels on."
            .to_owned(),
    }
}

/// Currencies, from SIX.
pub fn six(edition: &str) -> Owner {
    Owner {
        pack_name: "currency".to_owned(),
        description: "Currencies, funds and metals of ISO 4217.".to_owned(),
        licence: "Codes of ISO 4217, free to use; table of SIX, the maintenance agency".to_owned(),
        attribution: "ISO 4217, maintained by SIX Financial Information AG".to_owned(),
        source: format!("SIX, ISO 4217 list one, published {edition}"),
        note: "The codes are those of ISO 4217 and may be used freely. The table is list one of SIX Financial Information AG, the
maintenance agency of the standard."
            .to_owned(),
    }
}

/// A list of the iso-codes project.
pub fn iso_codes(pack_name: &str, standard: &str, description: &str) -> Owner {
    Owner {
        pack_name: pack_name.to_owned(),
        description: description.to_owned(),
        licence: "LGPL-2.1-or-later".to_owned(),
        attribution: format!("Codes: {standard}. Names: the iso-codes project"),
        source: format!("{standard}, as collected by the iso-codes project"),
        note: format!(
            "The codes are those of {standard} and may be used freely. The names and the table are those of the iso-codes
project (https://salsa.debian.org/iso-codes-team/iso-codes), under the GNU Lesser General Public License, version 2.1 or later."
        ),
    }
}

/// Languages, from SIL.
pub fn sil() -> Owner {
    Owner {
        pack_name: "language".to_owned(),
        description: "Languages of ISO 639 that have a two-letter code.".to_owned(),
        licence: "SIL terms of use for the ISO 639-3 code tables".to_owned(),
        attribution: "ISO 639-3 code tables, SIL International, https://iso639-3.sil.org".to_owned(),
        source: "SIL International, ISO 639-3 code tables".to_owned(),
        note: "The table is that of SIL International, the registration authority of ISO 639-3 (https://iso639-3.sil.org). It may
be used freely, also in products, when the source is named, nothing is changed that would mislead about the standard, and the
table itself is not sold."
            .to_owned(),
    }
}
