//! The interface `vocabulary-pack` of daftar:plugin@0.1.0 in Zig: the structures of the canonical ABI for 32 bits, by which
//! the host reads a plugin's memory. The tests at the end of the file verify their sizes at compile time.
//!
//! All data that a plugin returns may be constant: the host copies it and frees nothing.

/// The prefix of the names of the four functions of a pack.
pub const interface = "daftar:plugin/vocabulary@0.1.0#";

/// A string of the interface: an address and a number of bytes of UTF-8.
pub const Text = extern struct {
    at: ?[*]const u8 = null,
    bytes: u32 = 0,

    pub fn of(value: []const u8) Text {
        return .{ .at = value.ptr, .bytes = value.len };
    }
};

/// A list of items of one type.
pub fn List(comptime Item: type) type {
    return extern struct {
        at: ?[*]const Item = null,
        items: u32 = 0,

        pub fn of(value: []const Item) @This() {
            return .{ .at = value.ptr, .items = value.len };
        }
    };
}

pub const LocalizedText = extern struct { language: Text, value: Text };
pub const Property = extern struct { key: Text, value: Text };
pub const OptionalText = extern struct { is_some: bool = false, value: Text = .{} };
pub const OptionalU32 = extern struct { is_some: bool = false, value: u32 = 0 };
pub const Completeness = enum(u8) { full, fragment, empty };
pub const Status = enum(u8) { active, inactive };

pub const Vocabulary = extern struct {
    namespace: Text,
    name: Text,
    domain: Text,
    version: Text,
    source: Text,
    licence: Text,
    attribution: Text,
    default_language: Text,
    languages: List(Text),
    hierarchical: bool = false,
    completeness: Completeness = .full,
    open: bool = false,
    system: bool = false,
    extensible: bool = false,
    concept_count: u32,
};

pub const Concept = extern struct {
    code: Text,
    status: Status = .active,
    selectable: bool = true,
    parents: List(Text) = .{},
    replaced_by: OptionalText = .{},
    labels: List(LocalizedText),
    definitions: List(LocalizedText) = .{},
    aliases: List(Text) = .{},
    uri: OptionalText = .{},
    properties: List(Property) = .{},
};

pub const Selection = extern struct { kind: enum(u8) { code, descendants_of }, uri: Text };
pub const ConceptGroup = extern struct {
    name: Text,
    description: Text,
    includes: List(Selection) = .{},
    excludes: List(Selection) = .{},
};

/// The result of `concepts`.
pub const PageError = enum(u8) { unknown_namespace, invalid_cursor };
pub const PageResult = extern struct {
    is_error: bool,
    value: extern union {
        page: extern struct { concepts: List(Concept), next: OptionalU32 },
        failure: PageError,
    },
};

/// The result of `resolve`.
pub const ResolveError = enum(u8) { unknown_namespace, not_open, malformed };
pub const ResolveResult = extern struct {
    is_error: bool,
    value: extern union {
        concept: Concept,
        failure: extern struct { kind: ResolveError, message: Text = .{} },
    },
};

/// The import of the host: writes a log line for the operator. `level` is 0 for trace to 4 for error. A plugin that does not
/// call it does not import it.
pub extern "daftar:plugin/log@0.1.0" fn write(level: u32, at: [*]const u8, bytes: u32) void;

comptime {
    const sizes = .{ .{ Vocabulary, 84 }, .{ Concept, 76 }, .{ PageResult, 20 }, .{ ResolveResult, 80 } };
    for (sizes) |size| {
        if (@sizeOf(size[0]) != size[1]) @compileError("another size: " ++ @typeName(size[0]));
    }
}
