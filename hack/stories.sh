#!/usr/bin/env bash
# Runs the stories of internal/operator/controllers/storytest with the Windows quirks of one seed after another: hack/stories.sh <number of seeds>
# [<first seed>] [<pattern of the stories' names>]. Random stories are skipped: each of their seeds has its own quirks.
set -euo pipefail
cd "$(dirname "$0")/.."
seeds=$1 first=${2:-1} only=${3:-.}
program=$(mktemp) log=$(mktemp) broken=()
trap 'rm -f "$program" "$log"' EXIT
go test -c -vet=off -o "$program" ./internal/operator/controllers/storytest
cd internal/operator/controllers/storytest
for ((seed = first; seed < first + seeds; seed++)); do
  if GOGC=400 WMCO_QUIRKS_SEED=$seed "$program" -test.timeout 20m -test.run "$only" -test.skip '^TestRandom' >"$log" 2>&1; then
    echo "seed $seed: passed"
    continue
  fi
  cat "$log"
  names=$(grep -oE '^--- FAIL: [A-Za-z0-9]+' "$log" | cut -d' ' -f3 || true)
  for name in ${names:-.}; do # a story that never ends has no name there
    broken+=("WMCO_QUIRKS_SEED=$seed go test -run '$name' ./internal/operator/controllers/storytest")
  done
done
echo "$seeds seeds, ${#broken[@]} failures"
[ ${#broken[@]} -eq 0 ] || { printf '    %s\n' "${broken[@]}"; exit 1; }
