#!/usr/bin/env bash
# Runs a command that is "go test", and repeats at the end what failed and what it said: hack/failures-last.sh <command>.
# In between are the logs of a whole cluster, and of a failed run often only the end is kept.
set -uo pipefail
output=$(mktemp)
trap 'rm -f "$output"' EXIT
exec 3> >(tee "$output")
printer=$!
"$@" >&3 2>&1 3>&-
status=$?
exec 3>&-
timeout 10 tail --pid=$printer -f /dev/null # until all is printed; a process that outlived the tests may keep the pipe open
[ "$status" -ne 0 ] || exit 0
printf '\nwhat failed:\n'
grep -E '^ *--- FAIL|^ +[A-Za-z0-9_]+\.go:[0-9]+: |^(FAIL|panic:|WARNING: DATA RACE)|\*\*\* Test killed' "$output" | cut -c1-1000 | tail -n 80
exit "$status"
