package mirrordiff

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.podman.io/image/v5/docker/reference"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// noConfiguration counts clusters for which OpenShift cannot write registries.conf, because a scope is nested in a source with
// a wildcard.
const noConfiguration = "OpenShift writes no registries.conf"

// clusters returns the first seed and the number of clusters.
func clusters(t *testing.T) (first, count uint64) {
	t.Helper()
	number := func(name string, defaultValue uint64) uint64 {
		text := os.Getenv(name)
		if text == "" {
			return defaultValue
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	return number("WMCO_MIRROR_SEED", 1), number("WMCO_MIRROR_CLUSTERS", 300)
}

// TestWindowsNodesPullFromSameLocationsAsLinuxNodes compares random pulls in random clusters. WMCO_MIRROR_CLUSTERS=10000 sets
// the number of clusters, and WMCO_MIRROR_SEED=7 the first seed.
func TestWindowsNodesPullFromSameLocationsAsLinuxNodes(t *testing.T) {
	const pullsPerCluster = 40
	first, count := clusters(t)
	folder, another, seen := t.TempDir(), t.TempDir(), map[string]int{}
	for seed := first; seed < first+count && !t.Failed(); seed++ {
		c := newGenerator(seed)
		in := c.cluster()
		node, err := newLinux(folder, in, nil)
		if err != nil {
			seen[noConfiguration]++
			continue
		}
		corrected, err := newLinux(another, in.lower(), all())
		if err != nil {
			t.Fatalf("seed %d: with hosts in lower case: %v", seed, err)
		}
		table := mirrors.Render(in.windows()).Table
		if table == nil {
			table = &mirrors.Table{}
		}
		if err := table.Check(); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		files := table.Hosts(mirrors.Endpoint{URL: wicd, CA: `C:\ca`, Client: `C:\client`})
		v := comparison{t, seed, in, node, corrected, files, mirrors.NewRouter(*table)}
		for range pullsPerCluster {
			seen[v.compare(c.pull(in))]++
		}
	}
	if t.Failed() {
		return
	}
	for _, d := range append(known(), difference{name: noConfiguration}) {
		t.Logf("%6d %s", seen[d.name], d.name)
		if count >= 3000 && seen[d.name] == 0 {
			t.Errorf("found no pull with difference %q; remove it from the known ones", d.name)
		}
	}
	t.Logf("%6d without difference, %d with several differences", seen[""], seen[several])
}

// wicd is the URL at which containerd reaches WICD.
const wicd = "https://127.0.0.1:10280"

// several is the class of pulls with more than one known difference.
const several = "several"

// comparison compares the nodes of one cluster.
type comparison struct {
	t               *testing.T
	seed            uint64
	in              cluster
	node, corrected *linux
	files           map[string]string // hosts.toml of containerd
	router          *mirrors.Router
}

// compare returns the name of the difference between Windows and Linux nodes for a pull, or "" if there is none.
func (v comparison) compare(p pull) string {
	v.t.Helper()
	got, route, err := windows(v.router, p)
	if err != nil {
		return "" // the name is invalid
	}
	v.checkHosts(p, route)
	want, err := v.node.pull(p)
	if err != nil {
		v.t.Fatalf("seed %d: %s: %v", v.seed, p, err)
	}
	if slices.Equal(got, want) {
		return ""
	}
	for _, d := range known() {
		if slices.Equal(got, v.without(p, map[string]bool{d.name: true})) {
			return d.name
		}
	}
	if slices.Equal(got, v.without(p, all())) {
		return several
	}
	v.t.Errorf("%+v\n pulling %s: Windows nodes try %q, skipped %q\n Linux nodes try %q, with corrections %q\n repeat with: WMCO_MIRROR_SEED=%d WMCO_MIRROR_CLUSTERS=1 go test .",
		v.in, p, got, route.Skipped, want, v.without(p, all()), v.seed)
	return several
}

// without returns the locations that Linux nodes would try with some differences corrected.
func (v comparison) without(p pull, corrects map[string]bool) []string {
	v.t.Helper()
	node := *v.node
	if corrects[upperCase] {
		node = *v.corrected
		p.name = lowerHost(p.name)
	}
	node.corrects = corrects
	places, err := node.pull(p)
	if err != nil {
		v.t.Fatalf("seed %d: %s: %v", v.seed, p, err)
	}
	return places
}

// checkHosts checks containerd's configuration of the registry, which must not permit requests that the route does not have.
func (v comparison) checkHosts(p pull, route mirrors.Route) {
	v.t.Helper()
	image, err := parse(p)
	if err != nil {
		v.t.Fatal(err)
	}
	host := strings.ToLower(reference.Domain(image))
	folder := host
	if name, port, hasPort := strings.Cut(host, ":"); hasPort {
		folder = name + "_" + port + "_"
	}
	file, found := v.files[mirrors.Folder+`\`+folder+`\hosts.toml`]
	if !found {
		file = v.files[mirrors.Folder+`\_default\hosts.toml`]
	}
	if strings.Contains(file, fmt.Sprintf("server = %q", wicd)) {
		return // containerd only uses WICD
	}
	last := len(route.Attempts) - 1
	switch {
	case last < 0 || !route.Attempts[last].IsSource:
		v.t.Errorf("seed %d: %s: containerd can connect to the registry, but the route does not contain it (skipped %q):\n%s", v.seed, p, route.Skipped, file)
	case strings.Contains(file, "skip_verify") && !route.Attempts[last].Insecure:
		v.t.Errorf("seed %d: %s: containerd skips the verification of the registry's certificate, but the route does not:\n%s", v.seed, p, file)
	}
}
