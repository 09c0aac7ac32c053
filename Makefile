# make help lists the targets. CI runs: make gate.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The same flags everywhere, so that no package is compiled twice.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false $(filter-out -trimpath -buildvcs=%,$(GOFLAGS))

RUN := @hack/run.sh
# Steps without the lab may use more memory to be faster: a tenth of the compilers' time is garbage collection.
STEP := @GOGC=400 hack/step.sh
E2E := @hack/step.sh
TOOL := go tool -modfile=hack/tools/go.mod
# golangci-lint caches its findings by package; the steps below may run in parallel.
export GOLANGCI_LINT_CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/wmco/golangci-lint
LINT := run --allow-parallel-runners
# check-vet has vetted the tests; go test would vet them and all their imports again.
# Twice Go's default: machines are shared, and WICD's tests took 6 minutes on a busy one with two slow processors.
TEST := go test -vet=off -timeout 20m
# skopeo's library verifies signatures without a C library.
OPENPGP := -tags containers_image_openpgp
# The race detector takes up to ten times the time.
RACED := $(CURDIR)/hack/race-test.sh
ON_WINDOWS := ./internal/testing/acceptance/... ./internal/node/daemon/... ./internal/node/overlay/... ./internal/node/win/... ./cmd/wicd/... ./cmd/wicd-setup/... ./cmd/wicd-cni/... ./cmd/hybrid-overlay-node/... ./cmd/wmco-acceptance/...
ACCEPTANCE := WMCO_ACCEPTANCE=$(CURDIR)/_acceptance/wmco-acceptance.exe hack/wine-test.sh . -vet=off -count=1
CORE := ^Test(WindowsHostBecomesReadyNode|OperatorPod|Images|OpenShift|Network|NetworkPolicies|HybridOverlay|BadInput|Hostile)$$
MORE := ^Test(WindowsFleet|Disconnected)$$
HOSTS ?= 1
# RACE=1 runs unit tests with the race detector, and builds the operator of e2e tests with it.
export WMCO_RACE := $(RACE)
# The programs of OVN-Kubernetes, for make e2e-ovn.
export WMCO_OVNKUBE := $(or $(abspath $(OVNKUBE)),$(WMCO_OVNKUBE))
export WMCO_OVNKUBE_IDENTITY := $(or $(abspath $(OVNKUBE_IDENTITY)),$(WMCO_OVNKUBE_IDENTITY))
# The cluster autoscaler, for TestVSphere (lab/README.md).
export WMCO_CLUSTER_AUTOSCALER := $(or $(abspath $(AUTOSCALER)),$(WMCO_CLUSTER_AUTOSCALER))

.PHONY: help
help: ## List the targets.
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

FUZZTIME ?= 10m
# SIGN is the file with the key that signs a release and pushed images, BUILDER the URI of the builder.
SIGNED = $(if $(SIGN),--sign-key '$(abspath $(SIGN))' $(if $(BUILDER),--builder '$(BUILDER)'))

.PHONY: demo run screenshots docs build plugin payload image chart bundle catalog release sign verify-release acceptance conformance bench mutants stories bench-compare cover vulncheck vulncheck-payload outdated fuzz generate clean
demo: ## Show how a Windows host becomes a node; needs root. HOSTS=3 or HOSTS=sim:20; EXIT=1 exits at the end.
	@hack/prepare.sh
	@echo "==> Building the demo (minutes the first time)"
	@cd lab && go run ./demo -hosts $(HOSTS) $(if $(EXIT),-exit)

# The namespace of the operator that make run replaces.
NAMESPACE ?= openshift-windows-machine-config-operator

run: payload ## Run the operator from the working tree against the cluster of KUBECONFIG, instead of the one in NAMESPACE.
	go run ./cmd/wmco --kubeconfig '$(or $(KUBECONFIG),$(HOME)/.kube/config)' --namespace '$(NAMESPACE)' --payload-dir _payload \
		--metrics-bind-address 127.0.0.1:9182

screenshots: ## Take the screenshots in docs/dashboard.md, with Debian's Chromium and a cluster of 1,000 hosts.
	@hack/prepare.sh
	cd lab && WMCO_SCREENSHOTS='$(CURDIR)/docs/images' go test -vet=off -count=1 -timeout 20m -run 'TestScreenshots$$' ./suites/pagetest

docs: ## Build the documents as a site in _site/, with Debian's mkdocs. Broken links are errors.
	@hack/docs.sh

build: ## Build the operator and its programs for Windows hosts into bin/, with the version of the git tag.
	go build -buildvcs=auto -ldflags '-s -w' -o bin/ ./cmd/wmco
	GOOS=windows GOARCH=amd64 go build -ldflags '-s -w' -o bin/ ./cmd/wicd ./cmd/wicd-setup ./cmd/wicd-cni ./cmd/hybrid-overlay-node

payload: ## Build the payload for Windows hosts into _payload/.
	go run ./payload/build/cmd --out _payload --version "$$(git describe --tags --always --dirty)"

image: payload ## Build the operator's image for amd64 and arm64 into _image/, and its software bill of materials into _image.cdx.json. PUSH=registry/repository:tag pushes it instead, and writes the files that install it to _install/ and _chart/. SIGN=key.pem signs it.
	CGO_ENABLED=0 GOOS=linux GOARCH=amd64 go build -buildvcs=auto -ldflags '-s -w' -o bin/linux-amd64/ ./cmd/wmco
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go build -buildvcs=auto -ldflags '-s -w' -o bin/linux-arm64/ ./cmd/wmco
	cd release && go run ./image/cmd --payload ../_payload --operator amd64=../bin/linux-amd64/wmco --operator arm64=../bin/linux-arm64/wmco \
		--version "$$(../hack/version.sh)" --revision "$$(git rev-parse HEAD)" --created "$$(git show -s --format=%cI)" \
		--out ../_image $(if $(PUSH),--push '$(PUSH)' --install ../_install) $(SIGNED)
	$(if $(PUSH),@$(MAKE) --no-print-directory chart IMAGE='$(PUSH)')

chart: ## Build the Helm chart from deploy/ into _chart/, with its archive. IMAGE=registry/repository:tag or @digest sets another image, VERSION=1.2.0 another version.
	cd release && go run ./chart/cmd --deploy ../deploy --out ../_chart --version "$(or $(VERSION),$$(../hack/version.sh))" --image '$(IMAGE)'

acceptance: $(if $(JOIN),payload) ## Build _acceptance/wmco-acceptance.exe, which tests on a Windows Server what this project cannot test itself (docs/acceptance.md). JOIN=1 also builds what its option --join needs, with IMAGES="archives of images" for closed networks.
	@IMAGES='$(IMAGES)' hack/acceptance.sh _acceptance $(if $(JOIN),_payload)

PLATFORMS := darwin-amd64 darwin-arm64 linux-amd64 linux-arm64 windows-amd64 windows-arm64
# Where the files of a release are published.
DOWNLOADS ?= https://github.com/windows-machine-config/wmco/releases/download/v$$(../hack/version.sh)

plugin: ## Build kubectl windows for all platforms into _plugin/, with krew's manifest. DOWNLOADS=URL of the folder in which it is published.
	for p in $(PLATFORMS); do GOOS=$${p%-*} GOARCH=$${p#*-} go build -buildvcs=auto -ldflags '-s -w' -o bin/plugin/$$p/ ./cmd/kubectl-windows; done
	cd release && go run ./plugin/cmd --version "$$(../hack/version.sh)" --programs ../bin/plugin --downloads "$(DOWNLOADS)" --out ../_plugin

# The repository in which the image of a release is published.
REPOSITORY ?= ghcr.io/windows-machine-config/wmco

OLM = cd release && go run ./bundle/cmd --deploy ../deploy --layout ../_image --out ../_olm --version "$(or $(VERSION),$$(../hack/version.sh))" \
	--revision "$$(git rev-parse HEAD)" --created "$$(git show -s --format=%cI)" --repository '$(REPOSITORY)' $(if $(IMAGE),--image '$(IMAGE)') \
	$(if $(PREVIOUS),--previous '$(abspath $(PREVIOUS))') $(if $(WITHDRAW),--withdraw '$(WITHDRAW)') $(if $(MAINTAINER),--maintainer '$(MAINTAINER)') $(if $(PUSH),--push $(SIGNED))

bundle: ## Build the bundle for OLM in _olm/, and its entry in a community catalog, with the image of make image or IMAGE=repository@sha256:...; VERSION=1.2.0 PREVIOUS=catalog.yaml of the last release.
	@$(OLM)

catalog: ## Build the bundle and the catalog that contains it. PUSH=1 pushes both images next to the operator's, and moves the channel's tag to this catalog; SIGN=key.pem signs them.
	@$(OLM) --catalog

release: ## Write all files of a release to _release/, with the version of the git tag (RELEASE.md). VERSION=1.2.0 requires this version. SIGN=key.pem signs them.
	@is=$$(hack/version.sh); [ '$(or $(VERSION),'"$$is"')' = "$$is" ] || { echo "this commit has version $$is, not $(VERSION): git tag v$(VERSION)" >&2; exit 1; }
	@$(MAKE) --no-print-directory image PUSH= SIGN=
	@$(MAKE) --no-print-directory catalog IMAGE= PUSH= VERSION="$$(hack/version.sh)"
	@$(MAKE) --no-print-directory plugin
	cd release && go run ./artifacts/cmd --version "$$(../hack/version.sh)" --image ../_image --repository '$(REPOSITORY)' --out ../_release
	$(if $(SIGN),@$(MAKE) --no-print-directory sign)

sign: ## Sign the files in _release/, with a statement of what they were built from, with SIGN=key.pem (RELEASE.md). BUILDER=URI identifies the builder.
	$(if $(SIGN),,$(error make sign needs the key of the project: SIGN=key.pem))
	cd release && go run ./signature/cmd --version "$$(../hack/version.sh)" --revision "$$(git rev-parse HEAD)" \
		--key '$(abspath $(SIGN))' $(if $(BUILDER),--builder '$(BUILDER)')

verify-release: ## Build a release of the last commit as the workflow does, and verify it with cosign, syft and krew (docs/development.md). ONLY=TestWorkflowBuildsRelease/krew selects one test.
	cd release/verify && go vet ./... && $(TEST) -v -count=1 -timeout 2h -run '$(or $(ONLY),.)' ./...

LIMIT ?= 4h

conformance: ## Run Kubernetes' own tests on Windows nodes of a lab, or of the cluster of KUBECONFIG. ONLY=node, core, a row of docs/readiness.md or an expression selects some; RESUME=1 and LIMIT=15m split the run.
	@$(if $(KUBECONFIG),,hack/prepare.sh)
	@cd lab && go run ./suites/conformance -only '$(ONLY)' -limit $(LIMIT) $(if $(RESUME),-resume)

bench: ## Run the benchmarks, and print lines "name value unit". ONLY=join selects one group.
	@hack/prepare.sh
	@echo "Building the bench (minutes the first time)" >&2
	@cd lab && go run ./bench -only '$(ONLY)'

mutants: ## Remove one safeguard after another, in a copy of the last commit, and check that a test fails. ONLY=names-host selects some.
	@hack/prepare.sh
	@go run ./hack/mutate -only '$(ONLY)'

SEEDS ?= 200
FROM ?= 1

stories: ## Run the stories of simulated hosts with the quirks of many seeds. SEEDS=200 is the number, FROM=1 the first; ONLY=TestStoryUpgrade selects some.
	@hack/stories.sh $(SEEDS) $(FROM) '$(or $(ONLY),.)'

bench-compare: ## Compare results of make bench, or of go test -bench: OLD=old.txt NEW=new.txt.
	@hack/benchstat.sh $(OLD) $(NEW)

cover: ## Print the test coverage of each package in internal, and the total.
	@hack/cover.sh

vulncheck: ## Check the code that the programs call for known vulnerabilities; needs https://vuln.go.dev.
	$(TOOL) govulncheck ./...
	GOOS=windows "$$($(TOOL) -n govulncheck)" $(ON_WINDOWS)

vulncheck-payload: ## Build the third-party programs for hosts, and check their modules for known vulnerabilities; needs https://vuln.go.dev.
	@programs=$$(go run ./payload/build/cmd --programs); scanner=$$($(TOOL) -n govulncheck); status=0; \
	for program in $$programs; do echo "$$program:"; "$$scanner" -mode=binary "$$program" || status=$$?; done; exit $$status

outdated: ## Compare the programs on hosts, and the libraries, with the newest patches and minor versions. Exits with "Error 3" if one must be updated.
	@go build -o bin/ ./hack/outdated && bin/outdated # go run would end with 1

fuzz: ## Run all fuzzers, FUZZTIME=10m each. ONLY=FuzzFacts selects one.
	@hack/fuzz.sh $(FUZZTIME) '$(ONLY)'

generate: ## Generate the CRDs, the deepcopy functions, docs/objects.md, docs/reference, docs/support.md, docs/counterparts.md, docs/metrics.md, the commands in docs/kubectl-windows.md, the list in docs/limitations.md, deploy/monitoring/rules, and the pod policies.
	$(TOOL) controller-gen object paths=./api/... crd output:crd:dir=deploy/crds
	go run ./hack/generate
	go test -vet=off -count=1 -run '^TestLimitationsDocumentMatchesLines$$' ./internal/testing/acceptance -update

clean: ## Remove build output. The cache in ~/.cache/wmco stays.
	rm -rf bin _payload _image _image.cdx.json _install _chart _olm _plugin _release _acceptance _site cmd/wmco-acceptance/programs

# The rings. Each runs two steps at a time and prints their durations at its end; CONTRIBUTING.md describes them.
CHECK := check-fmt check-vet check-vet-windows check-lint-windows check-vet-lab check-lint check-lint-lab check-lint-release check-generated check-powershell check-architecture
UNIT := unit-root unit-lab
PAYLOAD := unit-containerd unit-exporter unit-release

.PHONY: check unit unit-windows unit-payload test e2e-core e2e e2e-ovn gate
check: ## Ring 1: format, vet and golangci-lint (Linux and Windows), generated files, PowerShell syntax and architecture rules.
	$(RUN) $(CHECK)

unit: ## Ring 2: tests that need neither Windows nor a payload, simulated fleets included. RACE=1 looks for data races.
	$(RUN) $(UNIT)

unit-windows: ## Ring 2: tests of the code that calls Windows, and the acceptance program, on Wine.
	$(RUN) unit-wine unit-acceptance

unit-payload: ## Ring 2: tests of the payload's components, and of the release.
	$(RUN) $(PAYLOAD)

test: ## All of ring 2: tests that need no Windows host.
	$(RUN) $(UNIT) unit-wine unit-acceptance $(PAYLOAD) -- unit-race

e2e-core: ## Ring 3: each capability once, with a real API server and real Windows programs on Wine hosts. RACE=1 looks for data races in the operator.
	$(RUN) prepare -- e2e-build-core -- e2e-core-tests e2e-rights e2e-page -- e2e-more-tests -- e2e-conformance

# The shards of ring 4.
E2E_1 := e2e-whole
E2E_2 := e2e-lab e2e-acceptance e2e-olm e2e-conformance e2e-docs e2e-rights e2e-rights-oldest e2e-page e2e-policies

e2e: ## Ring 4: the whole lab. SHARD=1 and SHARD=2 each run a half of it, for two machines. ONLY=TestNetwork selects tests of Go; other steps still run.
	$(RUN) prepare -- e2e-build -- $(if $(SHARD),$(or $(E2E_$(SHARD)),$(error SHARD=$(SHARD) is no shard of make e2e: it is 1 or 2)),$(E2E_1) $(E2E_2))

e2e-ovn: ## The tests of the hybrid overlay with OVN-Kubernetes' own programs: OVNKUBE=path OVNKUBE_IDENTITY=path (docs/development.md).
	$(if $(and $(WMCO_OVNKUBE),$(WMCO_OVNKUBE_IDENTITY)),,$(error make e2e-ovn needs OVNKUBE=path and OVNKUBE_IDENTITY=path: see docs/development.md))
	$(RUN) prepare -- e2e-build -- e2e-ovn-tests

gate: ## What CI runs: rings 1 and 2 without the race detector, and of ring 3 each capability once. It skips no step.
	$(RUN) prepare modules tools -- $(CHECK) -- $(UNIT) unit-wine unit-acceptance $(PAYLOAD) e2e-build-core -- e2e-core-tests e2e-rights e2e-page e2e-policies

# The steps: hack/step.sh <name> <budget in seconds with warm caches, at speed factor 1> <command>.
.PHONY: prepare modules tools $(CHECK) $(UNIT) unit-race unit-wine unit-acceptance $(PAYLOAD) e2e-build-core e2e-build e2e-core-tests e2e-more-tests e2e-rights e2e-rights-oldest e2e-ovn-tests e2e-lab e2e-whole e2e-acceptance e2e-olm e2e-docs e2e-page e2e-policies e2e-conformance
prepare:
	$(STEP) prepare 60 hack/prepare.sh

modules:
	$(STEP) modules 30 hack/modules.sh

tools:
	$(STEP) tools 30 go build -modfile=hack/tools/go.mod -o /dev/null tool

check-fmt:
	$(STEP) $@ 10 hack/gofmt.sh

check-vet:
	$(STEP) $@ 20 go vet ./...

check-vet-windows:
	$(STEP) $@ 20 env GOOS=windows go vet $(ON_WINDOWS)

# The control plane is compiled but not vetted: vet would need 1,500 packages of Kubernetes for a few lines.
check-vet-lab: | check-vet
	$(STEP) $@ 20 bash -c 'cd lab && go vet $$(go list ./... | grep -v /controlplane)'

check-lint: | check-vet
	$(STEP) $@ 30 $(TOOL) golangci-lint $(LINT) ./...

check-lint-lab: | check-vet-lab
	$(STEP) $@ 30 bash -c 'linter=$$($(TOOL) -n golangci-lint) && cd lab && "$$linter" $(LINT) $$(go list -f "{{.Dir}}" ./... | grep -v /controlplane)'

check-lint-release: | check-vet
	$(STEP) $@ 10 bash -c 'linter=$$($(TOOL) -n golangci-lint) && cd release && "$$linter" $(LINT) ./...'

check-lint-windows: | check-vet-windows
	$(STEP) $@ 20 bash -c 'GOOS=windows "$$($(TOOL) -n golangci-lint)" $(LINT) $(filter ./internal/node/win/% ./cmd/%,$(ON_WINDOWS))'

check-generated: | check-vet
	$(STEP) $@ 30 hack/verify-generated.sh

check-powershell:
	$(STEP) $@ 10 hack/check-powershell.sh

check-architecture: | check-vet
	$(STEP) $@ 10 $(TEST) -count=1 ./internal/archtest

unit-root:
	$(STEP) $@ 90 $(if $(RACE),$(RACED),$(TEST)) -parallel 10 ./... # tests wait more than they work

# Without internal/operator/csr, which starts no goroutines, and the stories of whole fleets and hosts in simulated time, which take minutes with
# the race detector. make unit RACE=1 runs them too.
unit-race: ## Ring 2: tests of the packages where goroutines meet, with the race detector.
	$(STEP) $@ 120 $(RACED) -parallel 10 $$(go list ./internal/... ./cmd/... | grep -vE '/internal/(operator/csr|node/daemon(/(collect|configure|images|nodesettings|nodestatus|state|store|supervisor|update))?|operator/controllers/storytest)$$')

unit-lab: | unit-root
	$(STEP) $@ 30 bash -c 'cd lab && $(if $(RACE),$(RACED),$(TEST)) ./windows/balancer ./bench ./suites/conformance/... ./windows/hcs ./windows/hns ./image ./cluster/manifest ./cluster/openshift ./cluster/ovn/... ./cluster/proxy ./reaper ./windows/sshd ./windows/winbuild && for m in tools suites/mirrordiff; do (cd $$m && go vet ./... && $(TEST) ./...) || exit 1; done'

unit-wine:
	$(STEP) $@ 120 hack/wine-test.sh . ./internal/node/win/...

# The program as make acceptance builds it, without the contract tests, which unit-wine runs.
unit-acceptance: | $(if $(WMCO_RUN),unit-wine)
	$(STEP) $@ 60 bash -c 'hack/acceptance.sh _acceptance && $(ACCEPTANCE) -short ./cmd/wmco-acceptance'

unit-containerd: | unit-wine
	$(STEP) $@ 30 bash -c 'cd payload/containerd && go vet ./... && $(TEST) ./... && cd ../.. && hack/wine-test.sh payload/containerd .'

unit-exporter:
	$(STEP) $@ 10 bash -c 'cd payload/windows-exporter && go vet ./... && $(TEST) ./...'

unit-release:
	$(STEP) $@ 30 bash -c 'cd release && go vet ./... && $(TEST) ./... && cd copies && go vet $(OPENPGP) ./... && $(TEST) $(OPENPGP) ./...'

e2e-build-core: | $(UNIT)
	$(STEP) $@ 30 bash -c 'cd lab && go run ./prepare -core -conformance'

# The documents build an image: its programs are those for Windows, without what the lab changes for Wine.
e2e-build:
	$(STEP) $@ 60 bash -c '(cd lab && go run ./prepare -conformance) && make --no-print-directory payload'

e2e-core-tests:
	$(E2E) $@ 430 bash -c 'cd lab && $(TEST) -v -count=1 -timeout 60m -short -parallel 2 -run "$(CORE)" ./suites/e2e'

e2e-more-tests:
	$(E2E) $@ 300 bash -c 'cd lab && $(TEST) -v -count=1 -timeout 60m -short -parallel 2 -run "$(MORE)" ./suites/e2e'

e2e-rights:
	$(E2E) $@ 60 bash -c 'cd lab && $(TEST) -count=1 -run "$(or $(ONLY),.)" ./suites/deploytest ./suites/ovntest'

# The manifests on the oldest control plane; with WMCO_KUBERNETES=all, on each one.
e2e-rights-oldest:
	$(E2E) $@ 90 bash -c 'cd lab && WMCO_KUBERNETES=$${WMCO_KUBERNETES:-oldest} $(TEST) -v -count=1 -run "$(or $(ONLY),EarlierKubernetes$$)" ./suites/deploytest'

e2e-ovn-tests:
	$(E2E) $@ 400 bash -c 'cd lab && $(TEST) -v -count=1 -timeout 60m -run "($(or $(ONLY),AsRecorded$$|^TestHybridOverlay$$))/programs" ./suites/ovntest ./suites/e2e'

e2e-olm:
	$(E2E) $@ 480 bash -c 'cd lab && $(TEST) -v -count=1 -timeout 40m -run "$(or $(ONLY),.)" ./suites/olm'

e2e-page:
	$(E2E) $@ 60 bash -c 'cd lab && $(TEST) -v -count=1 -timeout 20m -short -run "$(or $(ONLY),.)" ./suites/pagetest'

# Its budget is that of a lab with two hosts and some forty cases.
e2e-conformance:
	$(E2E) $@ 600 bash -c 'cd lab && go run ./suites/conformance -kubeconfig= -only core -limit 20m -keep=false'

# Ten of Kubernetes' own tests of NetworkPolicies; e2e-conformance has others.
e2e-policies:
	$(E2E) $@ 180 bash -c 'cd lab && go run ./suites/conformance -kubeconfig= -only ready-policy -limit 20m -keep=false'

# The documents as a site, and their commands.
e2e-docs:
	$(E2E) $@ 240 bash -c 'hack/docs.sh && cd lab && $(TEST) -v -count=1 -timeout 60m -parallel 2 -run "$(or $(ONLY),.)" ./suites/doctest'

e2e-lab:
	$(E2E) $@ 1200 bash -c 'cd lab && $(TEST) -v -count=1 -timeout 3h -parallel 1 -run "$(or $(ONLY),.)" . ./cluster/vsphere/...'

e2e-whole:
	$(E2E) $@ 2400 bash -c 'cd lab && $(TEST) -v -count=1 -timeout 3h -parallel 2 -run "$(or $(ONLY),.)" -skip "OfAcceptance$$" ./suites/e2e'

# The program on Wine alone, then on a host of the lab, which it makes a node.
e2e-acceptance:
	$(E2E) $@ 800 bash -c 'hack/acceptance.sh _acceptance && $(ACCEPTANCE) -v -timeout 3h -run "$(or $(ONLY),.)" ./cmd/wmco-acceptance && \
	  cd lab && $(TEST) -v -count=1 -timeout 3h -run "$(or $(ONLY),OfAcceptance$$)" ./suites/e2e'
