#!/usr/bin/env bash
# Fails if make generate would change a file.
set -euo pipefail
cd "$(dirname "$0")/.."
MAKEFLAGS= make --no-print-directory generate
git diff --exit-code -- api deploy/crds docs/objects.md docs/reference docs/support.md docs/counterparts.md docs/kubectl-windows.md docs/limitations.md docs/metrics.md docs/runbooks/README.md deploy/monitoring/rules deploy/pod-rules.yaml deploy/workloads || { echo "generated files are out of date: commit the output of make generate"; exit 1; }
