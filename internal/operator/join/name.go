package join

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/addresses"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// NodeName returns the name of the host's node: the lower-case hostname, on vSphere and Nutanix with the DNS suffix if there is one. On clouds whose
// provider finds machines by node name, it is the cloud's name for the machine; if that cannot be determined, it is the current name for a host that
// has joined, and empty otherwise.
func NodeName(f wicdapi.Facts) string {
	switch {
	case platform.Of(f.Platform).NamesNodes && f.CloudName == "" && f.Joined != nil:
		return f.Joined.Node
	case platform.Of(f.Platform).NamesNodes:
		return f.CloudName
	case platform.Of(f.Platform).NamesHosts && f.Host.Domain != "":
		return lower(f.Host.Hostname + "." + f.Host.Domain)
	}
	return lower(f.Host.Hostname)
}

// lower folds ASCII letters only, as DNS does. Other letters stay, and the name is rejected: strings.ToLower turns the Kelvin sign into "k" and the
// Turkish dotted I into "i", which could yield another host's name.
func lower(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, name)
}

// checkCloudName returns an error if the host has no cloud name although its node needs one. A retry may succeed: the metadata service may not be up yet, or
// may be overloaded.
func checkCloudName(f wicdapi.Facts) error {
	if !platform.Of(f.Platform).NamesNodes || NodeName(f) != "" {
		return nil
	}
	return fmt.Errorf("a node on %s is named after its machine in the cloud, and the host could not get that name: %s; "+
		"check the host's routes to %s and the metadata options of its cloud instance", f.Platform, f.NoCloudName, platform.MetadataAddress)
}

// checkNotServer rejects a name of the cluster's API server: the kubelet gets a certificate for its node's name.
func checkNotServer(f wicdapi.Facts, server string) error {
	u, err := url.Parse(server)
	if err != nil {
		return err
	}
	var cluster addresses.Cluster
	cluster.AddServer(u.Hostname())
	if !cluster.HasName(NodeName(f)) {
		return nil
	}
	return fmt.Errorf("the name %q is reserved by the cluster (its API server is %s); rename the host", reportedName(f), server)
}

// CheckRenamed rejects a name other than the one for which the instance's host got a token, until the user accepts the new name. Otherwise an
// attacker who controls the host could collect the identities of future nodes, one name after the other.
func CheckRenamed(i *v1alpha1.WindowsInstance, name string) *Unsupported {
	previous := i.Status.Hostname
	label, _, _ := strings.Cut(name, ".")
	previousLabel, _, _ := strings.Cut(previous, ".")
	isRequested := i.Spec.Hostname != "" && label == i.Spec.Hostname && label != previousLabel
	if !i.Status.HostnameFixed || name == previous || i.Annotations[api.AnnotationAcceptHostname] == name || isRequested {
		return nil
	}
	return unsupported(api.ReasonHostnameChanged,
		"the host joined as %q and is now named %q; restore its name, or drain node %q and annotate the WindowsInstance with %s=%s",
		previous, name, previous, api.AnnotationAcceptHostname, name)
}

func checkHostname(f wicdapi.Facts, _ CheckInput) *Unsupported {
	name := NodeName(f)
	if (addresses.Cluster{}).HasName(name) { // with certificates for such a name, a host could impersonate the cluster
		return unsupported(api.ReasonHostnameInvalid,
			"the host's name %q has a fixed meaning in every cluster and must not be in certificates of nodes; rename the host", reportedName(f))
	}
	if name == lower(f.Host.Hostname) {
		return checkLabel(f)
	}
	if len(name) <= platform.MaxNodeName && len(validation.IsDNS1123Subdomain(name)) == 0 {
		return nil
	}
	return unsupported(api.ReasonHostnameInvalid,
		"the name that %s has for the host, %q, cannot name a node: it must be a DNS name (RFC 1123 labels separated by dots) of at most %d characters; "+
			"change it there", f.Platform, name, platform.MaxNodeName)
}

// checkNamePattern requires a name that the administrator allows: a compromised host may take the name of a machine that joins later.
func checkNamePattern(f wicdapi.Facts, s CheckInput) *Unsupported {
	if s.NamePattern == "" {
		return nil
	}
	const field = `spec.hosts.namePattern of WindowsConfig "cluster"`
	if _, err := regexp.Compile(s.NamePattern); err != nil {
		return unsupported(api.ReasonHostnameInvalid, "%s is %q, which is not an RE2 regular expression (%v); correct or remove it", field, s.NamePattern, err)
	}
	if regexp.MustCompile(`^(?:` + s.NamePattern + `)$`).MatchString(NodeName(f)) {
		return nil
	}
	return unsupported(api.ReasonHostnameInvalid, "node name %q does not match %s, which allows %q; rename the host, or change the pattern",
		NodeName(f), field, s.NamePattern)
}

func checkLabel(f wicdapi.Facts) *Unsupported {
	if len(validation.IsDNS1123Label(NodeName(f))) == 0 {
		return nil
	}
	return unsupported(api.ReasonHostnameInvalid,
		"the host's name %q cannot name a node: in lower case it must be an RFC 1123 label "+
			"(a-z, 0-9 and '-', at most 63 characters, a letter or digit at both ends); rename the host", f.Host.Hostname)
}

// reportedName returns the name as the host or its cloud reports it.
func reportedName(f wicdapi.Facts) string {
	if name := NodeName(f); name != lower(f.Host.Hostname) {
		return name
	}
	return f.Host.Hostname
}
