#!/usr/bin/env bash
# Runs tests with Go's race detector: hack/race-test.sh <arguments of go test>. Where there is no gcc, which it needs, or no time, it says so
# and passes.
set -euo pipefail
if ! echo '#include <pthread.h>' | gcc -E - >/dev/null 2>&1; then
  echo "SKIPPED: tests with the race detector need Debian's gcc and libc6-dev" >&2
  exit 0
fi
# It compiles all packages of Kubernetes once more: with cold caches on a slow machine, a run with a limit has no time for that.
if awk -v limit="${WMCO_LIMIT:-0}" -v took="$((EPOCHSECONDS - ${WMCO_BEGAN:-EPOCHSECONDS}))" 'BEGIN { exit !(limit > 0 && took > limit * 60 / 2) }'; then
  echo "SKIPPED: tests with the race detector, as half of the $WMCO_LIMIT minutes of this run are over; make unit-race runs them" >&2
  exit 0
fi
CGO_ENABLED=1 exec go test -vet=off -race -timeout 60m "$@"
