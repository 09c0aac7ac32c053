#!/usr/bin/env bash
# Runs the tests of packages for Windows on Wine, in a module of this repository: hack/wine-test.sh <folder> <packages>.
# Without Wine or mingw, it prints SKIPPED and passes.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ ! -x /usr/lib/wine/wine64 ] || ! command -v x86_64-w64-mingw32-gcc >/dev/null; then
  echo "SKIPPED: tests of the Windows code need Debian's wine64 and gcc-mingw-w64-x86-64" >&2
  exit 0
fi
wine="$PWD/internal/node/win/testdata/wine"
cd "$1"
shift
GOOS=windows GOARCH=amd64 CGO_ENABLED=0 go test -timeout 25m -exec "$wine" "$@"
