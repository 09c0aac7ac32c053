package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/mirrors"
	"github.com/windows-machine-config/wmco/internal/podrules"
	"github.com/windows-machine-config/wmco/internal/proxy"
	"github.com/windows-machine-config/wmco/internal/registryclient"
	"github.com/windows-machine-config/wmco/internal/windowsbuild"
	"github.com/windows-machine-config/wmco/internal/windowsimage"
)

// Limits of reading images.
const (
	maxImages       = 1000
	imagesAtOnce    = 4
	maxCredentials  = 1 << 20
	registryTimeout = 5 * time.Second
)

// imageBuilds is what registries say of images, or why they say nothing.
type imageBuilds struct {
	builds map[string]windowsbuild.Image
	unread map[string]error
}

// readImages asks the registries for all images of pods, each image once.
func readImages(ctx context.Context, s *session.Session, pods []lintPod) (imageBuilds, error) {
	var all []string
	for _, p := range pods {
		_, images := podrules.Images(p.spec)
		for _, image := range images {
			if !slices.Contains(all, image) {
				all = append(all, image)
			}
		}
	}
	if len(all) > maxImages {
		return imageBuilds{}, session.Failf(session.CodeUsage, "the manifests name %d images; at most %d are read", len(all), maxImages)
	}
	credentials, err := registryCredentials()
	if err != nil {
		return imageBuilds{}, session.Failf(session.CodeUsage, "%w", err)
	}
	if len(all) > 0 {
		fmt.Fprintf(s.ErrOut, "Asking registries for %d images\n", len(all))
	}
	dialer := net.Dialer{Timeout: registryTimeout}
	client := registryclient.New(registryclient.Options{Agent: "kubectl-windows", Keyring: credentials, Proxy: proxyVariables(), Dial: dialer.DialContext})
	reader := windowsimage.New(client, mirrors.Table{Sources: localSources(all)})
	defer reader.Close()
	found := imageBuilds{builds: map[string]windowsbuild.Image{}, unread: map[string]error{}}
	var lock sync.Mutex
	var work sync.WaitGroup
	slots := make(chan struct{}, imagesAtOnce)
	for _, image := range all {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			is, err := reader.Read(ctx, image)
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				found.unread[image] = err
				return
			}
			found.builds[image] = is
		})
	}
	work.Wait()
	return found, ctx.Err()
}

// check finds images that do not run where a pod asks to be, and those that could not be read.
func (b imageBuilds) check(spec map[string]any) []podrules.Finding {
	found := podrules.CheckImages(spec, b.builds)
	fields, images := podrules.Images(spec)
	for _, field := range fields {
		if err := b.unread[images[field]]; err != nil {
			found = append(found, podrules.Finding{
				Severity: podrules.Warning, Field: field, Message: fmt.Sprintf("Image %s could not be read: %v.", images[field], err),
				Remedy: "Compare the name of the image, and log in to its registry with docker login or podman login.",
			})
		}
	}
	return found
}

// localSources are the registries of this machine, which may be without TLS, as docker has it.
func localSources(images []string) (sources []mirrors.Source) {
	for _, image := range images {
		registry := windowsimage.RegistryOf(image)
		host := registry
		if h, _, err := net.SplitHostPort(registry); err == nil {
			host = h
		}
		address, err := netip.ParseAddr(strings.Trim(host, "[]"))
		isLocal := host == "localhost" || err == nil && address.IsLoopback()
		isKnown := slices.ContainsFunc(sources, func(s mirrors.Source) bool { return s.Prefix == registry })
		if isLocal && !isKnown {
			sources = append(sources, mirrors.Source{Prefix: registry, Insecure: true})
		}
	}
	return sources
}

// registryCredentials is the first file of those that podman (containers-auth.json(5)) and docker keep.
func registryCredentials() ([]byte, error) {
	var files []string
	if file := os.Getenv("REGISTRY_AUTH_FILE"); file != "" {
		files = append(files, file)
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		files = append(files, filepath.Join(dir, "containers", "auth.json"))
	}
	if dir := os.Getenv("DOCKER_CONFIG"); dir != "" {
		files = append(files, filepath.Join(dir, "config.json"))
	} else if home, err := os.UserHomeDir(); err == nil {
		files = append(files, filepath.Join(home, ".docker", "config.json"))
	}
	for _, name := range files {
		f, err := os.Open(name)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the credentials of registries: %w", err)
		}
		defer f.Close()
		return io.ReadAll(io.LimitReader(f, maxCredentials))
	}
	return nil, nil
}

// proxyVariables are those of this program, in either spelling.
func proxyVariables() map[string]string {
	found := map[string]string{}
	for _, name := range []string{proxy.HTTPProxy, proxy.HTTPSProxy, proxy.NoProxy} {
		if found[name] = os.Getenv(name); found[name] == "" {
			found[name] = os.Getenv(strings.ToLower(name))
		}
	}
	return found
}
