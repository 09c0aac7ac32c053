package build_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/build"
)

// large returns text that does not compress.
func large(seed byte) string {
	b := make([]byte, 100_000)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return string(b)
}

// related returns two minor versions with programs that share most of their content.
func related() build.Set {
	in := func(group, path, dictionary, text string) build.Content {
		c := sampleContent(path, text)
		c.Group, c.Dictionary = group, dictionary
		return c
	}
	return build.Set{Files: []build.Content{
		in("kubernetes-1.35", "kube-proxy.exe", "kubelet.exe", large(1)+"kube-proxy 1.35"),
		in("kubernetes-1.36", "kube-proxy.exe", "kubelet.exe", large(2)+"kube-proxy 1.36"),
		in("kubernetes-1.35", "kubelet.exe", "containerd.exe", large(1)),
		in("kubernetes-1.36", "kubelet.exe", "containerd.exe", large(2)),
		in(payload.Base, "containerd.exe", "", large(1)+"containerd"),
		in(payload.Base, "cni.exe", "not-built.exe", "cni"),
	}}
}

func file(m payload.Manifest, group, path string) payload.File {
	for _, f := range m.Files {
		if f.Group == group && f.Path == path {
			return f
		}
	}
	return payload.File{}
}

func TestProgramsUseDictionaryOfTheirGroup(t *testing.T) {
	set := related()
	set.Blobs = t.TempDir()
	dir := t.TempDir()
	m := mustWrite(t, dir, set)
	p, err := payload.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ group, path, dictionaryGroup, dictionary, text string }{
		{"kubernetes-1.35", "kube-proxy.exe", "kubernetes-1.35", "kubelet.exe", large(1) + "kube-proxy 1.35"},
		{"kubernetes-1.36", "kube-proxy.exe", "kubernetes-1.36", "kubelet.exe", large(2) + "kube-proxy 1.36"},
		{"kubernetes-1.35", "kubelet.exe", payload.Base, "containerd.exe", large(1)},
		{payload.Base, "cni.exe", "", "", "cni"},
	} {
		f := file(m, test.group, test.path)
		if want := file(m, test.dictionaryGroup, test.dictionary).SHA256; f.Dictionary != want {
			t.Errorf("%s of %s: dictionary is %q, want %q", test.path, test.group, f.Dictionary, want)
		}
		if got, err := p.Content(f); err != nil || string(got) != test.text {
			t.Errorf("%s of %s: different content (%v)", test.path, test.group, err)
		}
		if test.group == "kubernetes-1.35" && f.Compressed.Size > 1000 {
			t.Errorf("%s of %s: %d bytes, although its dictionary has nearly the same content", test.path, test.group, f.Compressed.Size)
		}
	}
}

func TestChangedDictionaryRecompressesDependents(t *testing.T) {
	set := related()
	set.Blobs = t.TempDir()
	var log strings.Builder
	set.Log = &log
	dir := t.TempDir()
	mustWrite(t, dir, set)
	log.Reset()
	set.Files[4] = sampleContent("containerd.exe", large(2)+"containerd")
	m := mustWrite(t, dir, set)
	for path, want := range map[string]int{"containerd.exe": 1, "kubelet.exe": 2, "kube-proxy.exe": 0, "cni.exe": 0} {
		if got := strings.Count(log.String(), path+" ("); got != want {
			t.Errorf("%s was compressed %d times, want %d:\n%s", path, got, want, &log)
		}
	}
	if f := file(m, "kubernetes-1.36", "kubelet.exe"); f.Compressed.Size > 1000 {
		t.Errorf("with its new dictionary, the kubelet has %d bytes", f.Compressed.Size)
	}
}

func TestCircularDictionariesAreRejected(t *testing.T) {
	set := related()
	set.Files[4].Dictionary, set.Files[5].Dictionary = "cni.exe", "containerd.exe"
	if _, err := build.Write(t.Context(), t.TempDir(), set); err == nil || !strings.Contains(err.Error(), "(cni.exe): dictionary is") {
		t.Errorf("error is %v", err)
	}
}
