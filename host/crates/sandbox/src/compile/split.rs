//! Divides a pack into code and data, so that packs with the same code share its machine code.
//!
//! Packs that the pack builder wrote are one module with different initial memories. The host takes the data segments
//! out of the module and puts them into a second module, which imports the first one's memory:
//!
//! ```text
//! component                          component (code)                     module (data)
//!   module: code, memory, data   →     module: code, memory                 import: memory
//!   instance of the module             instance of the module               data
//!   …                                  …
//!                                      import: module (data)
//!                                      instance of (data) with the memory
//! ```
//!
//! An instance of either form has the same memory before its first call: the segments are copied during instantiation,
//! and no code runs before. The code part is compiled and cached by its own digest. The data part has no functions.
//!
//! **Invariant:** both parts are derived from a file whose digest, signature and validity were checked as a whole.
//! **Invariant:** a component of any other shape is not divided: with several modules, imports of the module, a start
//! function, segments that code can use, or a memory that is not exported.

use std::ops::Range;

use wasm_encoder::{
    Component, ComponentImportSection, ComponentTypeRef, CoreTypeSection, EntityType, ImportSection, InstanceSection,
    MemoryType, Module, ModuleArg, ModuleType, RawSection, SectionId,
};
use wasmparser::{
    BinaryReaderError, DataKind, Encoding, ExternalKind, Instance, MemorySectionReader, Operator, Parser, Payload,
    TableSectionReader,
};
use wasmtime::ResourcesRequired;

/// The name by which the code part imports the module with the data.
pub(crate) const DATA_IMPORT: &str = "pack-data";

/// The name of the instance that provides the memory.
const CODE: &str = "code";

/// The largest data section of a divided pack, in bytes. The data of a divided pack are copied into each instance; the
/// operating system maps those of an undivided one page by page, which is better for megabytes.
const DATA_BYTES_MAX: usize = 4 << 20;

/// A divided pack.
pub(crate) struct Split {
    /// The component without data, which imports the module with the data.
    pub code: Vec<u8>,
    /// The module with the data.
    pub data: Vec<u8>,
    /// The memories and tables of an instance.
    pub required: ResourcesRequired,
}

/// Divides a valid component; none if it has another shape.
pub(crate) fn split(component: &[u8]) -> Option<Split> {
    let outline = Outline::of(component).ok()??;
    let module = ModuleOutline::of(component.get(outline.module.clone())?).ok()??;
    let mut memory_import = ImportSection::new();
    memory_import.import(CODE, &module.memory_export, module.memory);
    let mut data = Module::new();
    data.section(&memory_import).section(&RawSection { id: SectionId::Data.into(), data: module.data });

    let mut code = Component::new();
    for (id, range) in outline.sections {
        if range == outline.module {
            code.section(&RawSection { id, data: &module.code });
        } else {
            code.section(&RawSection { id, data: component.get(range)? });
        }
    }
    let mut data_type = ModuleType::new();
    data_type.import(CODE, &module.memory_export, EntityType::Memory(module.memory));
    let mut types = CoreTypeSection::new();
    types.ty().module(&data_type);
    let mut imports = ComponentImportSection::new();
    imports.import(DATA_IMPORT, ComponentTypeRef::Module(0));
    let mut instances = InstanceSection::new();
    instances.instantiate(1, [(CODE, ModuleArg::Instance(outline.instance))]);
    code.section(&types).section(&imports).section(&instances);
    Some(Split { code: code.finish(), data: data.finish(), required: module.required })
}

/// The sections of a component with one module and one instance of it.
struct Outline {
    /// Identifier and content of each section, without custom ones.
    sections: Vec<(u8, Range<usize>)>,
    /// The content of the module.
    module: Range<usize>,
    /// The index of its instance.
    instance: u32,
}

impl Outline {
    fn of(component: &[u8]) -> Result<Option<Self>, BinaryReaderError> {
        let (mut sections, mut module, mut instance) = (Vec::new(), None, None);
        let (mut depth, mut instances) = (0usize, 0u32);
        for payload in Parser::new(0).parse_all(component) {
            let payload = payload?;
            let section = payload.as_section().filter(|_| depth == 0);
            let is_custom = matches!(payload, Payload::CustomSection(_));
            match payload {
                // A module inside a component, or an instance of one there; or types, whose numbers would change.
                Payload::ModuleSection { .. } | Payload::InstanceSection(_) if depth > 0 => return Ok(None),
                Payload::CoreTypeSection(_) | Payload::ComponentStartSection { .. } => return Ok(None),
                Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => return Ok(None),
                Payload::ModuleSection { unchecked_range, .. } => {
                    if module.replace(unchecked_range).is_some() {
                        return Ok(None);
                    }
                    depth = depth.saturating_add(1);
                }
                Payload::ComponentSection { .. } => depth = depth.saturating_add(1),
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::InstanceSection(section) => {
                    for item in section {
                        if let Instance::Instantiate { .. } = item?
                            && instance.replace(instances).is_some()
                        {
                            return Ok(None);
                        }
                        instances = instances.saturating_add(1);
                    }
                }
                // The others are copied unchanged.
                _ => {}
            }
            sections.extend(section.filter(|_| !is_custom));
        }
        Ok(module.zip(instance).map(|(module, instance)| Self { sections, module, instance }))
    }
}

/// A module without imports whose data only its instantiation uses.
struct ModuleOutline<'m> {
    /// The module without its data and custom sections.
    code: Vec<u8>,
    /// The content of its data section.
    data: &'m [u8],
    memory: MemoryType,
    memory_export: String,
    required: ResourcesRequired,
}

impl<'m> ModuleOutline<'m> {
    fn of(module: &'m [u8]) -> Result<Option<Self>, BinaryReaderError> {
        let (mut code, mut data, mut memory, mut memory_export) = (Module::new(), None, None, None);
        let mut required = ResourcesRequired {
            num_memories: 0,
            max_initial_memory_size: None,
            num_tables: 0,
            max_initial_table_size: None,
        };
        for payload in Parser::new(0).parse_all(module) {
            let payload = payload?;
            let section = payload.as_section();
            match payload {
                Payload::ImportSection(_) | Payload::StartSection { .. } | Payload::DataCountSection { .. } => {
                    return Ok(None);
                }
                Payload::CustomSection(_) => continue,
                Payload::DataSection(segments) => {
                    for segment in segments {
                        if !is_placed(&segment?.kind)? {
                            return Ok(None);
                        }
                    }
                    data = section.and_then(|(_, range)| module.get(range));
                    continue;
                }
                Payload::MemorySection(memories) => memory = only_memory(memories, &mut required)?,
                Payload::TableSection(tables) => add_tables(tables, &mut required)?,
                Payload::ExportSection(exports) => {
                    for export in exports {
                        let export = export?;
                        if export.kind == ExternalKind::Memory {
                            memory_export = Some(export.name.to_owned());
                        }
                    }
                }
                // The others are copied unchanged.
                _ => {}
            }
            if let Some((id, range)) = section
                && let Some(data) = module.get(range)
            {
                code.section(&RawSection { id, data });
            }
        }
        let (Some(memory), Some(memory_export), Some(data)) = (memory, memory_export, data) else { return Ok(None) };
        let is_small = data.len() <= DATA_BYTES_MAX;
        Ok(is_small.then(|| Self { code: code.finish(), data, memory, memory_export, required }))
    }
}

/// Returns true if a segment has a fixed address in the first memory, or none: without a section that counts segments,
/// no code can use a passive one.
fn is_placed(kind: &DataKind<'_>) -> Result<bool, BinaryReaderError> {
    let offset_expr = match kind {
        DataKind::Active { memory_index: 0, offset_expr } => offset_expr,
        DataKind::Active { .. } => return Ok(false),
        DataKind::Passive => return Ok(true),
    };
    let mut operators = offset_expr.get_operators_reader();
    let is_constant = matches!(operators.read()?, Operator::I32Const { .. });
    Ok(is_constant && matches!(operators.read()?, Operator::End))
}

/// Returns the memory, if there is one only.
fn only_memory(
    memories: MemorySectionReader<'_>,
    required: &mut ResourcesRequired,
) -> Result<Option<MemoryType>, BinaryReaderError> {
    required.num_memories = memories.count();
    let mut only = None;
    for memory in memories {
        let memory = memory?;
        required.max_initial_memory_size = required.max_initial_memory_size.max(Some(memory.initial));
        only = Some(MemoryType {
            minimum: memory.initial,
            maximum: memory.maximum,
            memory64: memory.memory64,
            shared: memory.shared,
            page_size_log2: memory.page_size_log2,
        });
    }
    Ok(only.filter(|_| required.num_memories == 1))
}

fn add_tables(tables: TableSectionReader<'_>, required: &mut ResourcesRequired) -> Result<(), BinaryReaderError> {
    required.num_tables = tables.count();
    for table in tables {
        required.max_initial_table_size = required.max_initial_table_size.max(Some(table?.ty.initial));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
