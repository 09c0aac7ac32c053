#!/usr/bin/env bash
# Runs every fuzzer of this repository in turn: hack/fuzz.sh <time for each> [<pattern of their names>]. An input that breaks one is kept by go
# in testdata/fuzz beside it; commit it with the mend, and it is tried with the tests from then on. Those of files for Windows are left
# out: go cannot fuzz by way of Wine, which tries their seeds.
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
echo "$tried fuzzers ran for $time each, ${#broken[@]} found something"
[ "$tried" -gt 0 ] || exit 1
[ ${#broken[@]} -eq 0 ] || { printf '    %s\n' "${broken[@]}"; exit 1; }
