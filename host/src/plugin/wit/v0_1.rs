//! Interface version 0.1.0, by the newest one: it lacks the import `log` and a rule's `summary` and `explain`, and its types are
//! the same but for two.
//!
//! **Invariant:** nothing is read or checked here. Functions are found under their old name, called with the newest version's
//! types where they are the same (wasmtime compares them with the component's at each start), and answered by the newest version's
//! readers.

pub(in crate::plugin) mod eligibility;
pub(in crate::plugin) mod vocabulary;

use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, Func, Instance, InstancePre};

use crate::plugin::sandbox::HostState;

/// The functions `N` of the interface that a plugin exports, where its component has them.
#[derive(Clone)]
struct Functions<const N: usize> {
    pre: InstancePre<HostState>,
    indices: [ComponentExportIndex; N],
}

impl<const N: usize> Functions<N> {
    /// Finds them.
    ///
    /// # Errors
    /// One is missing.
    fn find(pre: InstancePre<HostState>, interface: &str, names: [&str; N]) -> wasmtime::Result<Self> {
        let component = pre.component();
        let missing = |name: &str| wasmtime::Error::msg(format!("no exported function `{name}` in `{interface}`"));
        let interface_index = component.get_export_index(None, interface);
        let mut found = Vec::with_capacity(N);
        for name in names {
            let index = interface_index.as_ref().and_then(|index| component.get_export_index(Some(index), name));
            found.push(index.ok_or_else(|| missing(name))?);
        }
        let indices = found.try_into().map_err(|_| missing("all"))?;
        Ok(Self { pre, indices })
    }

    /// An instance with its functions.
    fn instantiate(&self, store: &mut Store<HostState>) -> wasmtime::Result<[Func; N]> {
        let instance: Instance = self.pre.instantiate(&mut *store)?;
        let mut functions = Vec::with_capacity(N);
        for index in &self.indices {
            let function = instance.get_func(&mut *store, index);
            functions.push(function.ok_or_else(|| wasmtime::Error::msg("an export is not a function"))?);
        }
        functions.try_into().map_err(|_| wasmtime::Error::msg("not every function is there"))
    }
}
