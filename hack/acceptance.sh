#!/usr/bin/env bash
# Builds wmco-acceptance.exe, with the programs that it starts inside it: hack/acceptance.sh <folder>.
set -euo pipefail
out=$(realpath -m "$1")
cd "$(dirname "$0")/.."
export GOOS=windows GOARCH=amd64 CGO_ENABLED=0
programs=cmd/wmco-acceptance/programs
mkdir -p "$programs" "$out"
rm -f "$programs"/*
go test -vet=off -c -ldflags '-s -w' -o "$programs/" ./internal/win ./internal/win/network ./internal/win/scm
go build -ldflags '-s -w' -o "$programs/" k8s.io/component-base/logs/kube-log-runner
gzip -n "$programs"/*.exe
go build -buildvcs=auto -tags acceptance -ldflags '-s -w' -o "$out/" ./cmd/wmco-acceptance
printf '%s: %s MB\n' "$out/wmco-acceptance.exe" "$(($(stat -c %s "$out/wmco-acceptance.exe") >> 20))"
