// Parses files with PowerShell's grammar and prints syntax errors.
const { readFileSync } = require('node:fs');
const { createRequire } = require('node:module');
const path = require('node:path');

const modules = createRequire(path.join(process.argv[2], 'package.json'));
const { Language, Parser } = modules('web-tree-sitter');

// Removes the markup that cloud agents require around a script. Line numbers stay the same.
const withoutTags = (text) => text.replace(/^<powershell>/, '').replace(/<\/powershell>\n<persist>true<\/persist>\n$/, '');

function* faults(node) {
  if (node.isError || node.isMissing) yield node;
  else if (node.hasError) for (const child of node.children) yield* faults(child);
}

async function main() {
  await Parser.init();
  const grammar = path.join(path.dirname(modules.resolve('tree-sitter-powershell/package.json')), 'tree-sitter-powershell.wasm');
  const parser = new Parser();
  parser.setLanguage(await Language.load(readFileSync(grammar)));
  let bad = 0;
  for (const file of process.argv.slice(3)) {
    for (const fault of faults(parser.parse(withoutTags(readFileSync(file, 'utf8'))).rootNode)) {
      const { row, column } = fault.startPosition;
      const what = fault.isMissing ? `there is no ${fault.type}` : JSON.stringify(fault.text.split('\n')[0].slice(0, 80));
      console.error(`${file}:${row + 1}:${column + 1}: not PowerShell: ${what}`);
      bad++;
    }
  }
  process.exit(bad > 0 ? 1 : 0);
}

main().catch((err) => {
  console.error(err);
  process.exit(2);
});
