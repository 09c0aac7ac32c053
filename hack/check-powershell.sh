#!/usr/bin/env bash
# Parses the user data of new Machines with PowerShell's grammar (tree-sitter, from the npm registry), because PowerShell itself is not
# available. If node or the grammar is missing, it prints that and succeeds.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in node npm; do
  command -v "$program" >/dev/null || { echo "User data was not checked with PowerShell's grammar: $program is not installed (hack/prepare.sh installs it)." >&2; exit 0; }
done
pinned=$(cat hack/powershell/package.json hack/powershell/package-lock.json | sha256sum | cut -c1-12)
modules="${XDG_CACHE_HOME:-$HOME/.cache}/wmco/npm/$pinned"
if [ ! -e "$modules/complete" ]; then
  mkdir -p "$modules"
  cp hack/powershell/package.json hack/powershell/package-lock.json "$modules/"
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  # npm compares every package with its hash in the lock file. Scripts in packages are not run: the grammar is WebAssembly.
  if ! (cd "$modules" && npm ci --ignore-scripts --legacy-peer-deps --no-audit --no-fund) >"$log" 2>&1; then
    tail -5 "$log" >&2
    if grep -q EINTEGRITY "$log"; then exit 1; fi
    echo "User data was not checked with PowerShell's grammar: npm could not download it." >&2
    exit 0
  fi
  touch "$modules/complete"
fi
node hack/powershell/check.cjs "$modules" internal/operator/userdata/testdata/*.golden
