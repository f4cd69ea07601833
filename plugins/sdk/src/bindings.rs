//! The generated bindings: one module for each world, and one for the imports of both. Do not edit.

/// The imports of every plugin.
pub mod imports {
    wit_bindgen::generate!({
        path: "../../wit/daftar-plugin/0.1.0",
        inline: "
            package daftar:sdk;
            world imports {
                import daftar:plugin/log@0.1.0;
            }
        ",
        generate_all,
    });
}

/// The world `vocabulary-pack`.
pub mod vocabulary_pack {
    wit_bindgen::generate!({
        path: "../../wit/daftar-plugin/0.1.0",
        world: "vocabulary-pack",
        pub_export_macro: true,
        export_macro_name: "export_vocabulary_pack",
        default_bindings_module: "daftar_sdk::bindings::vocabulary_pack",
        additional_derives: [PartialEq, Eq],
        with: { "daftar:plugin/log@0.1.0": crate::bindings::imports::daftar::plugin::log },
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
        with: { "daftar:plugin/log@0.1.0": crate::bindings::imports::daftar::plugin::log },
    });
}
