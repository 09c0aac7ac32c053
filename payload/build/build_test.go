package build_test

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/build"
)

// repository writes a tiny repository with this one's layout: own programs in the root module, and a module folder that pins
// v1.2.3 of another module. It returns its folder and the components that it declares.
func repository(t *testing.T) (string, []build.Component) {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                 "module github.com/windows-machine-config/wmco\n\ngo 1.26.0\n",
		"cmd/wicd/main.go":       "package main\n\nfunc main() { println(`the daemon`) }\n",
		"cmd/wicd-setup/main.go": "package main\n\nfunc main() { println(`wicd-setup`) }\n",
		"payload/hello/go.mod":   "module hello\n\ngo 1.26.0\n\ntool (\n\texample.com/tool/hello\n\texample.com/tool/bye\n)\n\nrequire example.com/tool v1.2.3\n\nreplace example.com/tool => ../../tool\n",
		"payload/hello/go.sum":   "",
		"tool/go.mod":            "module example.com/tool\n\ngo 1.26.0\n",
		"tool/hello/main.go":     "package main\n\nvar version, number, minor, commit = ``, ``, ``, `unknown`\n\nfunc main() { println(version, number, minor, commit, extra()) }\n",
		"tool/hello/plain.go":    "//go:build !patched\n\npackage main\n\nfunc extra() string { return `plain` }\n",
		"tool/hello/patched.go":  "//go:build patched\n\npackage main\n\nfunc extra() string { return `patched` }\n",
		"tool/bye/main.go":       "package main\n\nfunc main() { println(`bye`) }\n",
	} {
		writeFile(t, filepath.Join(root, name), text)
	}
	stamp := []string{"main.version=${version}", "main.number=[${number}]", "main.minor=(${minor})", "main.commit="}
	return root, []build.Component{
		{Name: "wicd", Path: payload.WICD, Group: payload.Base, Module: ".", Package: "github.com/windows-machine-config/wmco/cmd/wicd"},
		{Name: "hello", Path: "bin/hello.exe", Group: payload.Base, Module: "payload/hello", Package: "example.com/tool/hello", Stamp: stamp},
		{Name: "bye", Path: "bye.exe", Group: payload.Flannel, Module: "payload/hello", Package: "example.com/tool/bye", Stamp: stamp},
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// options returns options for building components of the repository root into temporary folders of the test.
func options(t *testing.T, root string, components []build.Component) build.Options {
	return build.Options{Components: components, Root: root, Out: t.TempDir(), Cache: t.TempDir()}
}

// mustBuild returns the manifest and the log.
func mustBuild(t *testing.T, o build.Options) (payload.Manifest, string) {
	t.Helper()
	var log strings.Builder
	o.Log = &log
	m, err := build.Build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := payload.Open(o.Out); err != nil {
		t.Fatal(err)
	}
	return m, log.String()
}

func hashes(m payload.Manifest) map[string]string {
	byPath := map[string]string{}
	for _, f := range m.Files {
		byPath[f.Path] = f.SHA256
	}
	return byPath
}

func TestBuildWritesEveryComponent(t *testing.T) {
	root, components := repository(t)
	o := options(t, root, components)
	o.Version = "v0.1.0"
	m, _ := mustBuild(t, o)
	var got []string
	for _, f := range m.Files {
		got = append(got, strings.Join([]string{f.Path, f.Component, f.Version, f.Group}, " "))
	}
	want := []string{"bin/hello.exe hello v1.2.3 base", "bye.exe bye v1.2.3 flannel", payload.WICD + " wicd v0.1.0 base"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	p, err := payload.Open(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	content, err := p.Content(m.Files[0])
	if err != nil {
		t.Fatal(err)
	}
	hello := string(content)
	if !strings.HasPrefix(hello, "MZ") {
		t.Errorf("bin/hello.exe begins with %q, which is not a Windows program", hello[:2])
	}
	for _, stamped := range []string{"v1.2.3", "[1.2.3]", "(2)"} {
		if !strings.Contains(hello, stamped) {
			t.Errorf("bin/hello.exe does not contain %q", stamped)
		}
	}
	if strings.Contains(hello, root) {
		t.Error("bin/hello.exe contains the folder it was built in")
	}
	setup, err := p.Setup()
	if err != nil {
		t.Fatal(err)
	}
	defer setup.Close()
	if data, err := io.ReadAll(setup); err != nil || !bytes.Contains(data, []byte("wicd-setup")) {
		t.Errorf("wicd-setup is not the one of the repository (error %v)", err)
	}
}

func TestBuildIsReproducibleAcrossFolders(t *testing.T) {
	firstRoot, components := repository(t)
	secondRoot, _ := repository(t)
	first, second := options(t, firstRoot, components), options(t, secondRoot, components)
	mustBuild(t, first)
	mustBuild(t, second)
	if diff := cmp.Diff(tree(t, first.Out), tree(t, second.Out)); diff != "" {
		t.Errorf("payloads differ (-first +second):\n%s", diff)
	}
}

// TestRealComponentIsReproducible builds host-local in place of all components: it takes seconds where kubelet takes
// minutes.
func TestRealComponentIsReproducible(t *testing.T) {
	components, err := build.Named("host-local")
	if err != nil {
		t.Fatal(err)
	}
	var digests []string
	for range 2 {
		root := t.TempDir()
		for _, name := range []string{"go.mod", "payload/cni/go.mod", "payload/cni/go.sum"} {
			data, err := os.ReadFile(filepath.Join("..", "..", name))
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(root, name), string(data))
		}
		m, _ := mustBuild(t, options(t, root, components))
		digests = append(digests, m.Digest)
	}
	if digests[0] != digests[1] {
		t.Errorf("two builds have hashes %s and %s", digests[0], digests[1])
	}
}

func TestUnchangedComponentsAreNotRebuilt(t *testing.T) {
	root, components := repository(t)
	o := options(t, root, components[1:])
	before, _ := mustBuild(t, o)
	again := func(name string, wantRebuilt bool) {
		t.Helper()
		o.Out = t.TempDir()
		m, log := mustBuild(t, o)
		if rebuilt := strings.Contains(log, "hello, bye v1.2.3: building"); rebuilt != wantRebuilt {
			t.Errorf("%s: rebuilt is %t, want %t:\n%s", name, rebuilt, wantRebuilt, log)
		}
		if kept := strings.Contains(log, "hello v1.2.3 (1 of 2): kept"); kept == wantRebuilt {
			t.Errorf("%s: kept is %t:\n%s", name, kept, log)
		}
		if diff := cmp.Diff(hashes(before), hashes(m)); diff != "" {
			t.Errorf("%s: files changed (-before +after):\n%s", name, diff)
		}
	}
	again("nothing changed", false)
	writeFile(t, filepath.Join(root, "payload/hello/go.sum"), "\n")
	again("go.sum changed", true)
	again("nothing changed since", false)
	components[1].Stamp = append(components[1].Stamp, "main.none=1")
	components[2].Stamp = components[1].Stamp
	again("stamps changed", true)
}

func TestOwnProgramsAreRebuiltOnChange(t *testing.T) {
	root, components := repository(t)
	o := options(t, root, components)
	before, _ := mustBuild(t, o)
	writeFile(t, filepath.Join(root, "cmd/wicd/main.go"), "package main\n\nfunc main() { println(`the changed daemon`) }\n")
	after, _ := mustBuild(t, o)
	var changed []string
	for path, hash := range hashes(after) {
		if hashes(before)[path] != hash {
			changed = append(changed, path)
		}
	}
	if diff := cmp.Diff([]string{payload.WICD}, changed); diff != "" {
		t.Errorf("changed files (-want +got):\n%s", diff)
	}
	if before.Digest == after.Digest || before.Setup.SHA256 == after.Setup.SHA256 {
		t.Error("the digest or wicd-setup did not change with WICD")
	}
}

func TestBuildFlagsAreCachedSeparately(t *testing.T) {
	root, components := repository(t)
	o := options(t, root, components[1:2])
	plain, _ := mustBuild(t, o)
	var requested []string
	o.Flags = func(_ context.Context, moduleDir string) ([]string, error) {
		requested = append(requested, strings.TrimPrefix(moduleDir, root))
		return []string{"-tags=patched"}, nil
	}
	patched, _ := mustBuild(t, o)
	if plain.Files[0].SHA256 == patched.Files[0].SHA256 {
		t.Error("-tags=patched changed nothing")
	}
	if diff := cmp.Diff([]string{"/payload/hello"}, requested); diff != "" {
		t.Errorf("requested flags for modules (-want +got):\n%s", diff)
	}
	o.Flags = nil
	if again, log := mustBuild(t, o); again.Digest != plain.Digest || !strings.Contains(log, "hello v1.2.3 (1 of 1): kept") {
		t.Errorf("without flags again: digest %s, want %s:\n%s", again.Digest, plain.Digest, log)
	}
}

func TestBuildIgnoresUserGoSettings(t *testing.T) {
	root, components := repository(t)
	plain, _ := mustBuild(t, options(t, root, components[1:2]))
	for name, value := range map[string]string{"GOFLAGS": "-tags=patched", "GOOS": "plan9", "GOARCH": "arm64", "GOAMD64": "v3", "CGO_ENABLED": "1"} {
		t.Setenv(name, value)
	}
	again, _ := mustBuild(t, options(t, root, components[1:2]))
	if diff := cmp.Diff(plain, again); diff != "" {
		t.Errorf("manifest (-plain +with settings):\n%s", diff)
	}
}

func TestFailedBuildKeepsPreviousPayload(t *testing.T) {
	root, components := repository(t)
	o := options(t, root, components[:1])
	mustBuild(t, o)
	want := tree(t, o.Out)
	writeFile(t, filepath.Join(root, "cmd/wicd/main.go"), "package main\n\nfunc main() { undefinedName() }\n")
	_, err := build.Build(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "building wicd, wicd-setup: ") || !strings.Contains(err.Error(), "undefined: undefinedName") {
		t.Errorf("error is %v", err)
	}
	if diff := cmp.Diff(want, tree(t, o.Out)); diff != "" {
		t.Errorf("payload changed (-before +after):\n%s", diff)
	}
	if left, _ := filepath.Glob(filepath.Join(o.Cache, "programs", "scratch-*")); len(left) > 0 {
		t.Errorf("remaining in the cache: %v", left)
	}
}

func TestBuildStopsWhenCanceled(t *testing.T) {
	root, components := repository(t)
	ctx, cancel := context.WithCancel(t.Context())
	o := options(t, root, components)
	o.Flags = func(context.Context, string) ([]string, error) {
		cancel()
		return nil, nil
	}
	if _, err := build.Build(ctx, o); err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("error is %v, want context canceled", err)
	}
}

// TestProgramsReturnsThirdPartyPrograms: make vulncheck-payload scans them.
func TestProgramsReturnsThirdPartyPrograms(t *testing.T) {
	root, components := repository(t)
	o := options(t, root, components)
	paths, err := build.Programs(t.Context(), o)
	var names []string
	for _, path := range paths {
		program, read := os.ReadFile(path)
		if read != nil || !bytes.HasPrefix(program, []byte("MZ")) {
			t.Errorf("%s is not a Windows program (error %v)", path, read)
		}
		names = append(names, filepath.Base(path))
	}
	if diff := cmp.Diff([]string{"hello.exe", "bye.exe"}, names); err != nil || diff != "" {
		t.Errorf("programs, with error %v (-want +got):\n%s", err, diff)
	}
	if _, log := mustBuild(t, o); !strings.Contains(log, "hello v1.2.3 (1 of 4): kept") {
		t.Errorf("the payload build did not reuse the programs:\n%s", log)
	}
	if left, _ := filepath.Glob(filepath.Join(o.Cache, "programs", "scratch-*")); len(left) > 0 {
		t.Errorf("remaining in the cache: %v", left)
	}
}

func TestRootMustBeRepository(t *testing.T) {
	o := options(t, t.TempDir(), nil)
	if _, err := build.Build(t.Context(), o); err == nil || !strings.Contains(err.Error(), "is not the folder of the repository") {
		t.Errorf("error is %v", err)
	}
}

func TestCacheDropsOldEntries(t *testing.T) {
	root, components := repository(t)
	o := options(t, root, components[1:2])
	mustBuild(t, o)
	used := tree(t, o.Cache)
	for _, name := range []string{"programs/0123/kubelet.exe", "blobs/0123.zst"} {
		writeFile(t, filepath.Join(o.Cache, name), "")
	}
	for _, name := range append(slices.Collect(maps.Keys(used)), "programs/0123/kubelet.exe", "blobs/0123.zst") {
		setAge(t, filepath.Join(o.Cache, name))
		setAge(t, filepath.Dir(filepath.Join(o.Cache, name)))
	}
	mustBuild(t, o)
	if diff := cmp.Diff(used, tree(t, o.Cache)); diff != "" {
		t.Errorf("cache (-want +got):\n%s", diff)
	}
}

// setAge makes the file so old that the cache drops it.
func setAge(t *testing.T, name string) {
	t.Helper()
	old := time.Now().Add(-31 * 24 * time.Hour)
	if err := os.Chtimes(name, old, old); err != nil {
		t.Fatal(err)
	}
}
