#!/usr/bin/env bash
# Runs tests with Go's race detector: hack/race-test.sh <arguments of go test>. Without gcc, which it requires, it prints SKIPPED and passes.
set -euo pipefail
if ! echo '#include <pthread.h>' | gcc -E - >/dev/null 2>&1; then
  echo "SKIPPED: tests with the race detector need Debian's gcc and libc6-dev" >&2
  exit 0
fi
# A program with the detector waits for a second before it exits. Some tests start themselves hundreds of times, as kubectl.
export GORACE="${GORACE:-atexit_sleep_ms=50}"
CGO_ENABLED=1 exec go test -vet=off -race -timeout 60m "$@"
