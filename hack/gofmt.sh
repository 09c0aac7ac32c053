#!/usr/bin/env bash
# Lists files that are not formatted.
set -euo pipefail
cd "$(dirname "$0")/.."
unformatted=$(git ls-files '*.go' | xargs gofmt -l)
[ -z "$unformatted" ] || { printf 'not formatted (run gofmt -w):\n%s\n' "$unformatted"; exit 1; }
