//! The types and calls of the plugin interface, generated from `wit/`.
//!
//! **Invariant:** these are the only `bindgen!` calls, and nothing outside `plugin::wit` names what they generate. A released
//! version keeps its module for as long as the host speaks it.

/// Interface version 0.1.0.
pub(super) mod v0_1 {
    pub(in crate::plugin) use self::eligibility_engine::generated as engine;
    pub(in crate::plugin) use self::vocabulary_pack::generated as pack;

    mod vocabulary_pack {
        pub(in crate::plugin) mod generated {
            wasmtime::component::bindgen!({
                path: "../wit/daftar-plugin/0.1.0",
                world: "vocabulary-pack",
            });
        }
    }

    mod eligibility_engine {
        pub(in crate::plugin) mod generated {
            wasmtime::component::bindgen!({
                path: "../wit/daftar-plugin/0.1.0",
                world: "eligibility-engine",
                // A batch is lowered from the caller's columns without a copy of them.
                ownership: Borrowing { duplicate_if_necessary: true },
            });
        }
    }
}
