package cli

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"github.com/windows-machine-config/wmco/internal/operator/windowsimage"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/proxy"
	"github.com/windows-machine-config/wmco/internal/shared/registryclient"
)

// maxCredentials is the size of the largest credentials file that is read, in bytes.
const maxCredentials = 1 << 20

const insecureUsage = "Also query registries without TLS, or whose certificate cannot be verified."

// imageReader returns a reader that queries image registries as docker and podman on this machine do. allowed lists the registries that the user
// named: only these are queried even if their address is refused otherwise, such as a loopback address.
func imageReader(images []string, insecure bool, allowed []string) (*windowsimage.Reader, error) {
	credentials, err := registryCredentials()
	if err != nil {
		return nil, err
	}
	return imageReaderWith(credentials, mirrors.Table{Sources: unverified(images, insecure)}, allowed, windowsimage.NewMemory()), nil
}

// imageReaderWith returns a reader with these credentials, in the format of .dockerconfigjson.
func imageReaderWith(credentials []byte, table mirrors.Table, allowed []string, memory *windowsimage.Memory) *windowsimage.Reader {
	from := httpproxy.FromEnvironment()
	environment := map[string]string{proxy.HTTPProxy: from.HTTPProxy, proxy.HTTPSProxy: from.HTTPSProxy, proxy.NoProxy: from.NoProxy}
	guard := windowsimage.Guard{Lookup: net.DefaultResolver.LookupNetIP, Allowed: allowed, Proxies: proxy.Hosts(environment)}
	client := registryclient.New(registryclient.Options{Agent: "kubectl-windows", Keyring: credentials, Dial: guard.Dial(), Check: guard.Check, Proxy: environment})
	return windowsimage.New(client, table, memory)
}

// unverified returns the registries that may lack verified TLS: those on this machine, as with docker, or all.
func unverified(images []string, all bool) (sources []mirrors.Source) {
	for _, image := range images {
		registry := windowsimage.RegistryOf(image)
		host := registry
		if h, _, err := net.SplitHostPort(registry); err == nil {
			host = h
		}
		address, err := netip.ParseAddr(strings.Trim(host, "[]"))
		isLocal := host == "localhost" || err == nil && address.IsLoopback()
		isKnown := slices.ContainsFunc(sources, func(s mirrors.Source) bool { return s.Prefix == registry })
		if (isLocal || all) && !isKnown && registry != "" {
			sources = append(sources, mirrors.Source{Prefix: registry, Insecure: true})
		}
	}
	return sources
}

// registryCredentials returns the first existing credentials file of podman (containers-auth.json(5)) and docker.
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
