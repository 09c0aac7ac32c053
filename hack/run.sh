#!/usr/bin/env bash
# Runs targets of the Makefile two at a time, and prints at the end what failed and how long each step took: hack/run.sh <targets>
# [-- <targets that run after those>]. No step is skipped; a failed step stops only the steps that depend on it and the targets after
# the next --. After WMCO_LIMIT minutes, if set, it stops everything and prints which steps were running.
set -uo pipefail
cd "$(dirname "$0")/.."
export MAKEFLAGS= MAKELEVEL= # do not pass the calling make's flags to the makes below

if [ -n "${WMCO_RUN:-}" ]; then # within a run
  phase=()
  for word in "$@" --; do
    if [ "$word" != -- ]; then
      phase+=("$word")
    elif [ ${#phase[@]} -gt 0 ]; then
      make --no-print-directory -k -j2 "${phase[@]}" || exit
      phase=()
    fi
  done
  exit 0
fi

WMCO_RUN=$(mktemp -d "${TMPDIR:-/tmp}/wmco-run-XXXXXX")
export WMCO_RUN
began=$SECONDS

# steps prints a line for each step in the order of their start: start time, name and budget, and for finished steps the real, user and
# system time in seconds and the exit status.
steps() { paste -sd ' ' "$WMCO_RUN"/*.step 2>/dev/null | sort -n; }

running() { steps | awk -v now="$EPOCHREALTIME" 'NF == 3 { printf " %s (%.0f s)", $2, now - $1 }'; }

table() {
  printf '\n%-18s %9s %9s %9s  %s\n' step seconds processor budget outcome
  steps | awk -v now="$EPOCHREALTIME" -v factor="${WMCO_SPEED:-1}" '{
    took = NF == 3 ? now - $1 : $4
    outcome = NF == 3 ? "was running" : $7 == 0 ? "passed" : "FAILED"
    if (took > $3 * factor) outcome = outcome ", over its budget with warm caches"
    printf "%-18s %9.1f %9.1f %9.0f  %s\n", $2, took, $5 + $6, $3 * factor, outcome
  }'
  printf '%-18s %9d\n' 'whole run' $((SECONDS - began))
  grep -hE '^--- (PASS|FAIL)' "$WMCO_RUN"/*.log 2>/dev/null | sed 's/^--- //; s/[()]//g' | awk '$3 + 0 >= 10 { sub(":", "", $1); printf "  %-45s %9.1f  %s\n", $2, $3, $1 }'
}

# failures repeats the output of failed steps: the output above may contain the logs of whole clusters, and often only its end is kept.
failures() {
  local name excerpt
  for name in $(steps | awk 'NF > 3 && $7 != 0 { print $2 }'); do
    excerpt=$(awk -f hack/failures.awk "$WMCO_RUN/$name.log" | tail -n 80)
    printf '\nwhat failed in %s:\n%s\n' "$name" "${excerpt:-$(tail -n 20 "$WMCO_RUN/$name.log")}"
  done
}

finish() {
  [ -z "${heartbeat:-}" ] || kill "$heartbeat" 2>/dev/null
  failures
  table
  rm -rf "$WMCO_RUN"
}
trap finish EXIT
trap '[ -z "${runner:-}" ] || { kill "$runner"; wait "$runner"; }; exit 130' INT TERM

WMCO_SPEED=${WMCO_SPEED:-$(go run ./hack/speed)} || exit
export WMCO_SPEED
while sleep 30 >/dev/null 2>&1; do
  now=$(running)
  [ -z "$now" ] || echo "running after $((SECONDS - began)) s:$now"
done &
heartbeat=$!

timeout --kill-after=60 "${WMCO_LIMIT:-0}m" hack/run.sh "$@" &
runner=$!
wait $runner
status=$?
if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
  printf '\nSTOPPED: the run did not finish within %s minutes. Running steps:%s\n' "$WMCO_LIMIT" "$(running)" >&2
fi
exit "$status"
