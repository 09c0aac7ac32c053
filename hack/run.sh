#!/usr/bin/env bash
# Runs targets of the Makefile two at a time, and says at the end what failed and what each step took: hack/run.sh <targets> [-- <targets
# that come after all of those>] [--if-time <targets that are left out when half of WMCO_LIMIT minutes are over>]. After WMCO_LIMIT
# minutes, where that is set, it stops everything and says what was running.
set -uo pipefail
cd "$(dirname "$0")/.."
export MAKEFLAGS= MAKELEVEL= # those of the make that called are not for the ones that are called

# in_time says whether there is time for targets that can be left out.
in_time() {
  awk -v limit="${WMCO_LIMIT:-0}" -v took=$((EPOCHSECONDS - WMCO_BEGAN)) 'BEGIN { exit !(limit == 0 || took <= limit * 60 / 2) }'
}

# run_phase runs targets; those after --if-time only where there is time: run_phase <separator before them> <targets>.
run_phase() {
  local separator=$1 step
  shift
  [ $# -gt 0 ] || return 0
  if [ "$separator" = -- ] || in_time; then
    make --no-print-directory -j2 "$@"
    return
  fi
  for step in "$@"; do
    echo "budget=0 began=$EPOCHREALTIME seconds=0 status=skipped" >"$WMCO_RUN/$step.step"
  done
}

if [ -n "${WMCO_RUN:-}" ]; then # within a run
  phase=() separator=--
  for word in "$@" --; do
    case "$word" in
      -- | --if-time)
        run_phase "$separator" "${phase[@]}" || exit
        phase=() separator=$word
        ;;
      *) phase+=("$word") ;;
    esac
  done
  exit 0
fi

WMCO_RUN=$(mktemp -d "${TMPDIR:-/tmp}/wmco-run-XXXXXX")
export WMCO_RUN WMCO_BEGAN=${WMCO_BEGAN:-$EPOCHSECONDS}
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
      skipped) outcome="SKIPPED, as half of the $WMCO_LIMIT minutes were over; make $(basename "$step" .step) runs it" ;;
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
    case "$(field "$step" status)" in '' | 0 | skipped) continue ;; esac
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
