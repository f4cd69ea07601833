// Writes the conformance tests of the CEL specification that need no protocol buffers, one a line, as the npm package
// `@bufbuild/cel-spec` (version 0.6.1 brings those of specification 0.25.1) has them. `cargo xtask test` runs it beside the package.
//
// Left out is what is about protocol buffers, which the language of rules does not have: the files `enums`, `proto2`, `proto2_ext`,
// `proto3`, `wrappers` and `type_deductions` (its tests are of types, most of them of messages), tests of other files that name a
// message, and `block_ext`, a notation for machines that optimise CEL. 1,617 of 2,344 tests are left: 1,098 of the language, 519
// of its extensions.
import { tests } from "./package/dist/esm/testdata/conformance.js";

// Whole files about messages, and cel.block, which is for machines that write CEL.
const LEFT_OUT = ["block_ext", "enums", "proto2", "proto2_ext", "proto3", "type_deductions", "wrappers"];
const KEPT = ["name", "expr", "value", "evalError", "bindings", "container"];
// Names of messages and of what only they have. Values that are wrapped in messages without need are kept.
const MESSAGES =
  /TestAllTypes|enumValue|NullValue|(Int32|Int64|UInt32|UInt64|Float|Double|Bool|String|Bytes)Value ?\{|\bValue\{|GlobalEnum|proto\.|google\.protobuf\.(?!Timestamp\b|Duration\b)|cel\.expr/;

function write(suite, path) {
  for (const { original } of suite.tests ?? []) {
    const kept = { file: path[0], section: path.slice(1).join("/") };
    for (const key of KEPT) if (original[key] !== undefined) kept[key] = original[key];
    const told = JSON.stringify({ expr: kept.expr, value: kept.value, container: kept.container });
    // As texts, numbers are read to their last digit.
    const exact = (key, value) => (key === "doubleValue" && typeof value === "number" ? String(value) : value);
    if (!MESSAGES.test(told)) console.log(JSON.stringify(kept, exact));
  }
  for (const below of suite.suites ?? []) write(below, [...path, below.name]);
}

for (const file of tests.suites) if (!LEFT_OUT.includes(file.name)) write(file, [file.name]);
