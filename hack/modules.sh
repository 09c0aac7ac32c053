#!/usr/bin/env bash
# Downloads the modules of all go.mod files except that of make verify-release, which no ring runs, and those of
# programs that only make e2e builds.
set -euo pipefail
cd "$(dirname "$0")/.."
for mod in $(git ls-files '*go.mod' ':!release/verify' ':!lab/cluster/kubernetes' ':!lab/cluster/csidriver' ':!lab/cluster/metricsserver'); do
  (cd "$(dirname "$mod")" && GOFLAGS=-mod=mod go mod download)
done
