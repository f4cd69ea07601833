//! The generated half: one module for each world. Nothing here is written by hand.

/// The world `vocabulary-pack`.
pub mod vocabulary_pack {
    wit_bindgen::generate!({
        path: "../../wit/daftar-plugin/0.1.0",
        world: "vocabulary-pack",
        pub_export_macro: true,
        export_macro_name: "export_vocabulary_pack",
        default_bindings_module: "daftar_sdk::bindings::vocabulary_pack",
        additional_derives: [PartialEq, Eq],
    });
}

/// The world `eligibility-engine`.
pub mod eligibility_engine {
    wit_bindgen::generate!({
        path: "../../wit/daftar-plugin/0.1.0",
        world: "eligibility-engine",
        pub_export_macro: true,
        export_macro_name: "export_eligibility_engine",
        default_bindings_module: "daftar_sdk::bindings::eligibility_engine",
    });
}
