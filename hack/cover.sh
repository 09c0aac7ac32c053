#!/usr/bin/env bash
# Prints the statement coverage of each package below internal and in total, except packages that simulate Windows or exist on Windows
# only. Tests of other packages count as well: those of WICD and of the controllers cover many packages.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=$(mktemp)
log=$(mktemp)
trap 'rm -f "$profile" "$log"' EXIT
packages=$(go list ./internal/... | grep -vE '/internal/(testing|archtest|node/win)(/|$)|test$' | paste -sd,)
go test -vet=off -parallel 10 -coverpkg="$packages" -coverprofile="$profile" ./internal/... >"$log" || { grep -v '^ok\|^coverage' "$log"; exit 1; }
awk -v module="$(go list -m)/" '
  /^mode:/ { next }
  { size[$1] = $2; if ($3 > 0) ran[$1] = 1 } # tests of several packages may have the same lines
  END {
    for (block in size) {
      package = substr(block, length(module) + 1)
      sub(/\/[^\/]*$/, "", package)
      all[package] += size[block]; all["total"] += size[block]
      if (block in ran) { some[package] += size[block]; some["total"] += size[block] }
    }
    for (package in all) if (package != "total") printf "%-38s %5.1f %%\n", package, 100 * some[package] / all[package] | "sort"
    close("sort")
    printf "%-38s %5.1f %% of %d statements\n", "total", 100 * some["total"] / all["total"], all["total"]
  }' "$profile"
