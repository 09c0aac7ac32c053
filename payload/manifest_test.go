package payload_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/windows-machine-config/wmco/payload"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sample returns a manifest with files in every group, given in no particular order.
func sample() payload.Manifest {
	kubelet := sampleFile("kubelet.exe", payload.Base)
	kubelet.Dictionary = hashOf("containerd/containerd.exe")
	return payload.New([]payload.File{
		kubelet,
		sampleFile("flanneld.exe", payload.Flannel),
		sampleFile("containerd/containerd.exe", payload.Base),
		sampleFile(payload.WICD, payload.Base),
	}, sampleFile(payload.SetupName, payload.Base))
}

func sampleFile(path, group string) payload.File {
	f := payload.File{Path: path, Component: strings.TrimSuffix(filepath.Base(path), ".exe"), Version: "v1", License: "MIT", Group: group}
	f.SHA256, f.Size = hashOf(path), 4096
	f.Compressed = payload.Blob{SHA256: hashOf(path + ".zst"), Size: 1024}
	return f
}

func hashOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

func TestManifestEncodingIsStable(t *testing.T) {
	got, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "payload.json")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
	parsed, err := payload.Parse(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), parsed); diff != "" {
		t.Errorf("parsed manifest (-want +got):\n%s", diff)
	}
}

func TestDigestMatchesSha256sum(t *testing.T) {
	m := payload.New([]payload.File{{Path: "b.exe", SHA256: "22"}, {Path: "a/c.exe", SHA256: "11"}}, payload.File{})
	if want := hashOf("11  a/c.exe\n22  b.exe\n"); m.Digest != want {
		t.Errorf("digest is %s, want %s", m.Digest, want)
	}
}

func TestDigestDependsOnlyOnPathsAndContents(t *testing.T) {
	m := sample()
	for i := range m.Files {
		m.Files[i].Version, m.Files[i].Compressed = "v2", payload.Blob{}
	}
	if got := payload.New(m.Files, payload.File{}).Digest; got != m.Digest {
		t.Error("another version name and other compressed bytes gave another digest")
	}
	m.Files[0].Path = "other.exe"
	if got := payload.New(m.Files, payload.File{}).Digest; got == m.Digest {
		t.Error("another path gave the same digest")
	}
}

func TestSelectReturnsGroupsWithDigest(t *testing.T) {
	all := sample()
	base := all.Select(payload.Base)
	var paths []string
	for _, f := range base.Files {
		paths = append(paths, f.Path)
	}
	if diff := cmp.Diff([]string{"containerd/containerd.exe", "kubelet.exe", payload.WICD}, paths); diff != "" {
		t.Errorf("files of group base (-want +got):\n%s", diff)
	}
	if base.Digest == all.Digest || base.Setup != all.Setup {
		t.Errorf("selection has digest %s and setup %v", base.Digest, base.Setup)
	}
	if err := base.Validate(); err != nil {
		t.Errorf("selection is not valid: %v", err)
	}
	if diff := cmp.Diff(all, all.Select(payload.Flannel, payload.AWS, payload.Base)); diff != "" {
		t.Errorf("selecting every group changed the manifest (-want +got):\n%s", diff)
	}
}

func TestParseReportsInvalidField(t *testing.T) {
	for _, test := range []struct {
		name string
		spot func(*payload.Manifest)
		want string
	}{
		{"path leaves the folder", func(m *payload.Manifest) { m.Files[0].Path = "../x.exe" }, `files[0]: path is "../x.exe"`},
		{"path has a drive", func(m *payload.Manifest) { m.Files[0].Path = `c:\x.exe` }, `files[0]: path is "c:\\x.exe"`},
		{"path has upper case", func(m *payload.Manifest) { m.Files[0].Path = "Kubelet.exe" }, `files[0]: path is "Kubelet.exe"`},
		{"path ends with a dot", func(m *payload.Manifest) { m.Files[0].Path = "a./b.exe" }, `files[0]: path is "a./b.exe"`},
		{"path occurs twice", func(m *payload.Manifest) { m.Files[2] = m.Files[1] }, `files[2]: path "flanneld.exe" (group flannel) must sort after "flanneld.exe" (group flannel)`},
		{"no version", func(m *payload.Manifest) { m.Files[1].Version = "" }, "files[1]: (flanneld.exe): version is missing"},
		{"no group", func(m *payload.Manifest) { m.Files[1].Group = "" }, "group is missing"},
		{"hash is short", func(m *payload.Manifest) { m.Files[1].SHA256 = "abcd" }, `(flanneld.exe): sha256 is "abcd"`},
		{"hash in upper case", func(m *payload.Manifest) { m.Files[1].SHA256 = strings.ToUpper(m.Files[1].SHA256) }, "must be 64 hexadecimal digits in lower case"},
		{"no size", func(m *payload.Manifest) { m.Files[1].Size = 0 }, "(flanneld.exe): size is 0"},
		{"no compressed size", func(m *payload.Manifest) { m.Files[1].Compressed.Size = -1 }, "(flanneld.exe): compressed.size is -1"},
		{"digest of other files", func(m *payload.Manifest) { m.Files[1].SHA256 = hashOf("else") }, "digest is "},
		{"dictionary does not exist", func(m *payload.Manifest) { m.Files[1].Dictionary = hashOf("else") }, "files[1] (flanneld.exe): dictionary is "},
		{"dictionary is the file itself", func(m *payload.Manifest) { m.Files[1].Dictionary = m.Files[1].SHA256 }, "files[1] (flanneld.exe): dictionary is "},
		{"dictionary of a group that hosts may not have", func(m *payload.Manifest) { m.Files[2].Dictionary = m.Files[1].SHA256 },
			"must be the sha256 of another file of group base or base, which does not need this one"},
		{"dictionaries in a circle", func(m *payload.Manifest) {
			m.Files[0].Dictionary, m.Files[2].Dictionary = m.Files[2].SHA256, m.Files[0].SHA256
		}, "files[0] (containerd/containerd.exe): dictionary is "},
		{"one content in two forms", func(m *payload.Manifest) {
			m.Files[2].SHA256 = m.Files[1].SHA256
			*m = payload.New(m.Files, m.Setup)
		}, "files[2] (kubelet.exe): compressed or dictionary differs from that of flanneld.exe"},
		{"no wicd-setup", func(m *payload.Manifest) { m.Setup = payload.File{} }, `setup.path is "", must be "wicd-setup.exe"`},
		{"wicd-setup without hash", func(m *payload.Manifest) { m.Setup.SHA256 = "" }, "setup: (wicd-setup.exe): sha256"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := sample()
			test.spot(&m)
			data, err := m.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if _, err = payload.Parse(data); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestOrderPutsDictionariesFirst(t *testing.T) {
	files := []payload.File{}
	for path, dictionary := range map[string]string{
		"cni/host-local.exe": "containerd/containerd.exe", "cni/win-bridge.exe": "containerd/containerd.exe", "cni/win-overlay.exe": "cni/win-bridge.exe",
		"containerd/containerd.exe": "", "kube-proxy.exe": "kubelet.exe", "kubelet.exe": "containerd/containerd.exe",
		"csi-proxy.exe": "", "windows_exporter.exe": "containerd/containerd.exe", payload.WICD: "",
	} {
		f := sampleFile(path, payload.Base)
		if dictionary != "" {
			f.Dictionary = hashOf(dictionary)
		}
		files = append(files, f)
	}
	var paths []string
	for _, f := range payload.New(files, sampleFile(payload.SetupName, payload.Base)).Order() {
		paths = append(paths, f.Path)
	}
	want := []string{
		payload.WICD, "containerd/containerd.exe", "kubelet.exe", "kube-proxy.exe",
		"cni/host-local.exe", "cni/win-bridge.exe", "windows_exporter.exe", "cni/win-overlay.exe", "csi-proxy.exe",
	}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func FuzzParse(f *testing.F) {
	data, err := sample().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"digest":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","files":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := payload.Parse(data)
		if err != nil {
			return
		}
		for _, file := range m.Files {
			if !filepath.IsLocal(file.Path) || strings.ContainsAny(file.Path, `\:`) {
				t.Errorf("path %q was accepted", file.Path)
			}
		}
		sent := map[string]bool{"": true}
		for _, file := range m.Order() {
			if !sent[file.Dictionary] {
				t.Errorf("%s is sent before its dictionary", file.Path)
			}
			sent[file.SHA256] = true
		}
		if len(m.Order()) != len(m.Files) {
			t.Errorf("%d of %d files are sent", len(m.Order()), len(m.Files))
		}
		if again := payload.New(m.Files, m.Setup); again.Digest != m.Digest {
			t.Errorf("digest %s was accepted, the files have %s", m.Digest, again.Digest)
		}
	})
}
