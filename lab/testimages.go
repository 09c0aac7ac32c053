//go:build linux

package lab

import (
	"context"
	"fmt"
	"io"
	"maps"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/windows-machine-config/wmco/internal/testing/controlplane"
	"github.com/windows-machine-config/wmco/lab/image"
)

func toolsProgram() program {
	const module = "github.com/windows-machine-config/wmco/lab/tools"
	return program{
		pkg: module, module: "tools", about: "building the programs of test images", env: []string{"GOOS=windows", "GOARCH=amd64"}, image: true,
		sources: []string{"dns.go", "http.go", "lines.go", "list.go", "main.go", "system.go", "text.go"},
	}
}

// upstreamProgram returns e2e.test, Kubernetes' own tests, of the control plane's version.
func upstreamProgram() program {
	return program{
		pkg: "k8s.io/kubernetes/test/e2e", module: "suites/upstream", about: "building Kubernetes' own tests (some minutes the first time)",
		tests: true, stamp: "k8s.io/kubernetes",
	}
}

// UpstreamTests returns the path of e2e.test. It builds the program unless it is in the cache.
func UpstreamTests(ctx context.Context, progress io.Writer) (string, error) {
	return build(ctx, progress, upstreamProgram())
}

// PrepareTests builds Kubernetes' own tests, the programs of their images and the DNS that they need, unless they are in the cache.
func PrepareTests(ctx context.Context, progress io.Writer) error {
	c, err := openCache(ctx, progress)
	if err != nil {
		return err
	}
	return c.prepare(ctx, upstreamProgram(), agnhostProgram(), toolsProgram(), coreDNSProgram())
}

// toolNames returns the names under which images have the shell and its programs. The shell has more programs, as builtins.
func toolNames() []string {
	return []string{
		"awk", "cat", "curl", "date", "dig", "echo", "env", "false", "grep", "head", "hexdump", "hostname", "id", "ls", "mkdir", "mv", "nc", "nslookup", "printenv",
		"rm", "seq", "sh", "sleep", "stat", "sync", "tail", "test", "timeout", "touch", "true", "wc", "wget", "whoami",
	}
}

// testImage is an image of Kubernetes' tests (its test/utils/image/manifest.go).
type testImage struct {
	names   []string // in a registry of ImageSources
	config  v1.ImageConfig
	agnhost bool
	files   map[string]string
}

const (
	testRegistry = "registry.k8s.io/e2e-test-images/"
	admin        = "ContainerAdministrator"
)

// testImages returns the images that tests for Windows run. Each has the shell and its programs.
func testImages() []testImage {
	command := []string{"cmd.exe", "/s", "/c"}
	server := []string{"/agnhost", "test-webserver"}
	return []testImage{
		{names: []string{AgnhostImage, testRegistry + "agnhost:2.55"}, config: v1.ImageConfig{Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}, User: admin}, agnhost: true},
		{names: []string{testRegistry + "glibc-dns-testing:2.1.1"}, config: v1.ImageConfig{Entrypoint: []string{"cmd.exe"}, User: admin}},
		{names: []string{testRegistry + "busybox:1.37.0-2"}, config: v1.ImageConfig{Entrypoint: command, User: admin}},
		{names: []string{testRegistry + "nonroot:1.5"}, config: v1.ImageConfig{Entrypoint: command, User: "ContainerUser"}},
		{names: []string{testRegistry + "nginx:1.27.0-2", testRegistry + "nginx:1.28.0-2"}, config: v1.ImageConfig{Entrypoint: server, User: admin}, agnhost: true},
		{names: []string{testRegistry + "nautilus:1.8"}, config: v1.ImageConfig{Entrypoint: server, User: admin}, agnhost: true, files: map[string]string{"data.json": `{"image": "nautilus.jpg"}`}},
	}
}

// AddTestImages adds the images of Kubernetes' tests to a registry of StartPodImages.
func (l *Lab) AddTestImages(ctx context.Context, r *Registry) error {
	programs := map[string]string{}
	serving, err := l.ServingCertificate("localhost")
	if err != nil {
		return err
	}
	for name, p := range map[string]program{"agnhost": agnhostProgram(), "tools": toolsProgram()} {
		if programs[name], err = l.cache.content(ctx, p); err != nil {
			return err
		}
	}
	for _, i := range testImages() {
		if err := r.pushTestImage(ctx, i, programs, serving); err != nil {
			return err
		}
	}
	pause, err := l.cache.pause(ctx)
	if err != nil {
		return err
	}
	return r.pushProgram(ctx, "registry.k8s.io/pause:3.10.2", "", pause...)
}

func (r *Registry) pushTestImage(ctx context.Context, i testImage, programs map[string]string, serving controlplane.Pair) error {
	files := map[string]string{"tmp/.keep": "", "uploads/.keep": "", "bin/tools.exe": programs["tools"]}
	maps.Copy(files, i.files)
	for _, name := range toolNames() {
		files["bin/"+name+".exe"] = programs["tools"]
	}
	if i.agnhost {
		files["agnhost.exe"], files["agnhost-2.exe"] = programs["agnhost"], programs["agnhost"]
		files["localhost.crt"], files["localhost.key"] = string(serving.Cert), string(serving.Key)
	}
	i.config.WorkingDir, i.config.Env = `C:\`, []string{`PATH=C:\bin;C:\Windows\System32;C:\Windows`}
	built, err := image.NewWindows(hostVersion(), i.config, files)
	if err != nil {
		return fmt.Errorf("building image %s: %w", i.names[0], err)
	}
	for _, name := range i.names {
		if err := r.pushAs(ctx, name, built); err != nil {
			return err
		}
	}
	return nil
}
