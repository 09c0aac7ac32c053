package desired

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/proxy"
	"github.com/windows-machine-config/wmco/internal/shared/tlsprofile"
	"github.com/windows-machine-config/wmco/internal/shared/trust"
)

// Settings apply to all nodes and are read from objects of the cluster, or from WindowsConfig if there are none: proxy,
// trusted certificates, and mirrors and credentials of registries.
type Settings struct {
	// Proxy as configured.
	Proxy proxy.Config
	// Networks are the ranges of pods and machines, if known. Nodes reach them without proxy.
	Networks []string
	// Bundles are the configured trusted certificates.
	Bundles []trust.Bundle
	// Registries are the configured mirrors and credentials.
	Registries mirrors.Input
	// TLS is what the servers on nodes offer; nil if the cluster has no TLS security profile.
	TLS *tlsprofile.Server
	// Now is the time for checking whether certificates have expired.
	Now time.Time
}

// Problem is a part of the settings that is invalid or does not work as configured. Nodes get the rest.
type Problem struct {
	// Kind and Name of the object that contains the part.
	Kind, Name string
	// Reason is stable. Message names the field and the remedy.
	Reason, Message string
}

// ReasonCertificate is the reason of problems with certificates. Those with registries are in package mirrors.
const ReasonCertificate = "Certificate"

// applied is the result of applySettings.
type applied struct {
	environment  map[string]string
	certificates string
	registries   *mirrors.Table
	secrets      Secrets
	problems     []Problem
}

// applySettings renders the settings. A fault in one part becomes a Problem. If no result is certain to be right, it
// returns an error, and nodes keep what they have.
func applySettings(in Inputs) (applied, error) {
	var a applied
	if err := a.useProxy(in); err != nil {
		return applied{}, err
	}
	a.trust(in.Settings)
	a.useRegistries(in.Settings.Registries)
	return a, nil
}

func (a *applied) useProxy(in Inputs) error {
	server, err := url.Parse(in.Cluster.Server)
	if err != nil {
		return fmt.Errorf("the API server's address is %q: %w", in.Cluster.Server, err)
	}
	inside := proxy.Inside{
		Networks:  slices.Concat(in.Cluster.ServiceCIDRs, in.Settings.Networks),
		APIServer: server.Hostname(), Domain: in.Cluster.Domain,
	}
	plain, secret, err := proxy.Render(in.Settings.Proxy, inside)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSettings, err)
	}
	if value := plain[proxy.NoProxy]; value != "" {
		plain[proxy.NoProxy] = value + "," + markNodeIP // each node knows only its own address
	}
	a.environment, a.secrets.Environment = plain, secret
	return nil
}

func (a *applied) trust(s Settings) {
	list := trust.Collect(s.Now, s.Bundles...)
	a.certificates = trust.Encode(list.Certificates)
	for _, p := range append(list.Problems, list.Notices...) {
		kind, name, _ := strings.Cut(p.Bundle, " ")
		name, _, _ = strings.Cut(name, ",")
		a.problems = append(a.problems, Problem{Kind: kind, Name: name, Reason: ReasonCertificate, Message: p.String()})
	}
}

// PullSecret returns the .dockerconfigjson with which the host pulls images, filled in by On; nil if there is none.
func (n Node) PullSecret() []byte {
	i := slices.IndexFunc(n.Files, func(f File) bool { return f.Path == mirrors.KubeletConfig })
	if i < 0 {
		return nil
	}
	return []byte(n.Files[i].Content)
}

func (a *applied) useRegistries(in mirrors.Input) {
	out := mirrors.Render(in)
	a.registries = out.Table
	if out.KubeletConfig != "" {
		a.secrets.Files = append(a.secrets.Files, File{Path: mirrors.KubeletConfig, Content: out.KubeletConfig})
	}
	for _, p := range out.Problems {
		message := fmt.Sprintf("%s %s, %s: %s", p.Kind, p.Name, p.Field, p.Message)
		a.problems = append(a.problems, Problem{Kind: p.Kind, Name: p.Name, Reason: p.Reason, Message: message})
	}
}

// RegistryAccess is how nodes reach registries.
type RegistryAccess struct {
	// Mirrors is nil if no mirrors are configured.
	Mirrors *mirrors.Table
	// PullSecret is the .dockerconfigjson of the cluster; nil if there is none.
	PullSecret []byte
	// Proxy are environment variables; they may contain a password.
	Proxy map[string]string
	// Certificates are trusted in addition to those of the host, as PEM.
	Certificates string
}

// AccessOf returns how nodes with these settings reach registries, for callers that query registries the way nodes will.
func AccessOf(c Cluster, s Settings) (RegistryAccess, error) {
	a, err := applySettings(Inputs{Cluster: c, Settings: s})
	if err != nil {
		return RegistryAccess{}, err
	}
	access := RegistryAccess{Mirrors: a.registries, Proxy: map[string]string{}, Certificates: a.certificates}
	maps.Copy(access.Proxy, a.environment)
	maps.Copy(access.Proxy, a.secrets.Environment)
	for _, f := range a.secrets.Files {
		if f.Path == mirrors.KubeletConfig {
			access.PullSecret = []byte(f.Content)
		}
	}
	return access, nil
}
