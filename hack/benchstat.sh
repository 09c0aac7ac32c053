#!/usr/bin/env bash
# Compares results with benchstat: hack/benchstat.sh <old> <new>... Lines "name value unit" of make bench become those of a Go benchmark;
# the output of go test -bench is passed through. A file may have several runs: benchstat needs six of each to separate noise from change.
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: hack/benchstat.sh <old> <new>..." >&2; exit 2; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
inputs=()
for file in "$@"; do
  copy="$scratch/${#inputs[@]}"
  awk 'NF == 3 && $2 ~ /^[0-9.]+$/ { $0 = "Benchmark" toupper(substr($1, 1, 1)) substr($1, 2) " 1 " $2 " " $3 } { print }' "$file" >"$copy"
  inputs+=("$(basename "$file")=$copy")
done
cd "$(dirname "$0")/.."
go tool -modfile=hack/tools/go.mod benchstat "${inputs[@]}"
