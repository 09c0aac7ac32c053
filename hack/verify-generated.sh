#!/usr/bin/env bash
# Says whether make generate would change something.
set -euo pipefail
cd "$(dirname "$0")/.."
MAKEFLAGS= make --no-print-directory generate
git diff --exit-code -- api deploy/crds docs/objects.md docs/reference docs/support.md docs/counterparts.md docs/kubectl-windows.md docs/limitations.md docs/metrics.md docs/runbooks/README.md deploy/monitoring/rules deploy/pod-rules.yaml deploy/workloads || { echo "generated files were out of date: commit what make generate wrote"; exit 1; }
