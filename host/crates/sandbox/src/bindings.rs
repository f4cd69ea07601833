//! The types and calls of the newest plugin interface, generated from `wit/`.
//!
//! **Invariant:** these are the only `bindgen!` calls, and only `crate::wit` uses the generated types.

pub(super) use self::eligibility_engine::generated as engine;
pub(super) use self::vocabulary_pack::generated as pack;

mod vocabulary_pack {
    pub(crate) mod generated {
        wasmtime::component::bindgen!({
            path: "../../../wit/daftar-plugin/0.1.0",
            world: "vocabulary-pack",
            // A call that exceeds its budget traps.
            imports: { default: trappable },
        });
    }
}

mod eligibility_engine {
    pub(crate) mod generated {
        wasmtime::component::bindgen!({
            path: "../../../wit/daftar-plugin/0.1.0",
            world: "eligibility-engine",
            imports: { default: trappable },
            // A batch is lowered from the caller's columns without a copy of them.
            ownership: Borrowing { duplicate_if_necessary: true },
            with: { "daftar:plugin/log": crate::bindings::pack::daftar::plugin::log },
        });
    }
}
