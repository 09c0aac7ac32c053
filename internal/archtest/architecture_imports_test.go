package archtest

// mayImport returns all packages, with the packages of this module that each may import. A package that is not listed
// must not exist; an import that is not listed points in the wrong direction.
func mayImport() map[string][]string {
	return map[string][]string{
		"api":          {},
		"api/v1alpha1": {"api"},

		"deploy":            {},
		"deploy/monitoring": {},

		"payload":             {"payload/compress"},
		"payload/build":       {"payload", "payload/compress", "payload/selfextract"},
		"payload/build/cmd":   {"payload", "payload/build"},
		"payload/compress":    {},
		"payload/payloadtest": {"payload/build"},
		"payload/selfextract": {},

		"release/archive":         {},
		"release/artifacts":       {"release/archive", "release/chart", "release/image"},
		"release/artifacts/cmd":   {"release/artifacts"},
		"release/bundle":          {"api", "api/v1alpha1", "payload/build", "release/image", "release/manifests"},
		"release/bundle/cmd":      {"release/archive", "release/bundle", "release/catalog", "release/image", "release/signature"},
		"release/catalog":         {"release/bundle", "release/image"},
		"release/chart":           {"api", "internal/operator/kubeversions", "release/archive", "release/manifests"},
		"release/chart/cmd":       {"release/chart"},
		"release/image":           {"api", "payload", "payload/compress", "release/signature"},
		"release/image/cmd":       {"release/image", "release/signature"},
		"release/image/imagetest": {"payload", "release/image"},
		"release/manifests":       {},
		"release/plugin":          {"release/archive"},
		"release/plugin/cmd":      {"release/archive", "release/plugin"},
		"release/signature":       {},
		"release/signature/cmd":   {"release/signature"},
		"release/verify":          {},

		"internal/shared/desired": {
			"api", "api/v1alpha1", "internal/shared/mirrors", "internal/shared/platform", "internal/shared/proxy", "internal/shared/supportbundle",
			"internal/shared/tlsprofile", "internal/shared/trust", "payload",
			"internal/shared/windowsbuild", "internal/shared/windowsupdate",
		},
		"internal/shared/hns":               {},
		"internal/shared/httpclient":        {"internal/shared/truncate"},
		"internal/shared/mask":              {},
		"internal/shared/metrics":           {"api"},
		"internal/shared/mirrors":           {"internal/shared/trust"},
		"internal/shared/nodestate":         {"api", "api/v1alpha1", "internal/shared/windowsbuild"},
		"internal/shared/platform":          {"api/v1alpha1"},
		"internal/shared/platform/metadata": {"internal/shared/platform", "internal/shared/truncate"},
		"internal/shared/policyset":         {"internal/shared/hns", "internal/shared/strictjson"},
		"internal/shared/proxy":             {},
		"internal/shared/registryclient":    {"internal/shared/mirrors", "internal/shared/proxy"},
		"internal/shared/strictjson":        {},
		"internal/shared/supportbundle":     {},
		"internal/shared/tlsprofile":        {},
		"internal/shared/truncate":          {},
		"internal/shared/trust":             {},
		"internal/shared/wicdapi":           {"api", "api/v1alpha1", "internal/shared/desired", "internal/shared/truncate", "internal/shared/windowsupdate"},
		"internal/shared/windowsbuild":      {"internal/shared/truncate"},
		"internal/shared/windowsupdate":     {"api", "internal/shared/strictjson", "internal/shared/truncate"},

		"internal/node/backoff":   {},
		"internal/node/cniresult": {},
		"internal/node/cri":       {},
		"internal/node/daemon": {
			"internal/node/backoff", "internal/node/daemon/apiclient", "internal/node/daemon/collect", "internal/node/daemon/configure",
			"internal/node/daemon/credentials", "internal/node/daemon/eventlog", "internal/node/daemon/logrotate", "internal/node/daemon/nodesettings",
			"internal/node/daemon/nodestatus", "internal/node/daemon/podnetwork", "internal/node/daemon/podpolicy", "internal/node/daemon/registry",
			"internal/node/daemon/images",
			"internal/node/daemon/state", "internal/node/daemon/store", "internal/node/daemon/supervisor", "internal/node/daemon/update",
			"internal/node/hostapi", "internal/node/identity", "internal/node/policypipe", "internal/shared/desired", "internal/shared/platform/metadata",
			"internal/shared/wicdapi",
			"internal/shared/windowsupdate",
		},
		"internal/node/daemon/apiclient": {
			"api", "internal/node/daemon/credentials", "internal/node/daemon/state", "internal/node/hostapi", "internal/node/identity", "internal/node/kubeapi",
			"internal/shared/desired", "internal/shared/wicdapi",
		},
		"internal/node/daemon/collect": {
			"api", "internal/node/daemon/credentials", "internal/node/daemon/eventlog", "internal/node/daemon/logrotate", "internal/node/daemon/nodestatus",
			"internal/node/daemon/state", "internal/node/daemon/supervisor", "internal/node/hostapi", "internal/shared/desired", "internal/shared/mask",
			"internal/shared/supportbundle", "internal/shared/wicdapi",
		},
		"internal/node/daemon/configure": {
			"api", "api/v1alpha1", "internal/node/backoff", "internal/node/daemon/credentials", "internal/node/daemon/images", "internal/node/daemon/logrotate",
			"internal/node/daemon/nodestatus", "internal/node/daemon/state", "internal/node/daemon/store", "internal/node/daemon/supervisor",
			"internal/node/hostapi", "internal/node/hostnetwork", "internal/shared/desired", "internal/shared/hns", "internal/shared/mask",
			"internal/shared/mirrors", "internal/shared/nodestate", "internal/shared/truncate", "internal/shared/trust", "internal/shared/wicdapi",
		},
		"internal/node/daemon/credentials": {"api", "internal/node/hostapi", "internal/node/identity", "internal/shared/desired", "internal/shared/wicdapi"},
		"internal/node/daemon/daemontest": {
			"api", "internal/node/daemon", "internal/node/hostapi", "internal/shared/desired", "internal/shared/nodestate", "internal/shared/wicdapi",
			"internal/testing/sim", "internal/testing/sim/servers", "payload/compress",
		},
		"internal/node/daemon/eventlog": {
			"internal/node/backoff", "internal/node/daemon/logrotate", "internal/node/daemon/state", "internal/node/hostapi", "internal/shared/desired",
		},
		"internal/node/daemon/logrotate": {"internal/node/backoff", "internal/node/hostapi", "internal/shared/desired", "internal/shared/mask"},
		"internal/node/daemon/nodesettings": {
			"api", "internal/node/backoff", "internal/node/daemon/apiclient", "internal/node/daemon/configure", "internal/node/daemon/nodestatus",
			"internal/node/daemon/state", "internal/node/kubeapi", "internal/shared/desired", "internal/shared/truncate", "internal/shared/wicdapi",
		},
		"internal/node/daemon/nodestatus": {
			"api", "internal/node/backoff", "internal/node/daemon/apiclient", "internal/node/daemon/credentials", "internal/node/daemon/state",
			"internal/node/identity", "internal/node/kubeapi", "internal/shared/desired", "internal/shared/mask", "internal/shared/metrics",
			"internal/node/hostapi", "internal/shared/nodestate", "internal/shared/truncate", "internal/shared/windowsbuild", "internal/shared/windowsupdate",
		},
		"internal/node/daemon/podnetwork": {
			"api", "api/v1alpha1", "internal/node/backoff", "internal/node/cniresult", "internal/node/daemon/apiclient", "internal/node/daemon/nodestatus",
			"internal/node/daemon/state", "internal/node/daemon/supervisor", "internal/node/hostapi", "internal/node/hostnetwork", "internal/node/kubeapi", "internal/node/kubeproxy",
			"internal/node/overlaystatus", "internal/shared/desired", "internal/shared/hns", "internal/shared/nodestate", "internal/shared/truncate",
		},
		"internal/node/daemon/podpolicy": {
			"api", "internal/node/backoff", "internal/node/cniresult", "internal/node/daemon/apiclient", "internal/node/daemon/nodestatus",
			"internal/node/daemon/state", "internal/node/hostapi", "internal/node/kubeapi", "internal/node/policypipe", "internal/shared/desired",
			"internal/shared/hns", "internal/shared/policyset", "internal/shared/truncate",
		},
		"internal/node/daemon/registry": {
			"api", "internal/node/backoff", "internal/node/daemon/credentials", "internal/node/daemon/nodestatus", "internal/node/daemon/state",
			"internal/shared/desired", "internal/shared/mirrors", "internal/shared/registryclient",
		},
		"internal/node/daemon/images": {
			"api", "internal/node/backoff", "internal/node/cri", "internal/node/daemon/nodestatus", "internal/node/daemon/state", "internal/shared/desired",
			"internal/shared/mirrors", "internal/shared/nodestate", "internal/shared/truncate", "internal/shared/wicdapi", "internal/shared/windowsbuild",
		},
		"internal/node/daemon/state": {
			"internal/node/backoff", "internal/node/hostapi", "internal/node/hostnetwork", "internal/shared/desired", "internal/shared/hns",
			"internal/shared/wicdapi",
			"internal/shared/windowsupdate",
		},
		"internal/node/daemon/store": {
			"internal/node/daemon/state", "internal/node/hostapi", "internal/shared/desired", "internal/shared/wicdapi", "payload/compress",
		},
		"internal/node/daemon/supervisor": {
			"api", "internal/node/backoff", "internal/node/daemon/logrotate", "internal/node/daemon/nodestatus", "internal/node/daemon/state",
			"internal/node/hostapi", "internal/shared/desired", "internal/shared/nodestate", "internal/shared/truncate", "internal/shared/wicdapi",
		},
		"internal/node/daemon/update": {
			"api", "internal/node/backoff", "internal/node/daemon/apiclient", "internal/node/daemon/configure", "internal/node/daemon/logrotate",
			"internal/node/daemon/nodesettings", "internal/node/daemon/nodestatus", "internal/node/daemon/state", "internal/node/daemon/store",
			"internal/node/daemon/supervisor", "internal/node/hostapi", "internal/shared/desired", "internal/shared/nodestate", "internal/shared/truncate",
			"internal/shared/wicdapi", "payload",
		},
		"internal/node/hostapi": {
			"internal/node/cri", "internal/node/hostnetwork", "internal/shared/desired", "internal/shared/hns", "internal/shared/wicdapi",
			"internal/shared/windowsupdate",
		},
		"internal/node/hostnetwork": {"internal/shared/strictjson"},
		"internal/node/identity":    {"internal/node/backoff", "internal/shared/httpclient"},
		"internal/node/kubeapi":     {"internal/node/backoff", "internal/node/identity", "internal/shared/httpclient", "internal/shared/truncate"},
		"internal/node/kubeproxy":   {"internal/shared/hns"},
		"internal/node/overlay": {
			"api", "internal/node/backoff", "internal/node/hostnetwork", "internal/node/identity", "internal/node/kubeapi", "internal/node/overlaystatus",
			"internal/shared/hns", "internal/shared/strictjson", "internal/shared/truncate",
		},
		"internal/node/overlaystatus": {"internal/shared/strictjson", "internal/shared/truncate"},
		"internal/node/policycni":     {"api", "internal/node/policypipe"},
		"internal/node/policypipe":    {"internal/shared/truncate"},
		"internal/node/win": {
			"internal/node/backoff", "internal/node/cri", "internal/node/hostapi", "internal/node/win/network", "internal/node/win/pipe",
			"internal/node/win/scm", "internal/node/win/subprocess", "internal/node/win/wua", "internal/shared/desired", "internal/shared/wicdapi",
		},
		"internal/node/win/network":    {"internal/node/hostnetwork", "internal/node/win/scm", "internal/shared/hns"},
		"internal/node/win/pipe":       {"internal/node/backoff"},
		"internal/node/win/scm":        {},
		"internal/node/win/subprocess": {},
		"internal/node/win/wua":        {"internal/node/hostapi", "internal/node/win/scm", "internal/node/win/subprocess", "internal/shared/windowsupdate"},

		"internal/operator/addresses": {},
		"internal/operator/cluster": {
			"api", "api/v1alpha1", "internal/operator/addresses", "internal/shared/desired", "internal/shared/mirrors", "internal/shared/platform",
			"internal/shared/proxy", "internal/shared/tlsprofile", "internal/shared/truncate", "internal/shared/trust",
		},
		"internal/operator/controllers": {
			"api", "api/v1alpha1", "deploy", "internal/operator/cluster", "internal/operator/controllers/admission",
			"internal/operator/controllers/clusterversion", "internal/operator/controllers/csrapproval", "internal/operator/controllers/explain",
			"internal/operator/controllers/fleet", "internal/operator/controllers/instance", "internal/operator/controllers/networkpolicies",
			"internal/operator/controllers/overlayleftovers", "internal/operator/controllers/policysets", "internal/operator/controllers/runtimeclass",
			"internal/operator/controllers/settings",
			"internal/operator/controllers/source", "internal/operator/controllers/upgradeable", "internal/operator/controllers/userdata",
			"internal/operator/kube", "internal/operator/kubeversions", "internal/shared/desired", "internal/shared/truncate",
			"payload",
		},
		"internal/operator/controllers/admission": {"api", "api/v1alpha1", "deploy", "internal/operator/kube", "internal/shared/truncate"},
		"internal/operator/controllers/clusterversion": {
			"internal/operator/cluster", "internal/operator/kube", "internal/operator/kubeversions", "internal/shared/httpclient",
		},
		"internal/operator/controllers/controllertest": {
			"api", "api/v1alpha1", "deploy", "internal/operator/controllers/clusterversion", "internal/operator/kubeversions", "internal/shared/desired",
			"payload",
		},
		"internal/operator/controllers/csrapproval": {
			"api", "api/v1alpha1", "internal/operator/controllers/admission", "internal/operator/controllers/source", "internal/operator/csr",
			"internal/operator/kube", "internal/shared/desired", "internal/shared/nodestate",
		},
		"internal/operator/controllers/explain": {
			"api", "internal/observe/advice", "internal/observe/podcause", "internal/operator/kube", "internal/operator/windowsimage",
			"internal/shared/desired", "internal/shared/mask", "internal/shared/mirrors", "internal/shared/proxy", "internal/shared/registryclient",
			"internal/shared/truncate", "internal/shared/windowsbuild",
		},
		"internal/operator/controllers/fleet": {
			"api", "api/v1alpha1", "internal/operator/controllers/clusterversion", "internal/operator/controllers/settings", "internal/operator/join",
			"internal/operator/kube", "internal/operator/rollout", "internal/shared/desired", "internal/shared/nodestate",
		},
		"internal/operator/controllers/instance": {
			"api", "api/v1alpha1", "internal/operator/addresses", "internal/operator/cluster", "internal/operator/controllers/admission",
			"internal/operator/controllers/clusterversion", "internal/operator/controllers/fleet", "internal/operator/controllers/settings",
			"internal/observe/generations", "internal/operator/controllers/source", "internal/operator/controllers/sshkey", "internal/operator/drain",
			"internal/operator/join",
			"internal/operator/kube", "internal/operator/kubeversions", "internal/operator/machines", "internal/operator/remote", "internal/operator/rollout",
			"internal/shared/desired", "internal/shared/nodestate", "internal/shared/supportbundle", "internal/shared/truncate", "internal/shared/wicdapi",
			"internal/shared/windowsbuild", "payload",
			"internal/shared/windowsupdate",
		},
		"internal/operator/controllers/networkpolicies": {
			"api", "api/v1alpha1", "internal/observe/advice", "internal/operator/cluster", "internal/operator/kube", "internal/shared/desired",
		},
		"internal/operator/controllers/overlayleftovers": {
			"api", "api/v1alpha1", "internal/operator/cluster", "internal/operator/kube", "internal/shared/desired", "internal/shared/nodestate",
		},
		"internal/operator/controllers/policysets": {
			"api", "api/v1alpha1", "internal/observe/advice", "internal/operator/cluster", "internal/operator/kube", "internal/operator/networkpolicy",
			"internal/shared/desired", "internal/shared/nodestate", "internal/shared/policyset", "internal/shared/truncate",
		},
		"internal/operator/controllers/runtimeclass": {"api", "api/v1alpha1", "internal/operator/kube", "internal/shared/nodestate", "internal/shared/windowsbuild"},
		"internal/operator/controllers/settings": {
			"api", "api/v1alpha1", "internal/operator/cluster", "internal/operator/controllers/admission", "internal/operator/controllers/clusterversion",
			"internal/operator/controllers/sshkey", "internal/operator/join", "internal/operator/kube", "internal/operator/kubeversions",
			"internal/operator/lifecycle", "internal/shared/desired", "internal/shared/nodestate", "internal/shared/platform", "internal/shared/truncate",
			"internal/shared/windowsbuild",
		},
		"internal/operator/controllers/source": {
			"api", "api/v1alpha1", "internal/operator/addresses", "internal/operator/cluster", "internal/operator/kube", "internal/operator/machines",
			"internal/operator/remote", "internal/shared/nodestate", "internal/shared/truncate",
		},
		"internal/operator/controllers/sshkey":      {"api", "internal/operator/join", "internal/operator/remote"},
		"internal/operator/controllers/upgradeable": {"api", "api/v1alpha1", "internal/operator/kube", "internal/shared/truncate"},
		"internal/operator/controllers/userdata": {
			"api", "api/v1alpha1", "internal/operator/cluster", "internal/operator/controllers/source", "internal/operator/controllers/sshkey",
			"internal/operator/kube", "internal/operator/userdata", "internal/shared/desired",
		},
		"internal/operator/csr":   {"api", "api/v1alpha1", "internal/operator/addresses", "internal/shared/truncate"},
		"internal/operator/drain": {"api", "api/v1alpha1", "internal/shared/truncate"},
		"internal/operator/join": {
			"api", "api/v1alpha1", "internal/operator/addresses", "internal/operator/lifecycle", "internal/shared/desired", "internal/shared/hns",
			"internal/shared/nodestate", "internal/shared/platform", "internal/shared/truncate", "internal/shared/wicdapi", "internal/shared/windowsbuild",
			"internal/shared/windowsupdate", "payload",
		},
		"internal/operator/kube":         {"api", "api/v1alpha1", "internal/shared/mask", "internal/shared/metrics", "internal/shared/nodestate", "internal/shared/truncate"},
		"internal/operator/kubeversions": {"payload"},
		"internal/operator/lease":        {"api", "internal/operator/kube"},
		"internal/operator/lifecycle":    {},
		"internal/operator/machines":     {"api", "api/v1alpha1", "internal/operator/addresses", "internal/shared/platform", "internal/shared/truncate"},
		"internal/operator/migration": {
			"api", "api/v1alpha1", "internal/operator/cluster", "internal/operator/controllers/source", "internal/operator/kubeversions",
			"internal/operator/machines", "internal/operator/remote", "internal/shared/desired", "internal/shared/nodestate",
		},
		"internal/operator/networkpolicy": {"internal/shared/hns", "internal/shared/policyset", "internal/shared/truncate"},
		"internal/operator/prepare":       {"internal/operator/join", "internal/operator/remote", "internal/shared/wicdapi", "payload"},
		"internal/operator/remote":        {"api", "internal/shared/truncate"},
		"internal/operator/rollout": {
			"api", "api/v1alpha1", "internal/shared/nodestate", "internal/shared/truncate", "internal/shared/windowsbuild", "internal/shared/windowsupdate",
		},
		"internal/operator/userdata": {"internal/shared/platform"},
		"internal/operator/windowsimage": {
			"internal/operator/addresses", "internal/shared/mirrors", "internal/shared/registryclient", "internal/shared/windowsbuild",
		},

		"internal/observe/advice": {"api"},
		"internal/observe/fleetstatus": {
			"api", "api/v1alpha1", "internal/observe/advice", "internal/observe/podcause", "internal/shared/desired", "internal/shared/mask",
			"internal/shared/nodestate", "internal/shared/truncate",
		},
		"internal/observe/generations": {
			"api", "internal/observe/podrules", "internal/shared/mirrors", "internal/shared/nodestate", "internal/shared/truncate",
			"internal/shared/windowsbuild",
		},
		"internal/observe/podcause":              {"api", "internal/shared/mirrors", "internal/shared/nodestate", "internal/shared/truncate", "internal/shared/windowsbuild"},
		"internal/observe/podrules":              {"api", "internal/shared/windowsbuild"},
		"internal/observe/podrules/podrulestest": {"api", "internal/observe/podrules", "internal/shared/windowsbuild"},

		"internal/cli": {
			"internal/operator/join", "internal/operator/prepare", "internal/operator/remote",
			"api", "api/v1alpha1", "internal/cli/collect", "internal/cli/dashboard", "internal/cli/exec", "internal/cli/logs", "internal/cli/replace",
			"internal/cli/session",
			"internal/cli/terminal", "internal/observe/advice", "internal/observe/fleetstatus", "internal/observe/generations",
			"internal/observe/podrules", "internal/operator/kubeversions", "internal/operator/lifecycle", "internal/operator/migration", "internal/operator/networkpolicy", "internal/operator/rollout",
			"internal/operator/userdata",
			"internal/operator/windowsimage", "internal/shared/desired", "internal/shared/hns", "internal/shared/mirrors", "internal/shared/policyset", "internal/shared/proxy", "internal/shared/registryclient",
			"internal/shared/wicdapi",
			"internal/cli/nodefiles", "internal/shared/nodestate", "internal/shared/truncate", "internal/shared/windowsbuild", "internal/shared/windowsupdate", "payload",
		},
		"internal/cli/clitest": {"internal/cli"},
		"internal/cli/collect": {
			"api", "api/v1alpha1", "internal/cli/nodefiles", "internal/cli/session", "internal/observe/fleetstatus", "internal/shared/mask",
			"internal/shared/supportbundle", "internal/shared/truncate",
		},
		"internal/cli/dashboard": {
			"api/v1alpha1", "internal/cli/nodefiles", "internal/cli/session", "internal/observe/advice", "internal/observe/fleetstatus",
			"internal/shared/truncate",
		},
		"internal/cli/exec": {
			"internal/cli/nodefiles", "internal/cli/session", "internal/cli/terminal", "internal/observe/fleetstatus", "internal/shared/truncate",
		},
		"internal/cli/logs":      {"internal/cli/nodefiles", "internal/cli/session", "internal/cli/terminal", "internal/observe/fleetstatus"},
		"internal/cli/nodefiles": {"internal/cli/session", "internal/shared/httpclient", "internal/shared/truncate"},
		"internal/cli/replace": {
			"api", "api/v1alpha1", "internal/cli/session", "internal/cli/terminal", "internal/observe/generations", "internal/operator/drain",
			"internal/operator/kube", "internal/operator/machines", "internal/operator/rollout", "internal/shared/nodestate", "internal/shared/truncate",
			"internal/shared/windowsbuild",
		},
		"internal/cli/session":  {"api", "api/v1alpha1", "internal/observe/fleetstatus", "internal/shared/httpclient", "internal/shared/truncate"},
		"internal/cli/terminal": {},

		"internal/testing/acceptance": {
			"api", "api/v1alpha1", "internal/node/backoff", "internal/node/hostapi", "internal/node/overlay", "internal/operator/remote",
			"internal/shared/desired", "internal/shared/hns", "internal/shared/httpclient", "internal/shared/mask", "internal/shared/platform",
			"internal/shared/platform/metadata", "internal/shared/strictjson", "internal/shared/truncate", "internal/shared/wicdapi",
			"internal/shared/windowsbuild", "internal/shared/windowsupdate", "internal/testing/controlplane",
		},
		"internal/testing/controlplane": {},
		"internal/testing/documents":    {},
		"internal/testing/sim": {
			"api", "api/v1alpha1", "internal/node/backoff", "internal/node/cri", "internal/node/daemon", "internal/node/hostapi", "internal/node/hostnetwork",
			"internal/shared/desired", "internal/shared/hns", "internal/shared/httpclient", "internal/shared/wicdapi", "internal/shared/windowsbuild",
			"internal/shared/windowsupdate",
			"internal/testing/sim/hnsquirks", "internal/testing/sim/lies", "internal/testing/sim/servers", "internal/testing/sshserver", "payload",
			"payload/compress", "payload/selfextract",
		},
		"internal/testing/sim/contract": {
			"api", "api/v1alpha1", "internal/node/cri", "internal/node/hostapi", "internal/node/hostnetwork", "internal/node/overlay",
			"internal/node/policypipe", "internal/shared/desired", "internal/shared/hns", "internal/shared/wicdapi", "internal/shared/windowsupdate",
		},
		"internal/testing/sim/hnsquirks":      {},
		"internal/testing/sim/lies":           {},
		"internal/testing/sim/servers":        {"internal/shared/platform"},
		"internal/testing/sim/updateregistry": {"internal/shared/windowsupdate"},
		"internal/testing/sshserver":          {},

		"internal/archtest": {},

		"cmd/hybrid-overlay-node": {"internal/node/hostnetwork", "internal/node/overlay", "internal/node/win/network", "internal/node/win/scm"},
		"cmd/kubectl-windows":     {"internal/cli"},
		"cmd/wicd":                {"api", "api/v1alpha1", "internal/node/daemon", "internal/node/hostapi", "internal/node/win", "internal/node/win/scm"},
		"cmd/wicd-cni":            {"internal/node/policycni", "internal/node/policypipe", "internal/node/win/pipe"},
		"cmd/wicd-setup":          {"payload/compress", "payload/selfextract"},
		"cmd/wmco": {
			"api", "api/v1alpha1", "internal/operator/cluster", "internal/operator/controllers", "internal/operator/kube", "internal/operator/kubeversions",
			"internal/operator/lease", "internal/operator/migration", "internal/shared/httpclient", "internal/shared/tlsprofile", "internal/shared/truncate",
			"payload",
		},
		"cmd/wmco-acceptance": {"internal/node/win", "internal/node/win/scm", "internal/testing/acceptance"},

		"hack/generate": {
			"deploy/monitoring", "internal/cli", "internal/observe/advice", "internal/observe/podrules", "internal/operator/kubeversions",
			"internal/operator/lifecycle", "internal/shared/metrics", "internal/shared/windowsbuild", "payload", "payload/build",
		},
		"hack/mutate":   {},
		"hack/outdated": {"internal/operator/lifecycle", "internal/shared/httpclient", "payload/build"},
		"hack/speed":    {},
	}
}

// purePackages returns the packages that only decide and render. They use neither files nor network, clock or cluster.
func purePackages() []string {
	return []string{
		"api", "api/v1alpha1", "deploy", "deploy/monitoring", "internal/node/hostnetwork", "internal/node/overlaystatus", "internal/observe/advice",
		"internal/observe/fleetstatus", "internal/observe/podcause", "internal/observe/podrules",
		"internal/operator/addresses", "internal/operator/csr", "internal/operator/drain", "internal/operator/kubeversions", "internal/operator/lifecycle",
		"internal/operator/machines", "internal/operator/networkpolicy", "internal/operator/rollout", "internal/operator/userdata",
		"internal/shared/desired", "internal/shared/hns", "internal/shared/mask", "internal/shared/metrics", "internal/shared/mirrors",
		"internal/shared/nodestate", "internal/shared/platform", "internal/shared/policyset", "internal/shared/proxy", "internal/shared/supportbundle",
		"internal/shared/tlsprofile", "internal/shared/truncate", "internal/shared/trust", "internal/shared/windowsbuild", "internal/shared/windowsupdate",
	}
}
