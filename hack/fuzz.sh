#!/usr/bin/env bash
# Runs every fuzzer of this repository in turn: hack/fuzz.sh <time for each> [<pattern of their names>]. Go stores a failing input in
# testdata/fuzz; commit it with the fix, so that later test runs include it. Fuzzers in files for Windows are skipped, because go cannot
# fuzz on Wine; tests on Wine run their seeds.
set -uo pipefail
cd "$(dirname "$0")/.."
time=$1 only=${2:-.}
broken=() tried=0
while IFS=: read -r file fuzzer; do
  folder=$(dirname "$file")
  tried=$((tried + 1))
  echo "==> $folder $fuzzer"
  (cd "$folder" && go test -vet=off -run '^$' -fuzz "^$fuzzer\$" -fuzztime "$time" -fuzzminimizetime 5s .) || broken+=("$folder $fuzzer")
done < <(grep -roE --include='*_test.go' --exclude='*_windows_test.go' '^func Fuzz[A-Za-z0-9]+' . | sed 's/func //' | grep -E ":.*$only" | sort)
echo "$tried fuzzers ran for $time each, ${#broken[@]} failed"
[ "$tried" -gt 0 ] || exit 1
[ ${#broken[@]} -eq 0 ] || { printf '    %s\n' "${broken[@]}"; exit 1; }
