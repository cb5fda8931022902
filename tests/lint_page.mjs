// Checks the scripts of the report page: node tests/lint_page.mjs [FILE...].  One line per problem; exit code 1 if any.
// The files share one scope, because the page joins them into one script; they are therefore also checked as a whole.

import { readFileSync, readdirSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import vm from "node:vm";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const TEMPLATE = join(ROOT, "src", "kernelgpa", "report", "template");
const LONGEST_LINE = 120;
const LONGEST_FUNCTION = 40;
const MOST_LINES = 400;
const FORBIDDEN = [
  [/\b(innerHTML|outerHTML|insertAdjacentHTML)\b/, "markup from text; use createElement"],
  [/\bdocument\.write\b|\beval\b|\bFunction\(/, "code or markup from text"],
  [/\bvar\b/, "use const or let"],
  [/[^=!]==[^=]|!=[^=]/, "use === or !=="],
  [/\bconsole\b|\bdebugger\b|\balert\(/, "left from debugging"],
];
const GLOBALS = new Set(`Array Boolean Float32Array Float64Array Infinity Int32Array Intl JSON Math NaN Number Object
  Plotly Promise Set String Uint8Array atob await async break case catch clearTimeout const continue document else
  false for function if in let new null of requestAnimationFrame return setTimeout true try typeof undefined while
  window`.split(/\s+/));

/** The code without comments, strings and regular expressions; what stands in ${...} of a template is code. */
function codeOnly(source) {
  let code = "";
  let i = 0;
  const templates = []; // depth of braces at which each open template goes on
  let depth = 0;
  const skip = (end) => {
    const from = i;
    i = end < 0 ? source.length : end;
    code += " " + source.slice(from, i).replace(/[^\n]/g, "");
  };
  const quoted = (quote) => {
    let j = i + 1;
    while (j < source.length && source[j] !== quote) j += source[j] === "\\" ? 2 : 1;
    return j + 1;
  };
  const template = () => { // from the character after ` or } to the closing ` or the next ${
    let j = i + 1;
    while (j < source.length && source[j] !== "`" && !source.startsWith("${", j)) j += source[j] === "\\" ? 2 : 1;
    if (source[j] === "`") return j + 1;
    templates.push(depth++);
    return j + 2;
  };
  while (i < source.length) {
    const c = source[i];
    if (source.startsWith("//", i)) skip(source.indexOf("\n", i));
    else if (source.startsWith("/*", i)) skip(source.indexOf("*/", i) + 2);
    else if (c === '"' || c === "'") skip(quoted(c));
    else if (c === "`") skip(template());
    else if (c === "}" && templates.at(-1) === depth - 1) { depth = templates.pop(); skip(template()); }
    else if (c === "/" && /[(,=:[!&|?{};]\s*$/.test(code)) skip(quoted("/"));
    else {
      depth += c === "{" ? 1 : c === "}" ? -1 : 0;
      code += c;
      i++;
    }
  }
  return code;
}

/** Names that occur once: declared and never used, or used and never declared.  Members and keys do not count. */
function namesUsedOnce(code) {
  const counts = new Map();
  for (const found of code.matchAll(/[A-Za-z_$][\w$]*/g)) {
    const [before, after] = [code.slice(0, found.index), code.slice(found.index + found[0].length)];
    const isPart = /[\w$]$/.test(before) || /(^|[^.])\.$/.test(before.slice(-2));
    const isKey = /^\s*:/.test(after) && /[{,]\s*$/.test(before.slice(-200));
    if (!isPart && !isKey) counts.set(found[0], (counts.get(found[0]) ?? 0) + 1);
  }
  return [...counts].filter(([name, count]) => count === 1 && !GLOBALS.has(name)).map(([name]) => name);
}

function syntaxError(source, name) {
  try {
    new vm.Script(`"use strict";(() => {${source}\n})();`, { filename: name });
    return [];
  } catch (error) {
    return [`${String(error.stack).split("\n")[0]}: ${error.name}: ${error.message}`];
  }
}

function problemsOf(name, source) {
  const found = syntaxError(source, name);
  const lines = source.split("\n");
  const code = codeOnly(source).split("\n");
  if (lines.length > MOST_LINES) found.push(`${name}: ${lines.length} lines, at most ${MOST_LINES}`);
  lines.forEach((line, i) => {
    const place = `${name}:${i + 1}`;
    if (line.length > LONGEST_LINE) found.push(`${place}: ${line.length} characters, at most ${LONGEST_LINE}`);
    if (/\s$|\t/.test(line)) found.push(`${place}: a tab, or space at the end`);
    if (/https?:/.test(line)) found.push(`${place}: the page loads nothing`);
    for (const [pattern, remedy] of FORBIDDEN) if (pattern.test(code[i] ?? "")) found.push(`${place}: ${remedy}`);
    if (/^(async )?function/.test(line)) {
      const length = lines.slice(i).findIndex((end) => end.startsWith("}")) + 1;
      if (length > LONGEST_FUNCTION) found.push(`${place}: a function of ${length} lines, at most ${LONGEST_FUNCTION}`);
    }
  });
  return found;
}

const given = process.argv.slice(2);
const templates = () => readdirSync(TEMPLATE).filter((one) => one.endsWith(".js")).map((one) => join(TEMPLATE, one));
const files = given.length ? given : templates();
const sources = files.map((file) => [relative(ROOT, file), readFileSync(file, "utf8")]);
const joined = sources.map(([, source]) => source).join("\n");
const problems = [
  ...sources.flatMap(([name, source]) => problemsOf(name, source)),
  ...syntaxError(joined, "all files joined"),
  ...namesUsedOnce(codeOnly(joined)).map((name) => `${name}: declared and not used, or used and not declared`),
];
for (const one of problems) process.stdout.write(`${one}\n`);
process.exitCode = problems.length ? 1 : 0;
