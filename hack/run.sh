#!/usr/bin/env bash
# Runs targets of the Makefile two at a time, and prints at the end what failed and how long each step took: hack/run.sh <targets>
# [-- <targets that come after all of those>]. No step is skipped; a step that fails stops only those that depend on it, and what comes after
# the next --. After WMCO_LIMIT minutes, where that is set, it stops everything and prints which steps were running.
set -uo pipefail
cd "$(dirname "$0")/.."
export MAKEFLAGS= MAKELEVEL= # those of the make that called are not for the ones that are called

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

# field prints what the notes of a step say: field <file> <name>.
field() { tr ' ' '\n' <"$1" | sed -n "s/^$2=//p"; }

# since prints the seconds since a step began.
since() { awk -v now="$EPOCHREALTIME" -v began="$(field "$1" began)" 'BEGIN { printf "%.0f", now - began }'; }

running() {
  local step
  for step in "$WMCO_RUN"/*.step; do
    [ ! -e "$step" ] || grep -q status= "$step" || printf ' %s (%s s)' "$(basename "$step" .step)" "$(since "$step")"
  done
}

table() {
  local step took outcome
  printf '\n%-18s %9s %9s %9s  %s\n' step seconds processor budget outcome
  while read -r _ step; do
    took=$(field "$step" seconds)
    case "$(field "$step" status)" in
      '') took=$(since "$step") outcome='was running' ;;
      0) outcome=passed ;;
      *) outcome=FAILED ;;
    esac
    awk -v name="$(basename "$step" .step)" -v took="$took" -v user="$(field "$step" user)" -v kernel="$(field "$step" system)" \
      -v budget="$(field "$step" budget)" -v factor="${WMCO_SPEED:-1}" -v outcome="$outcome" 'BEGIN {
        if (took > budget * factor) outcome = outcome ", over its budget with warm caches"
        printf "%-18s %9.1f %9.1f %9.0f  %s\n", name, took, user + kernel, budget * factor, outcome
      }'
  done < <(for step in "$WMCO_RUN"/*.step; do [ ! -e "$step" ] || echo "$(field "$step" began) $step"; done | sort -n)
  printf '%-18s %9d\n' 'whole run' $((SECONDS - began))
  grep -hE '^--- (PASS|FAIL)' "$WMCO_RUN"/*.log 2>/dev/null | sed 's/^--- //; s/[()]//g' | awk '$3 + 0 >= 10 { sub(":", "", $1); printf "  %-45s %9.1f  %s\n", $2, $3, $1 }'
}

# failures repeats what failed: in the output before may be the logs of whole clusters, and often only the end of it is kept.
failures() {
  local step name said
  for step in "$WMCO_RUN"/*.step; do
    [ -e "$step" ] || continue
    name=$(basename "$step" .step)
    case "$(field "$step" status)" in '' | 0) continue ;; esac
    said=$(awk -f hack/failures.awk "$WMCO_RUN/$name.log" | tail -n 80)
    printf '\nwhat failed in %s:\n%s\n' "$name" "${said:-$(tail -n 20 "$WMCO_RUN/$name.log")}"
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
  printf '\nSTOPPED: the run was not done after %s minutes. Running were:%s\n' "$WMCO_LIMIT" "$(running)" >&2
fi
exit "$status"
