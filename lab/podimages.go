//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
	"github.com/windows-machine-config/wmco/lab/image"
)

// Images that Lab's StartPodImages serves. Their registries are not reachable from the lab: hosts get them through the mirrors of
// ImageSources.
const (
	PauseImage     = "mcr.microsoft.com/oss/kubernetes/pause:3.9" // the default of spec.runtime.sandboxImage
	WebserverImage = "lab.test/win-webserver:1"
	// WebserverCtrlBreakImage is the same with the stop signal SIGHUP, which hcsshim sends as Ctrl-Break.
	WebserverCtrlBreakImage = "lab.test/win-webserver:ctrl-break"
	// AgnhostImage is Kubernetes' own test program; see AddAgnhost.
	AgnhostImage = "registry.k8s.io/e2e-test-images/agnhost:2.66.1"
)

// WebserverProgram is the program of WebserverImage; see the command windows/containers/webserver.
const WebserverProgram = `C:\webserver.exe`

// ImageSources returns the registries in the names of the images.
func ImageSources() []string { return []string{"mcr.microsoft.com", "registry.k8s.io", "lab.test"} }

func webserverProgram() program {
	return program{
		pkg: "windows/containers/webserver", about: "building the web server of pods", env: []string{"GOOS=windows", "GOARCH=amd64"}, image: true,
	}
}

// StartPodImages starts an open registry with the images of the lab's pods.
func (l *Lab) StartPodImages(ctx context.Context) (*Registry, error) {
	r, err := l.StartRegistry(ctx, RegistryOptions{Open: true})
	if err != nil {
		return nil, err
	}
	pause, err := l.cache.pause(ctx)
	if err != nil {
		return nil, err
	}
	webserver, err := l.cache.build(ctx, webserverProgram())
	if err != nil {
		return nil, err
	}
	return r, errors.Join(
		r.pushProgram(ctx, PauseImage, "", pause...),
		r.pushProgram(ctx, WebserverImage, "", webserver),
		r.pushProgram(ctx, WebserverCtrlBreakImage, "SIGHUP", webserver))
}

func agnhostProgram() program {
	return program{
		pkg: "k8s.io/kubernetes/test/images/agnhost", about: "building agnhost (some minutes the first time)",
		env: []string{"GOOS=windows", "GOARCH=amd64"}, image: true,
	}
}

// AddAgnhost adds AgnhostImage to a registry of StartPodImages, without the other programs of the upstream image, such as a
// shell.
func (l *Lab) AddAgnhost(ctx context.Context, r *Registry) error {
	agnhost, err := l.cache.build(ctx, agnhostProgram())
	if err != nil {
		return err
	}
	return r.pushProgram(ctx, AgnhostImage, "", agnhost)
}

// coreDNSImage is the cluster's DNS; cluster/coredns/deploy uses it.
const coreDNSImage = "lab.test/coredns:1"

func coreDNSProgram() program {
	const module = "github.com/windows-machine-config/wmco/lab/cluster/coredns"
	return program{pkg: module, module: "cluster/coredns", about: "building CoreDNS (a minute the first time)", sources: []string{"main.go"}}
}

// AddCoreDNS adds the image of the cluster's DNS to a registry, for a Linux node.
func (l *Lab) AddCoreDNS(ctx context.Context, r *Registry) error {
	repository, tag := inMirror(coreDNSImage)
	return l.pushLinux(ctx, coreDNSProgram(), r, repository, tag)
}

// AddPause adds a pause image to a registry, as an index with an entry for each platform. The name is that of its source.
func (l *Lab) AddPause(ctx context.Context, r *Registry, name string, platforms ...v1.Platform) error {
	pause, err := l.cache.pause(ctx)
	if err != nil {
		return err
	}
	i, err := imageOf(name, "", pause...)
	if err != nil {
		return err
	}
	repository, tag := inMirror(name)
	return r.PushIndex(ctx, repository, tag, i, platforms...)
}

// PushWebserver pushes the image of WebserverImage to another repository of a registry: as one image for a build of Windows, that of the lab's hosts if
// none is given, or as an index for several.
func (l *Lab) PushWebserver(ctx context.Context, r *Registry, repository, tag string, builds ...windowsbuild.Build) (image.Image, error) {
	content, err := l.cache.content(ctx, webserverProgram())
	if err != nil {
		return image.Image{}, err
	}
	var platforms []v1.Platform
	for _, b := range builds {
		platforms = append(platforms, v1.Platform{Architecture: "amd64", OS: "windows", OSVersion: fmt.Sprintf("%s.%d", b.Label(), Revision)})
	}
	if len(platforms) == 0 {
		platforms = append(platforms, HostPlatform())
	}
	i, err := image.NewProgram(platforms[0].OSVersion, WebserverProgram, "", map[string]string{"webserver.exe": content})
	if err != nil {
		return image.Image{}, fmt.Errorf("building image %s: %w", repository, err)
	}
	if len(platforms) == 1 {
		return i, r.Push(ctx, repository, tag, i)
	}
	return i, r.PushIndex(ctx, repository, tag, i, platforms...)
}

// HostPlatform returns the platform of the lab's hosts, for indexes of images.
func HostPlatform() v1.Platform {
	return v1.Platform{Architecture: "amd64", OS: "windows", OSVersion: hostVersion()}
}

func hostVersion() string { return fmt.Sprintf("10.0.%d.%d", Build, Revision) }

// inMirror returns the repository and tag of an image in a mirror.
func inMirror(name string) (repository, tag string) {
	_, repository, _ = strings.Cut(name, "/")
	repository, tag, _ = strings.Cut(repository, ":")
	return repository, tag
}

// pushAs pushes an image to the place of that name in a mirror.
func (r *Registry) pushAs(ctx context.Context, name string, i image.Image) error {
	repository, tag := inMirror(name)
	return r.Push(ctx, repository, tag, i)
}

// pushProgram builds an image of programs, of which the first is its entrypoint, and pushes it to its place in a mirror.
func (r *Registry) pushProgram(ctx context.Context, name, stopSignal string, programs ...string) error {
	i, err := imageOf(name, stopSignal, programs...)
	if err != nil {
		return err
	}
	return r.pushAs(ctx, name, i)
}

// imageOf builds an image of programs, of which the first is its entrypoint.
func imageOf(name, stopSignal string, programs ...string) (image.Image, error) {
	files := map[string]string{}
	for _, program := range programs {
		content, err := os.ReadFile(program)
		if err != nil {
			return image.Image{}, err
		}
		files[exe(program)] = string(content)
	}
	i, err := image.NewProgram(hostVersion(), `C:\`+exe(programs[0]), stopSignal, files)
	if err != nil {
		return image.Image{}, fmt.Errorf("building image %s: %w", name, err)
	}
	return i, nil
}

// exe returns the name of a program on Windows.
func exe(program string) string { return strings.TrimSuffix(filepath.Base(program), ".exe") + ".exe" }

func wincatProgram() program {
	return program{pkg: "windows/containers/wincat", about: "building the program that forwards ports", env: []string{"GOOS=windows", "GOARCH=amd64"}, image: true}
}

// pause builds the programs of the pause image: the first process of every pod, and the one that forwards ports.
func (c cache) pause(ctx context.Context) ([]string, error) {
	wincat, err := c.build(ctx, wincatProgram())
	if err != nil {
		return nil, err
	}
	const source = "windows/containers/pause.c"
	key, err := contentKey([]string{compiler}, c.module, []string{source})
	if err != nil {
		return nil, err
	}
	pause, err := c.get(ctx, item{name: "pause", about: "building the first process of pods", key: key, make: func(ctx context.Context, path string) error {
		return compile(ctx, compiler, "-O2", "-s", "-o", path, filepath.Join(c.module, source))
	}})
	return []string{pause, wincat}, err
}
