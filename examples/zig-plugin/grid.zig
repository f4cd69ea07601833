//! A vocabulary pack in Zig: the cells of the geohash grid, up to 1.2 km wide. A cell is coarse enough to record the place of a
//! household without its address. The 32 cells of one character are listed; `s0h1` and all others follow the grammar, and the
//! parent of a cell is the cell with one character less.
//!
//! There is no allocator of a library; an instance lives for one request.

const daftar = @import("daftar.zig");
const Concept = daftar.Concept;
const LocalizedText = daftar.LocalizedText;
const Text = daftar.Text;

const namespace = "urn:example:grid";
const alphabet = "0123456789bcdefghjkmnpqrstuvwxyz";
const widths = [_][]const u8{ "5000 km", "1250 km", "156 km", "39 km", "4.9 km", "1.2 km" };
const help = "a grid cell is 1 to 6 of the characters 0-9 and b-z without i, l and o, as `s0h1` is";

/// The listed cells, computed by the compiler.
const listed = blk: {
    var cells: [alphabet.len]Concept = undefined;
    for (&cells, 0..) |*cell, i| {
        const labels = [_]LocalizedText{english("Grid cell " ++ alphabet[i .. i + 1] ++ ", " ++ widths[0] ++ " wide")};
        cell.* = .{ .code = .of(alphabet[i .. i + 1]), .labels = .of(&labels) };
    }
    break :blk cells;
};

const languages = [_]Text{.of("en")};
const vocabularies = [_]daftar.Vocabulary{.{
    .namespace = .of(namespace),
    .name = .of("Grid cells"),
    .domain = .of("Geographic"),
    .version = .of("1.0.0"),
    .source = .of("The geohash grid, written for this example"),
    .licence = .of("CC0-1.0"),
    .attribution = .of("The example of a plugin in Zig"),
    .default_language = .of("en"),
    .languages = .of(&languages),
    .hierarchical = true,
    .open = true,
    .system = true,
    .concept_count = listed.len,
}};

fn english(label: []const u8) LocalizedText {
    return .{ .language = .of("en"), .value = .of(label) };
}

/// The memory of one call: its arguments, and the texts of its result.
var memory: [8192]u8 align(16) = undefined;
var used: u32 = 0;

export fn cabi_realloc(old: ?[*]u8, old_bytes: u32, alignment: u32, new_bytes: u32) [*]u8 {
    // No reallocation: the host allocates once per argument.
    if (old != null or old_bytes != 0) @trap();
    const at = (used + alignment - 1) & ~(alignment - 1);
    if (at > memory.len or new_bytes > memory.len - at) @trap();
    used = at + new_bytes;
    return memory[at..].ptr;
}

/// Called after the host has copied a result.
export fn @"cabi_post_daftar:plugin/vocabulary@0.1.0#concepts"(_: *const daftar.PageResult) void {
    used = 0;
}

export fn @"cabi_post_daftar:plugin/vocabulary@0.1.0#resolve"(_: *const daftar.ResolveResult) void {
    used = 0;
}

export fn @"daftar:plugin/vocabulary@0.1.0#describe"() *const daftar.List(daftar.Vocabulary) {
    const all = struct {
        const list: daftar.List(daftar.Vocabulary) = .of(&vocabularies);
    };
    return &all.list;
}

export fn @"daftar:plugin/vocabulary@0.1.0#concept-groups"() *const daftar.List(daftar.ConceptGroup) {
    const none = struct {
        const list: daftar.List(daftar.ConceptGroup) = .{};
    };
    return &none.list;
}

/// The results, which the host copies before the next call.
var result: struct {
    page: daftar.PageResult,
    resolved: daftar.ResolveResult,
    parents: [1]Text,
    labels: [1]LocalizedText,
} = undefined;

export fn @"daftar:plugin/vocabulary@0.1.0#concepts"(at: [*]const u8, bytes: u32, cursor: u32, limit: u32) *const daftar.PageResult {
    if (!equal(at[0..bytes], namespace)) {
        result.page = .{ .is_error = true, .value = .{ .failure = .unknown_namespace } };
    } else if (cursor >= listed.len) {
        result.page = .{ .is_error = true, .value = .{ .failure = .invalid_cursor } };
    } else {
        const end = @min(listed.len, cursor +| limit);
        result.page = .{ .is_error = false, .value = .{ .page = .{
            .concepts = .of(listed[cursor..end]),
            .next = .{ .is_some = end < listed.len, .value = end },
        } } };
    }
    return &result.page;
}

export fn @"daftar:plugin/vocabulary@0.1.0#resolve"(at: [*]const u8, bytes: u32, code_at: [*]u8, code_bytes: u32) *const daftar.ResolveResult {
    const code = code_at[0..code_bytes];
    if (!equal(at[0..bytes], namespace)) {
        result.resolved = .{ .is_error = true, .value = .{ .failure = .{ .kind = .unknown_namespace } } };
    } else if (!normalize(code)) {
        result.resolved = .{ .is_error = true, .value = .{ .failure = .{ .kind = .malformed, .message = .of(help) } } };
    } else {
        result.parents = .{.of(code[0 .. code.len - 1])};
        result.labels = .{english(join(&.{ "Grid cell ", code, ", ", widths[code.len - 1], " wide" }))};
        const parents: []const Text = if (code.len > 1) &result.parents else &.{};
        const cell: Concept = .{ .code = .of(code), .parents = .of(parents), .labels = .of(&result.labels) };
        result.resolved = .{ .is_error = false, .value = .{ .concept = cell } };
    }
    return &result.resolved;
}

/// Brings a code to its normal spelling, in lower case; false if it is no cell.
fn normalize(code: []u8) bool {
    if (code.len == 0 or code.len > widths.len) return false;
    for (code) |*one| {
        if (one.* >= 'A' and one.* <= 'Z') one.* += 'a' - 'A';
        for (alphabet) |known| {
            if (one.* == known) break;
        } else return false;
    }
    return true;
}

fn equal(one: []const u8, other: []const u8) bool {
    if (one.len != other.len) return false;
    for (one, other) |a, b| {
        if (a != b) return false;
    }
    return true;
}

/// The parts as one text, in the memory of the call.
fn join(parts: []const []const u8) []const u8 {
    const start = used;
    for (parts) |part| {
        if (part.len > memory.len - used) @trap();
        @memcpy(memory[used..][0..part.len], part);
        used += part.len;
    }
    return memory[start..used];
}
