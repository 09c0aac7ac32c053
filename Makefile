# make help lists the targets. CI runs: make check test e2e.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

TOOL := go tool -modfile=hack/tools/go.mod
HOSTS ?= 1
EXIT ?=
ONLY ?=

.PHONY: help demo build payload test e2e bench check generate verify-generated fmt vet lint clean

help: ## Lists the targets.
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

demo: ## Shows how a Windows host becomes a node. HOSTS=3 or HOSTS=sim:20; EXIT=1 ends by itself.
	@hack/prepare.sh
	@cd lab && go run ./demo -hosts $(HOSTS) $(if $(EXIT),-exit)

build: ## Builds the operator and its programs for Windows hosts into bin/.
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/ ./cmd/wmco
	CGO_ENABLED=0 GOOS=windows GOARCH=amd64 go build -trimpath -ldflags '-s -w' -o bin/ ./cmd/wicd ./cmd/wicd-setup ./cmd/hybrid-overlay-node

payload: ## Builds what the operator carries for Windows hosts into _payload/.
	go run ./payload/build/cmd --out _payload

test: ## Runs the tests that need no Windows host; with Wine also those of the code that calls Windows.
	hack/failures-last.sh go test ./...
	hack/failures-last.sh hack/wine-test.sh . ./internal/win/...
	cd payload/containerd && go vet ./... && go test ./...
	hack/wine-test.sh payload/containerd .
	cd payload/windows-exporter && go vet ./... && go test ./...
	cd lab && ../hack/failures-last.sh go test ./deploytest/ ./hcs/ ./hns/ ./image/ ./proxy/ ./winbuild/

e2e: ## Runs the lab: real API server, real Windows programs on Wine hosts.
	@hack/prepare.sh
	cd lab && ../hack/failures-last.sh go test -count=1 -timeout 80m -run '$(or $(ONLY),.)' . ./e2e/

bench: ## Measures; prints lines "name value unit". ONLY=join takes one group.
	@hack/prepare.sh
	cd lab && go run ./bench -only '$(ONLY)'

check: fmt vet lint verify-generated ## Checks format, vet (Linux and Windows), staticcheck, generated files, PowerShell's syntax and the rules of the architecture.
	hack/check-powershell.sh
	go test -count=1 .

fmt:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not formatted (run gofmt -w):"; gofmt -l $$(git ls-files '*.go'); exit 1; }

vet:
	go vet ./...
	GOOS=windows go vet ./...
	cd lab && go vet -trimpath ./... # as the control plane is built, so that Kubernetes is compiled once

lint:
	$(TOOL) staticcheck ./...
	GOOS=windows "$$($(TOOL) -n staticcheck)" ./internal/win/... ./cmd/wicd/... ./cmd/wicd-setup/... ./cmd/hybrid-overlay-node/...

generate: ## Writes the CRDs, the copies of our kinds, and docs/objects.md.
	$(TOOL) controller-gen object paths=./api/... crd output:crd:dir=deploy/crds
	go run ./hack/objects api/v1alpha1 docs/objects.md

verify-generated: generate
	@git diff --exit-code -- api deploy/crds docs/objects.md || { echo "generated files were out of date: commit what make generate wrote"; exit 1; }

clean: ## Removes what was built. The cache in ~/.cache/wmco stays.
	rm -rf bin _payload
