// Package mirrors determines where a Windows node pulls an image from: the cluster's mirrors and registries become a Table, which WICD uses
// through a Router for each request of containerd, and the hosts.toml files that direct containerd to WICD. It also renders the kubelet's
// config.json (1.36). The package has no I/O.
//
// The rules are those of Linux nodes: containers-registries.conf(5) and containers-auth.json(5) of containers/image, and the way OpenShift
// writes the former from its objects (openshift/runtime-utils, pkg/registries). For each image, the Source with the longest prefix is
// chosen. Its mirrors for the kind of reference, a digest or a tag, are tried in order, each with the rest of the name after the prefix.
// The source comes last, unless it is blocked.
//
// Statements about containerd refer to core/remotes/docker of its source, and are tested with containerd's own code in payload/containerd.
package mirrors

import (
	"cmp"
	"fmt"
	"slices"
)

// Folder is where containerd looks for registries on the host; each has its own folder in it.
const Folder = `C:\k\containerd\registries`

// KubeletConfig is where the kubelet looks for pull credentials: config.json in its root directory, here the default one. The kubelet
// caches it for five minutes (pkg/credentialprovider/provider.go).
const KubeletConfig = `C:\var\lib\kubelet\config.json`

// Policy determines whether the source may be contacted if no mirror has the image. Its values are those of OpenShift's mirrorSourcePolicy; empty
// means AllowContactingSource.
type Policy string

// Values of Policy.
const (
	AllowContactingSource Policy = "AllowContactingSource"
	NeverContactSource    Policy = "NeverContactSource"
)

// Kind is a kind of reference to an image.
type Kind string

// Values of Kind. For mirrors, empty means both.
const (
	Digests Kind = "Digest"
	Tags    Kind = "Tag"
)

// Input is the cluster's configuration.
type Input struct {
	// Sets in any order; they are processed in the order of kind, name and field.
	Sets []Set
	// Access may be empty.
	Access []Access
	// ReleaseImage is OpenShift's release image, which cannot be blocked; empty on other clusters.
	ReleaseImage string
	PullSecret   PullSecret
}

// Set is one object with mirrors: an ImageDigestMirrorSet, an ImageTagMirrorSet, or WindowsConfig.
type Set struct {
	// Kind and Name of the object, and its Field that holds the entries, such as spec.imageDigestMirrors or spec.registries.mirrors.
	Kind, Name, Field string
	Entries           []Entry
}

// Entry is one source and its mirrors.
type Entry struct {
	// Source is a registry, a repository, or the subdomains of a domain: mcr.microsoft.com, quay.io/team, *.example.com.
	// A leading https:// or docker:// is ignored.
	Source string
	// Mirrors in the order in which they are tried.
	Mirrors []Mirror
	Policy  Policy
	// For is the kind of references that the mirrors serve; empty means all.
	For Kind
}

// Mirror is one registry or repository that has copies of the source's images.
type Mirror struct {
	// Location is a registry or a repository, written like Entry.Source. It replaces the source in the name of the image.
	Location string
	// Insecure allows contacting the mirror without a valid certificate, or without TLS. Insecure and CA, the PEM of certificates to trust for
	// this mirror in addition to those of the host, come only from WindowsConfig: OpenShift's kinds have no such fields.
	Insecure bool
	CA       string
}

// Access is a rule for registries from one field of an object. Each scope is written like Entry.Source.
type Access struct {
	// Kind and Name of the object, and its Field.
	Kind, Name, Field string
	Rule              Rule
	Scopes            []string
}

// Rule applies to the registries that a field names.
type Rule string

// Values of Rule, named after the lists of registrySources in OpenShift's images.config.
const (
	// Allowed: if there is such a scope, no image of any other scope is pulled.
	Allowed Rule = "Allowed"
	// Blocked: the registries are contacted neither as sources nor as mirrors. Their images come from their mirrors.
	Blocked Rule = "Blocked"
	// Rejected: the registries are blocked, and no image of their names is pulled from mirrors, either. OpenShift also writes blocked
	// registries into policy.json of Linux nodes, which applies to the image's name.
	Rejected Rule = "Rejected"
	// Insecure: the registries are contacted without a valid certificate, or without TLS.
	Insecure Rule = "Insecure"
)

// PullSecret is the cluster's secret of type kubernetes.io/dockerconfigjson.
type PullSecret struct {
	// Name for messages, such as openshift-config/pull-secret; empty if the cluster has no pull secret.
	Name string
	// DockerConfigJSON is the value of key .dockerconfigjson.
	DockerConfigJSON []byte
}

// Output is what a node gets. Everything is sorted: the same input always gives the same bytes.
type Output struct {
	// Table is nil if nothing is configured.
	Table *Table
	// KubeletConfig is the content of that file, with credentials; empty if there is no pull secret.
	KubeletConfig string
	Problems      []Problem
}

// Problem is a part of the configuration that the node cannot get as configured. It contains no secrets.
type Problem struct {
	// Kind and Name of the object, and its Field.
	Kind, Name, Field string
	// Reason is one of the constants below.
	Reason string
	// Message names the fault, its effect, and the remedy.
	Message string
}

// Stable reasons of problems.
const (
	// InvalidSource: the source has no mirrors.
	InvalidSource = "InvalidSource"
	// InvalidPolicy: the policy is treated as NeverContactSource.
	InvalidPolicy = "InvalidPolicy"
	// InvalidMirror: this mirror is left out.
	InvalidMirror = "InvalidMirror"
	// NoMirrors: the entry has no effect.
	NoMirrors = "NoMirrors"
	// RegistryClosed: no image of the source can be pulled.
	RegistryClosed = "RegistryClosed"
	// InvalidScope: the scope is left out.
	InvalidScope = "InvalidScope"
	// InvalidPullSecret: invalid parts of the pull secret are left out.
	InvalidPullSecret = "InvalidPullSecret"
)

// Render returns what every Windows node of the cluster gets. It never fails: unusable parts are left out and reported, without effect on
// others.
func Render(in Input) Output {
	var r report
	out := Output{KubeletConfig: r.readPullSecret(in.PullSecret)}
	b := newBuilder()
	sets := slices.SortedStableFunc(slices.Values(in.Sets), func(a, b Set) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Field, b.Field))
	})
	for _, s := range sets {
		for i, e := range s.Entries {
			at := place{kind: s.Kind, name: s.Name, field: fmt.Sprintf("%s[%d]", s.Field, i)}
			if read, ok := r.readEntry(at, e); ok {
				b.add(read)
			}
		}
	}
	for _, a := range in.Access {
		if len(a.Scopes) == 0 {
			continue
		}
		at, scopes := place{a.Kind, a.Name, a.Field}, r.readScopes(a)
		if a.Rule == Rejected {
			scopes = b.exceptRelease(&r, at, scopes, in.ReleaseImage)
		}
		b.restrict(a.Rule, scopes, at.String())
	}
	if t := b.table(); !t.isEmpty() {
		out.Table = &t
	}
	out.Problems = r.sorted()
	return out
}

// place is where something is configured in the cluster.
type place struct{ kind, name, field string }

// in returns a field below the place.
func (p place) in(field string) place {
	p.field += field
	return p
}

// String names the object and the field, within the bounds of a Table.
func (p place) String() string {
	const most = 400
	text := fmt.Sprintf("%s %s, %s", p.kind, p.name, p.field)
	return text[:min(len(text), most)]
}

// report collects problems.
type report struct{ problems []Problem }

func (r *report) add(at place, reason, format string, args ...any) {
	r.problems = append(r.problems, Problem{
		Kind: at.kind, Name: at.name, Field: at.field, Reason: reason, Message: fmt.Sprintf(format, args...),
	})
}

func (r *report) sorted() []Problem {
	slices.SortFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Field, b.Field),
			cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(r.problems)
}
