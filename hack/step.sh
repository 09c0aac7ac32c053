#!/usr/bin/env bash
# Runs one step of a ring: hack/step.sh <name> <budget in seconds, warm> <command>. In a run (hack/run.sh) it notes when it began, how it
# ended and what it took, and shows its name before each line of output, because other steps run beside it. A step that fails repeats at
# its end what failed: in between may be the logs of a whole cluster.
set -uo pipefail
name=$1 budget=$2
shift 2
notes=${WMCO_RUN:-}
[ -n "$notes" ] || notes=$(mktemp -d)
output="$notes/$name.log"
prefix=${WMCO_RUN:+"$(printf '%-18s' "$name")| "}
printf 'budget=%s began=%s\n' "$budget" "$EPOCHREALTIME" >"$notes/$name.step"

exec 3> >(tee "$output" | sed -u "s/^/$prefix/")
printer=$!
TIMEFORMAT='%R %U %S'
took=$({ time "$@" >&3 2>&1 3>&-; } 2>&1)
status=$?
exec 3>&-
timeout 10 tail --pid=$printer -f /dev/null # until all is printed; a process that outlived the step may keep the pipe open
read -r seconds user system <<<"$took"
printf 'seconds=%s user=%s system=%s status=%s\n' "$seconds" "$user" "$system" "$status" >>"$notes/$name.step"
if [ "$status" -ne 0 ]; then
  printf '%s\n%swhat failed in %s:\n' "$prefix" "$prefix" "$name"
  { grep -E '^ *--- FAIL|^ +[A-Za-z0-9_]+\.go:[0-9]+: |^(FAIL|panic:|WARNING: DATA RACE)|\*\*\* Test killed' "$output" || tail -n 20 "$output"; } |
    cut -c1-1000 | tail -n 80 | sed "s/^/$prefix/"
fi
[ -n "${WMCO_RUN:-}" ] || rm -rf "$notes"
exit "$status"
