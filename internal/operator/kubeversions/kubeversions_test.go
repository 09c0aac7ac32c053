package kubeversions_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/payload"
)

// carried returns a payload with these kubelets, in any order.
func carried(kubelets ...string) payload.Manifest {
	files := []payload.File{
		{Path: payload.WICD, Component: "wicd", Version: "devel", Group: payload.Base, SHA256: strings.Repeat("0", 64), Size: 1},
		{Path: "flanneld.exe", Component: "flanneld", Version: "v0.28.4", Group: payload.Flannel, SHA256: strings.Repeat("1", 64), Size: 1},
		{Path: "ecr-credential-provider.exe", Component: "ecr-credential-provider", Version: "v1.34.3", Group: payload.AWS, SHA256: strings.Repeat("2", 64), Size: 1},
	}
	for n, kubelet := range kubelets {
		minor := kubelet[1:strings.LastIndex(kubelet, ".")]
		files = append(files, payload.File{
			Path: "kubelet.exe", Component: "kubelet", Version: kubelet, Group: payload.Kubernetes(minor), SHA256: strings.Repeat(string(rune('a'+n)), 64), Size: 1,
		})
	}
	return payload.New(files, payload.File{})
}

func TestEachMinorVersionIsARelease(t *testing.T) {
	all := kubeversions.Of("1.2.0", carried("v1.36.3", "v1.9.1", "v1.33.13"))
	var minors []string
	for _, r := range all {
		minors = append(minors, r.Minor)
		if len(r.Content.Files) != 4 {
			t.Errorf("%s has %d files, must have WICD, flanneld, ecr-credential-provider and one kubelet", r.Version, len(r.Content.Files))
		}
		if prefix := "1.2.0-k" + r.Minor + "-"; !strings.HasPrefix(r.Version, prefix) || len(r.Version) != len(prefix)+7 {
			t.Errorf("the release of %s is called %s", r.Minor, r.Version)
		}
	}
	if got := strings.Join(minors, " "); got != "1.9 1.33 1.36" {
		t.Errorf("minors are %s, must be the oldest first", got)
	}
}

func TestNodesGetTheNewestKubeletThatIsNotNewerThanTheOldestAPIServer(t *testing.T) {
	all := kubeversions.Of("1.2.0", carried("v1.33.13", "v1.34.4", "v1.36.3"))
	for _, test := range []struct {
		servers []string
		kubelet string
		err     string
	}{
		{[]string{"v1.33.0"}, "v1.33.13", ""},
		{[]string{"v1.34.9+f1a2b3c"}, "v1.34.4", ""},
		{[]string{"v1.35.1"}, "v1.34.4", ""}, // the payload has no 1.35
		{[]string{"v1.36.0-rc.1"}, "v1.36.3", ""},
		{[]string{"v1.39.2"}, "v1.36.3", ""},
		{[]string{"v1.34.1", "v1.33.7", "v1.34.1"}, "v1.33.13", ""},
		{[]string{"unknown", "v1.34.1"}, "v1.34.4", ""},
		{[]string{"v1.32.9"}, "v1.33.13", "the oldest kubelet of this operator is v1.33.13, newer than API server v1.32.9; upgrade the cluster to 1.33"},
		{[]string{"v1.40.0"}, "v1.36.3", "the newest kubelet of this operator is v1.36.3, more than 3 minor versions older than API server v1.40.0"},
		{[]string{"v2.0.0"}, "v1.33.13", "API server v2.0.0 has a different major version from the kubelets of this operator, v1.33.13 to v1.36.3"},
		{[]string{"latest", ""}, "v1.33.13", kubeversions.ErrUnknown.Error()},
		{nil, "v1.33.13", kubeversions.ErrUnknown.Error()},
	} {
		got, err := kubeversions.Choose(all, test.servers)
		if got.Kubelet != test.kubelet || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("with API servers %q: kubelet %q, error %v; want %q, %q", test.servers, got.Kubelet, err, test.kubelet, test.err)
		}
	}
}

func TestUnversionedContentFitsEveryCluster(t *testing.T) {
	file := payload.File{Path: "kubelet.exe", Component: "kubelet", Version: "simulated", Group: payload.Base, SHA256: strings.Repeat("a", 64), Size: 1}
	all := kubeversions.Of("1.2.0", payload.New([]payload.File{file}, payload.File{}))
	got, err := kubeversions.Choose(all, []string{"v1.36.3"})
	if err != nil || got.Version == "" || got.Minor != "" {
		t.Errorf("release is %+v, error %v", got, err)
	}
	if _, err := kubeversions.Choose(all, nil); !errors.Is(err, kubeversions.ErrUnknown) {
		t.Errorf("without an API server the error is %v", err)
	}
}

func TestVersionFollowsTheContentAndNotTheBuild(t *testing.T) {
	versionOf := func(m payload.Manifest) string { return kubeversions.Of("1.0.0", m)[0].Version }
	before := versionOf(carried("v1.36.3"))
	altered := carried("v1.36.3")
	altered.Files[len(altered.Files)-1].SHA256 = strings.Repeat("e", 64) // WICD
	altered = payload.New(altered.Files, payload.File{})
	if got := versionOf(altered); got == before {
		t.Errorf("different content has the same version %s", got)
	}
	if again := versionOf(carried("v1.36.3")); again != before {
		t.Errorf("the same content has versions %s and %s", before, again)
	}
	if got := versionOf(carried("v1.36.4")); got != before {
		t.Errorf("the same content is version %s with another label, and %s with the first", got, before)
	}
}
