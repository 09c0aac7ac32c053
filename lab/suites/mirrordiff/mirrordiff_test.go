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

// noConfiguration counts clusters for which OpenShift writes no registries.conf: something is in the scope of a source with a wildcard.
const noConfiguration = "OpenShift fails, and writes nothing"

// clusters is how many are played, and first the seed of the first.
func clusters(t *testing.T) (first, count uint64) {
	t.Helper()
	number := func(name string, otherwise uint64) uint64 {
		text := os.Getenv(name)
		if text == "" {
			return otherwise
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	return number("WMCO_MIRROR_SEED", 1), number("WMCO_MIRROR_CLUSTERS", 300)
}

// TestWindowsNodesPullFromWhereLinuxNodesDo plays clusters by chance. WMCO_MIRROR_CLUSTERS=10000 plays more, and WMCO_MIRROR_SEED=7 begins with
// another one.
func TestWindowsNodesPullFromWhereLinuxNodesDo(t *testing.T) {
	const pullsOfEach = 40
	first, count := clusters(t)
	folder, another, seen := t.TempDir(), t.TempDir(), map[string]int{}
	for seed := first; seed < first+count && !t.Failed(); seed++ {
		c := newChance(seed)
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
		v := verdict{t, seed, in, node, corrected, files, mirrors.NewRouter(*table)}
		for range pullsOfEach {
			seen[v.compare(c.pull(in))]++
		}
	}
	if t.Failed() {
		return
	}
	for _, d := range append(known(), difference{name: noConfiguration}) {
		t.Logf("%6d %s", seen[d.name], d.name)
		if count >= 3000 && seen[d.name] == 0 {
			t.Errorf("nothing differs by %q: it is known no longer", d.name)
		}
	}
	t.Logf("%6d alike, %d by several of these", seen[""], seen[several])
}

// wicd is where containerd reaches WICD.
const wicd = "https://127.0.0.1:10280"

// several is the class of a difference that takes more than one of those known to explain.
const several = "several"

// verdict compares the nodes of one cluster.
type verdict struct {
	t               *testing.T
	seed            uint64
	in              cluster
	node, corrected *linux
	files           map[string]string // hosts.toml of containerd
	router          *mirrors.Router
}

// compare names the difference that a pull makes, "" where there is none.
func (v verdict) compare(p pull) string {
	v.t.Helper()
	got, route, err := windows(v.router, p)
	if err != nil {
		return "" // no image has that name
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
	v.t.Errorf("%+v\n pulling %s, Windows nodes ask %q, left %q\n Linux nodes ask %q, without all that is known %q\n again: WMCO_MIRROR_SEED=%d WMCO_MIRROR_CLUSTERS=1 go test .",
		v.in, p, got, route.Skipped, want, v.without(p, all()), v.seed)
	return several
}

// without returns the places that Linux nodes would try without some differences.
func (v verdict) without(p pull, corrects map[string]bool) []string {
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

// checkHosts reads containerd's configuration of the registry: it must not permit an access that the route does not have.
func (v verdict) checkHosts(p pull, route mirrors.Route) {
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
		return // only WICD is used
	}
	last := len(route.Attempts) - 1
	switch {
	case last < 0 || !route.Attempts[last].IsSource:
		v.t.Errorf("seed %d: %s: containerd may ask the registry, and the route has no way to it: left %q\n%s", v.seed, p, route.Skipped, file)
	case strings.Contains(file, "skip_verify") && !route.Attempts[last].Insecure:
		v.t.Errorf("seed %d: %s: containerd asks the registry without TLS, and the route does not\n%s", v.seed, p, file)
	}
}
