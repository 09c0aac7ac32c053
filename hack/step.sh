#!/usr/bin/env bash
# Runs one step of a run (hack/run.sh): hack/step.sh <name> <budget in seconds, with warm caches> <command>. It notes when the step began,
# its exit status and duration, keeps its output, and prefixes each line with its name, because other steps run in parallel.
set -uo pipefail
name=$1 budget=$2
shift 2
[ -n "${WMCO_RUN:-}" ] || exec "$@"
notes="$WMCO_RUN/$name"
echo "$EPOCHREALTIME $name $budget" >"$notes.step"
exec 3> >(tee "$notes.log" | sed -u "s/^/$(printf '%-18s' "$name")| /")
printer=$!
TIMEFORMAT='%R %U %S'
took=$({ time "$@" >&3 2>&1 3>&-; } 2>&1)
status=$?
exec 3>&-
timeout 10 tail --pid=$printer -f /dev/null # until everything is printed; a process that outlives the step may keep the pipe open
echo "$took $status" >>"$notes.step"
exit "$status"
