#!/usr/bin/env bash
# Builds wmco-acceptance.exe, which embeds the programs that it starts, and with a payload also the files for its option --join, in folder
# join next to it: hack/acceptance.sh <folder> [<payload>]. IMAGES lists archives or folders of images for closed networks, in the layout of
# the Open Container Initiative, separated by white space.
set -euo pipefail
out=$(realpath -m "$1")
payload=${2:+$(realpath "$2")}
IMAGES=$(for image in ${IMAGES:-}; do realpath "$image"; done)
cd "$(dirname "$0")/.."
export GOOS=windows GOARCH=amd64 CGO_ENABLED=0
programs=cmd/wmco-acceptance/programs
mkdir -p "$programs" "$out"
exec 9<"$programs"
flock 9 # concurrent builds use the same folder
rm -f "$programs"/*
go test -vet=off -c -ldflags '-s -w' -o "$programs/" ./internal/node/win ./internal/node/win/network ./internal/node/win/scm
go build -ldflags '-s -w' -o "$programs/" k8s.io/component-base/logs/kube-log-runner
gzip -n "$programs"/*.exe
go build -buildvcs=auto -tags acceptance -ldflags '-s -w' -o "$out/" ./cmd/wmco-acceptance
printf '%s: %s MB\n' "$out/wmco-acceptance.exe" "$(($(stat -c %s "$out/wmco-acceptance.exe") >> 20))"
[ -n "$payload" ] || exit 0

join=$out/join
rm -rf "$join"
mkdir -p "$join"
go build -buildvcs=auto -ldflags '-s -w' -o "$join/" ./cmd/wmco
(
  cd lab
  go build -ldflags '-s -w' -o "$join/sshd.exe" ./windows/sshd/cmd
  version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
  IFS=. read -r major minor _ <<<"${version#v}"
  variables=k8s.io/component-base/version # as in Kubernetes' own build scripts
  go build -ldflags "-s -w -X $variables.gitVersion=$version -X $variables.gitMajor=$major -X $variables.gitMinor=$minor" -o "$join/" ./cluster/controlplane
)
cp -r "$payload" "$join/payload"
mkdir "$join/deploy"
(cd deploy && find . -name '*.yaml' -exec cp --parents -t "$join/deploy" {} +)
number=0
for image in ${IMAGES:-}; do
  number=$((number + 1))
  mkdir -p "$join/images/$number"
  if [ -d "$image" ]; then cp -r "$image/." "$join/images/$number"; else tar -xf "$image" -C "$join/images/$number"; fi
  [ -f "$join/images/$number/index.json" ] || { echo "$image has no index.json: it is not an OCI image layout" >&2; exit 1; }
done
(cd "$join" && find . -type f -printf '%P\n' | sort | xargs sha256sum >"$out/SHA256SUMS" && mv "$out/SHA256SUMS" .)
printf '%s: %s MB\n' "$join" "$(du -sm "$join" | cut -f1)"
