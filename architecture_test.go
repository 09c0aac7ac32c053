package wmco_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/windows-machine-config/wmco/"

// mayImport returns all packages, with the packages of this module that each may import. A package that is not listed
// must not exist; an import that is not listed points in the wrong direction.
func mayImport() map[string][]string {
	return map[string][]string{
		".":                              {},
		"api":                            {},
		"api/v1alpha1":                   {"api"},
		"deploy":                         {},
		"payload":                        {"payload/compress"},
		"payload/compress":               {},
		"payload/payloadtest":            {"payload/build"},
		"payload/selfextract":            {},
		"payload/build":                  {"payload", "payload/compress", "payload/selfextract"},
		"release/image/cmd":              {"release/image", "release/signature"},
		"release/image":                  {"api", "payload", "payload/compress", "release/signature"},
		"release/image/imagetest":        {"payload", "release/image"},
		"release/signature/cmd":          {"release/signature"},
		"release/signature":              {},
		"release/verify":                 {},
		"release/chart/cmd":              {"release/chart"},
		"release/chart":                  {"api", "internal/release", "release/archive", "release/manifests"},
		"release/artifacts/cmd":          {"release/artifacts"},
		"release/artifacts":              {"release/archive", "release/chart"},
		"release/archive":                {},
		"release/plugin/cmd":             {"release/archive", "release/plugin"},
		"release/plugin":                 {"release/archive"},
		"release/bundle":                 {"api", "api/v1alpha1", "payload/build", "release/image", "release/manifests"},
		"release/bundle/cmd":             {"release/archive", "release/bundle", "release/catalog", "release/image", "release/signature"},
		"release/catalog":                {"release/bundle", "release/image"},
		"release/manifests":              {},
		"payload/build/cmd":              {"payload", "payload/build"},
		"internal/release":               {"payload"},
		"internal/desired":               {"api", "api/v1alpha1", "internal/mirrors", "internal/platform", "internal/proxy", "internal/supportbundle", "internal/tlsprofile", "internal/trust", "payload"},
		"internal/csr":                   {"api", "api/v1alpha1", "internal/addresses", "internal/shorten"},
		"internal/drain":                 {"api", "api/v1alpha1", "internal/shorten"},
		"internal/rollout":               {"api", "api/v1alpha1", "internal/nodestate", "internal/shorten"},
		"internal/addresses":             {},
		"internal/nodestate":             {"api", "api/v1alpha1", "internal/windowsbuild"},
		"internal/machines":              {"api", "api/v1alpha1", "internal/addresses", "internal/platform", "internal/shorten"},
		"internal/userdata":              {"internal/platform"},
		"internal/mirrors":               {},
		"internal/proxy":                 {},
		"internal/trust":                 {},
		"internal/tlsprofile":            {},
		"internal/hns":                   {},
		"internal/hostnetwork":           {},
		"internal/kubeproxy":             {"internal/hns"},
		"internal/shorten":               {},
		"internal/mask":                  {},
		"internal/mask/masktest":         {},
		"internal/advice":                {"api"},
		"internal/fleetstatus":           {"api", "api/v1alpha1", "internal/advice", "internal/mask", "internal/podcause", "internal/nodestate", "internal/shorten"},
		"internal/podrules":              {"api", "internal/windowsbuild"},
		"internal/podrules/podrulestest": {"api", "internal/podrules", "internal/windowsbuild"},
		"internal/windowsbuild":          {"internal/shorten"},
		"internal/podcause":              {"api", "internal/mirrors", "internal/nodestate", "internal/shorten", "internal/windowsbuild"},
		"internal/registryclient":        {"internal/mirrors", "internal/proxy"},
		"internal/windowsimage":          {"internal/addresses", "internal/mirrors", "internal/registryclient", "internal/windowsbuild"},
		"internal/metrics":               {"api"},
		"internal/monitoring":            {"api", "internal/advice", "internal/metrics"},
		"internal/supportbundle":         {},
		"internal/httpclient":            {"internal/shorten"},
		"internal/identity":              {"internal/backoff", "internal/httpclient"},
		"internal/platform":              {"api/v1alpha1"},
		"internal/platform/metadata":     {"internal/platform", "internal/shorten"},
		"internal/agent":                 {"api", "api/v1alpha1", "internal/desired", "internal/shorten"},
		"internal/remote":                {"internal/shorten"},
		"internal/join":                  {"api", "api/v1alpha1", "internal/addresses", "internal/agent", "internal/desired", "internal/hns", "internal/lifecycle", "internal/nodestate", "internal/platform", "internal/shorten", "internal/windowsbuild", "payload"},
		"internal/cluster":               {"api", "api/v1alpha1", "internal/addresses", "internal/desired", "internal/mirrors", "internal/platform", "internal/proxy", "internal/shorten", "internal/tlsprofile", "internal/trust"},

		"internal/migration":     {"api", "api/v1alpha1", "internal/cluster", "internal/controllers/source", "internal/desired", "internal/machines", "internal/nodestate", "internal/release", "internal/remote"},
		"cmd/kubectl-windows":    {"internal/cli"},
		"internal/cli":           {"api", "api/v1alpha1", "internal/advice", "internal/cli/collect", "internal/cli/dashboard", "internal/cli/exec", "internal/cli/logs", "internal/cli/session", "internal/cli/terminal", "internal/desired", "internal/drain", "internal/fleetstatus", "internal/migration", "internal/mirrors", "internal/podrules", "internal/proxy", "internal/registryclient", "internal/release", "internal/rollout", "internal/shorten", "internal/userdata", "internal/windowsbuild", "internal/windowsimage", "payload"},
		"internal/cli/clitest":   {"internal/cli"},
		"internal/cli/session":   {"api", "api/v1alpha1", "internal/fleetstatus", "internal/httpclient", "internal/shorten"},
		"internal/cli/terminal":  {},
		"internal/cli/dashboard": {"api/v1alpha1", "internal/advice", "internal/cli/nodefiles", "internal/cli/session", "internal/fleetstatus", "internal/shorten"},
		"internal/cli/collect":   {"api", "api/v1alpha1", "internal/cli/nodefiles", "internal/cli/session", "internal/fleetstatus", "internal/mask", "internal/shorten", "internal/supportbundle"},
		"internal/cli/exec":      {"internal/cli/nodefiles", "internal/cli/session", "internal/cli/terminal", "internal/shorten"},
		"internal/cli/logs":      {"internal/cli/nodefiles", "internal/cli/session", "internal/cli/terminal"},
		"internal/cli/nodefiles": {"internal/cli/session", "internal/httpclient", "internal/shorten"},

		"internal/claim":                        {"api", "api/v1alpha1"},
		"internal/kube":                         {"api", "api/v1alpha1", "internal/mask", "internal/metrics", "internal/nodestate", "internal/shorten"},
		"internal/controllers":                  {"api", "api/v1alpha1", "deploy", "internal/cluster", "internal/controllers/admission", "internal/controllers/clusterversion", "internal/controllers/csrapproval", "internal/controllers/explain", "internal/controllers/fleet", "internal/controllers/instance", "internal/controllers/networkpolicies", "internal/controllers/overlayleftovers", "internal/controllers/runtimeclass", "internal/controllers/settings", "internal/controllers/source", "internal/controllers/upgradeable", "internal/controllers/userdata", "internal/desired", "internal/kube", "internal/release", "internal/remote", "internal/shorten", "payload"},
		"internal/controllers/admission":        {"api", "api/v1alpha1", "deploy", "internal/kube", "internal/shorten"},
		"internal/controllers/clusterversion":   {"internal/cluster", "internal/httpclient", "internal/kube", "internal/release"},
		"internal/controllers/controllertest":   {"api", "api/v1alpha1", "deploy", "internal/controllers/clusterversion", "internal/desired", "internal/release", "payload"},
		"internal/controllers/csrapproval":      {"api", "api/v1alpha1", "internal/controllers/admission", "internal/controllers/source", "internal/csr", "internal/desired", "internal/kube", "internal/nodestate"},
		"internal/controllers/fleet":            {"api", "api/v1alpha1", "internal/controllers/clusterversion", "internal/controllers/settings", "internal/desired", "internal/join", "internal/kube", "internal/nodestate", "internal/rollout"},
		"internal/controllers/instance":         {"api", "api/v1alpha1", "internal/addresses", "internal/agent", "internal/cluster", "internal/controllers/admission", "internal/controllers/clusterversion", "internal/controllers/fleet", "internal/controllers/settings", "internal/controllers/source", "internal/controllers/sshkey", "internal/desired", "internal/drain", "internal/join", "internal/kube", "internal/machines", "internal/nodestate", "internal/release", "internal/remote", "internal/rollout", "internal/shorten", "internal/supportbundle", "internal/windowsbuild", "payload"},
		"internal/controllers/settings":         {"api", "api/v1alpha1", "internal/cluster", "internal/controllers/admission", "internal/controllers/clusterversion", "internal/controllers/sshkey", "internal/desired", "internal/join", "internal/kube", "internal/lifecycle", "internal/nodestate", "internal/platform", "internal/release", "internal/shorten", "internal/windowsbuild"},
		"internal/controllers/source":           {"api", "api/v1alpha1", "internal/addresses", "internal/cluster", "internal/kube", "internal/machines", "internal/nodestate", "internal/remote", "internal/shorten"},
		"internal/controllers/sshkey":           {"api", "internal/join", "internal/remote"},
		"internal/controllers/explain":          {"api", "internal/advice", "internal/desired", "internal/kube", "internal/mask", "internal/mirrors", "internal/podcause", "internal/proxy", "internal/registryclient", "internal/shorten", "internal/windowsbuild", "internal/windowsimage"},
		"internal/controllers/networkpolicies":  {"api", "api/v1alpha1", "internal/advice", "internal/cluster", "internal/desired", "internal/kube"},
		"internal/controllers/overlayleftovers": {"api", "api/v1alpha1", "internal/cluster", "internal/desired", "internal/kube", "internal/nodestate"},
		"internal/controllers/runtimeclass":     {"api", "api/v1alpha1", "internal/kube", "internal/nodestate", "internal/windowsbuild"},
		"internal/controllers/upgradeable":      {"api", "api/v1alpha1", "internal/kube", "internal/shorten"},
		"internal/controllers/userdata":         {"api", "api/v1alpha1", "internal/cluster", "internal/controllers/source", "internal/controllers/sshkey", "internal/desired", "internal/kube", "internal/userdata"},

		"internal/backoff":          {},
		"internal/cri":              {},
		"internal/host":             {"internal/agent", "internal/cri", "internal/desired", "internal/hns"},
		"internal/daemon/state":     {"internal/agent", "internal/desired", "internal/host"},
		"internal/daemon/store":     {"internal/agent", "internal/daemon/state", "internal/desired", "internal/host", "payload/compress"},
		"internal/daemon/logrotate": {"internal/backoff", "internal/desired", "internal/host", "internal/mask"},
		"internal/daemon/eventlog":  {"internal/backoff", "internal/daemon/logrotate", "internal/daemon/state", "internal/desired", "internal/host"},
		"internal/daemon/collect": {"api", "internal/agent", "internal/daemon/credentials", "internal/daemon/eventlog", "internal/daemon/logrotate", "internal/daemon/nodestatus",
			"internal/daemon/state", "internal/daemon/supervisor", "internal/desired", "internal/host", "internal/mask", "internal/supportbundle"},
		"internal/daemon/credentials": {"api", "internal/agent", "internal/desired", "internal/host", "internal/identity"},
		"internal/daemon/apiclient": {"api", "internal/agent", "internal/backoff", "internal/daemon/credentials", "internal/daemon/state", "internal/desired",
			"internal/host", "internal/httpclient", "internal/identity"},
		"internal/daemon/nodestatus": {"api", "internal/backoff", "internal/daemon/apiclient", "internal/daemon/credentials", "internal/daemon/state", "internal/desired",
			"internal/identity", "internal/mask", "internal/metrics", "internal/nodestate", "internal/shorten", "internal/windowsbuild"},
		"internal/daemon/supervisor": {"api", "internal/agent", "internal/backoff", "internal/daemon/logrotate", "internal/daemon/nodestatus", "internal/daemon/state",
			"internal/desired", "internal/host", "internal/nodestate", "internal/shorten"},
		"internal/daemon/configure": {"api", "internal/agent", "internal/backoff", "internal/daemon/credentials", "internal/daemon/logrotate", "internal/daemon/nodestatus",
			"internal/daemon/state", "internal/daemon/store", "internal/daemon/supervisor", "internal/desired", "internal/hns", "internal/host", "internal/hostnetwork", "internal/mask", "internal/mirrors",
			"internal/nodestate", "internal/shorten", "internal/trust"},
		"internal/daemon/nodesettings": {"api", "internal/agent", "internal/backoff", "internal/daemon/apiclient", "internal/daemon/configure", "internal/daemon/nodestatus",
			"internal/daemon/state", "internal/desired", "internal/shorten"},
		"internal/daemon/sandboximage": {"api", "internal/agent", "internal/backoff", "internal/cri", "internal/daemon/nodestatus", "internal/daemon/state",
			"internal/desired", "internal/mirrors", "internal/nodestate", "internal/shorten"},
		"internal/daemon/podnetwork": {"api", "api/v1alpha1", "internal/backoff", "internal/daemon/apiclient", "internal/daemon/nodestatus", "internal/daemon/state", "internal/desired",
			"internal/hns", "internal/host", "internal/kubeproxy", "internal/nodestate", "internal/overlaystatus", "internal/shorten"},
		"internal/daemon/registry": {"api", "internal/backoff", "internal/daemon/credentials", "internal/daemon/nodestatus", "internal/daemon/state", "internal/desired", "internal/mirrors", "internal/registryclient"},
		"internal/daemon/update": {"api", "internal/agent", "internal/backoff", "internal/daemon/apiclient", "internal/daemon/configure", "internal/daemon/logrotate",
			"internal/daemon/nodesettings", "internal/daemon/nodestatus", "internal/daemon/state", "internal/daemon/store",
			"internal/daemon/supervisor", "internal/desired", "internal/host", "internal/nodestate", "internal/shorten", "payload"},
		"internal/daemon": {"internal/agent", "internal/backoff", "internal/daemon/apiclient", "internal/daemon/collect", "internal/daemon/configure", "internal/daemon/credentials",
			"internal/daemon/eventlog", "internal/daemon/logrotate", "internal/daemon/nodesettings", "internal/daemon/nodestatus", "internal/daemon/podnetwork", "internal/daemon/sandboximage", "internal/daemon/registry",
			"internal/daemon/state", "internal/daemon/store", "internal/daemon/supervisor", "internal/daemon/update", "internal/desired",
			"internal/host", "internal/identity", "internal/platform/metadata"},
		"internal/overlaystatus":  {"internal/shorten"},
		"internal/overlay":        {"api", "internal/backoff", "internal/hns", "internal/hostnetwork", "internal/httpclient", "internal/identity", "internal/overlaystatus", "internal/shorten"},
		"internal/win":            {"internal/agent", "internal/cri", "internal/host", "internal/desired", "internal/win/network", "internal/win/scm"},
		"internal/win/network":    {"internal/hns", "internal/hostnetwork", "internal/win/scm"},
		"internal/win/scm":        {},
		"internal/sim":            {"api", "api/v1alpha1", "internal/agent", "internal/cri", "internal/daemon", "internal/desired", "internal/hns", "internal/host", "internal/hostnetwork", "internal/httpclient", "internal/sim/lies", "internal/sim/servers", "internal/sim/sshd", "internal/windowsbuild", "payload", "payload/compress", "payload/selfextract"},
		"internal/sim/lies":       {},
		"internal/sim/contract":   {"api", "api/v1alpha1", "internal/agent", "internal/cri", "internal/desired", "internal/hns", "internal/host"},
		"internal/sim/servers":    {"internal/platform"},
		"internal/sim/sshd":       {},
		"internal/acceptance":     {"api", "api/v1alpha1", "internal/agent", "internal/controlplane", "internal/desired", "internal/hns", "internal/host", "internal/httpclient", "internal/mask", "internal/platform", "internal/platform/metadata", "internal/remote", "internal/shorten"},
		"internal/controlplane":   {},
		"internal/documents":      {},
		"internal/bugreports":     {},
		"cmd/wmco-acceptance":     {"internal/acceptance", "internal/win", "internal/win/scm"},
		"cmd/wmco":                {"api", "api/v1alpha1", "internal/claim", "internal/cluster", "internal/controllers", "internal/httpclient", "internal/kube", "internal/migration", "internal/release", "internal/shorten", "internal/tlsprofile", "payload"},
		"cmd/wicd":                {"api", "api/v1alpha1", "internal/daemon", "internal/host", "internal/win", "internal/win/scm"},
		"cmd/wicd-setup":          {"payload/compress", "payload/selfextract"},
		"cmd/hybrid-overlay-node": {"internal/hostnetwork", "internal/overlay", "internal/win/network", "internal/win/scm"},
		"hack/commands":           {"internal/cli"},
		"hack/objects":            {"internal/advice"},
		"hack/monitoring":         {"internal/metrics", "internal/monitoring"},
		"hack/mutate":             {},
		"hack/record":             {},
		"hack/speed":              {},
		"hack/podrules":           {"internal/podrules"},
		"internal/lifecycle":      {},
		"hack/outdated":           {"internal/httpclient", "internal/lifecycle", "payload/build"},
		"hack/counterparts":       {"payload/build"},
		"hack/support":            {"internal/lifecycle", "internal/release", "internal/windowsbuild", "payload", "payload/build"},
	}
}

// purePackages returns the packages that only decide and render. They use neither files nor network, clock or cluster.
func purePackages() []string {
	return []string{"internal/desired", "internal/release", "internal/csr", "internal/mirrors", "api", "api/v1alpha1", "internal/proxy", "internal/tlsprofile", "internal/trust", "internal/rollout", "internal/drain", "internal/hns", "internal/hostnetwork",
		"internal/machines", "internal/userdata", "internal/addresses", "internal/platform", "internal/nodestate", "internal/shorten", "internal/mask", "internal/advice", "internal/fleetstatus", "internal/podcause", "internal/podrules", "internal/windowsbuild", "internal/lifecycle", "internal/metrics", "internal/monitoring", "deploy", "internal/supportbundle", "internal/overlaystatus"}
}

// source is one package of the tree: its parsed files, without tests.
type source struct {
	dir   string
	files map[string]*ast.File
}

func sources(t *testing.T) (*token.FileSet, []source) {
	t.Helper()
	fset := token.NewFileSet()
	byDir := map[string]source{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "lab" || name == "docs" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		dir := path.Dir(filepath.ToSlash(name))
		if byDir[dir].files == nil {
			byDir[dir] = source{dir: dir, files: map[string]*ast.File{}}
		}
		byDir[dir].files[name] = file
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fset, slices.SortedFunc(maps.Values(byDir), func(a, b source) int { return strings.Compare(a.dir, b.dir) })
}

func TestImportsPointFromEdgesToCore(t *testing.T) {
	allowed := mayImport()
	_, packages := sources(t)
	for _, p := range packages {
		may, known := allowed[p.dir]
		if !known {
			t.Errorf("package %s is not in mayImport; every package has a place in the architecture", p.dir)
		}
		delete(allowed, p.dir)
		for name, file := range p.files {
			for _, i := range file.Imports {
				imported, _ := strconv.Unquote(i.Path.Value)
				ours, isOurs := strings.CutPrefix(imported, module)
				if isOurs && !slices.Contains(may, ours) {
					t.Errorf("%s imports %s, which mayImport does not allow %s", name, ours, p.dir)
				}
			}
		}
	}
	for dir := range allowed {
		t.Errorf("mayImport lists %s, which does not exist", dir)
	}
}

func TestPurePackagesTouchNothing(t *testing.T) {
	forbidden := []string{"os", "os/exec", "net", "net/http", "path/filepath", "k8s.io/client-go", "sigs.k8s.io/controller-runtime", "golang.org/x/sys"}
	_, packages := sources(t)
	for _, p := range packages {
		if !slices.Contains(purePackages(), p.dir) {
			continue
		}
		for name, file := range p.files {
			for _, i := range file.Imports {
				imported, _ := strconv.Unquote(i.Path.Value)
				for _, f := range forbidden {
					if imported == f || strings.Contains(f, ".") && strings.HasPrefix(imported, f+"/") {
						t.Errorf("%s is pure and imports %s", name, imported)
					}
				}
			}
		}
	}
}

// TestWindowsIsCalledInOnePlace ensures that all other packages build and are tested on Linux.
func TestWindowsIsCalledInOnePlace(t *testing.T) {
	_, packages := sources(t)
	for _, p := range packages {
		if p.dir == "internal/win" || strings.HasPrefix(p.dir, "internal/win/") {
			continue
		}
		for name, file := range p.files {
			for _, i := range file.Imports {
				if strings.HasPrefix(strings.Trim(i.Path.Value, `"`), "golang.org/x/sys/windows") {
					t.Errorf("%s calls Windows; only internal/win and what is below it may", name)
				}
			}
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	_, packages := sources(t)
	for _, p := range packages {
		var docs []string
		for name, file := range p.files {
			if file.Doc != nil && len(strings.Fields(file.Doc.Text())) > 8 {
				docs = append(docs, name)
			}
		}
		if len(docs) != 1 {
			t.Errorf("package %s has %d package comments (%v), want one that says what it is", p.dir, len(docs), docs)
		}
	}
}

func TestNothingStartsByItself(t *testing.T) {
	fset, packages := sources(t)
	for _, p := range packages {
		for name, file := range p.files {
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
					t.Errorf("%s has an init function; wire things where they are used", name)
				}
				checkVariables(t, fset, decl)
			}
		}
	}
}

// checkVariables allows package variables that never change: errors and embedded files.
func checkVariables(t *testing.T, fset *token.FileSet, decl ast.Decl) {
	d, ok := decl.(*ast.GenDecl)
	if !ok || d.Tok != token.VAR || d.Doc != nil && strings.Contains(d.Doc.Text(), "go:embed") {
		return
	}
	for _, spec := range d.Specs {
		v := spec.(*ast.ValueSpec)
		for i, name := range v.Names {
			isError := i < len(v.Values) && isErrorValue(v.Values[i])
			isAssertion := name.Name == "_"
			isSystemCall := strings.HasPrefix(fset.Position(name.Pos()).Filename, "internal/win/")
			embedded := v.Doc != nil || d.Doc != nil && len(d.Doc.List) > 0 && strings.HasPrefix(d.Doc.List[len(d.Doc.List)-1].Text, "//go:embed")
			if !isError && !isAssertion && !isSystemCall && !embedded {
				t.Errorf("%s: package variable %s; pass values instead", fset.Position(name.Pos()), name.Name)
			}
		}
	}
}

func isErrorValue(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CallExpr:
		s, ok := e.Fun.(*ast.SelectorExpr)
		return ok && (s.Sel.Name == "New" || s.Sel.Name == "Errorf") && fmt.Sprint(s.X) == "errors" || fmt.Sprint(e.Fun) == "&{fmt Errorf}"
	case *ast.SelectorExpr:
		return strings.HasPrefix(e.Sel.Name, "Err")
	}
	return false
}

// TestNamesUsersTouchAreInAPI keeps every label, annotation and object name in one documented place.
func TestNamesUsersTouchAreInAPI(t *testing.T) {
	ours := regexp.MustCompile(`windowsmachineconfig\.openshift\.io|node\.openshift\.io/`)
	fset, packages := sources(t)
	for _, p := range packages {
		if strings.HasPrefix(p.dir, "api") {
			continue
		}
		for _, file := range p.files {
			ast.Inspect(file, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING && ours.MatchString(l.Value) {
					t.Errorf("%s: %s is a name users touch; it belongs in api", fset.Position(l.Pos()), l.Value)
				}
				return true
			})
		}
	}
}
