// Package mirrors says, purely, from where a Windows node pulls an image: what a cluster says of mirrors and registries
// becomes a Table, which WICD asks with a Router for each request of containerd, and the hosts.toml files that send
// containerd to WICD. It also renders the kubelet's config.json (1.36).
//
// The rules are those of Linux nodes: containers-registries.conf(5) and containers-auth.json(5) of containers/image, and
// how OpenShift writes the first of them from its objects (openshift/runtime-utils, pkg/registries). For each image one
// Source is chosen, that with the longest prefix. Its mirrors for the kind of reference, a digest or a tag, are tried in
// order, each with what stands behind the prefix. The source comes last, unless it is blocked.
//
// What is said here of containerd is from core/remotes/docker of its source, and is tried with containerd's own
// code in payload/containerd.
package mirrors

import (
	"cmp"
	"fmt"
	"slices"
)

// Folder is where containerd looks for registries on the host; each has a folder in it.
const Folder = `C:\k\containerd\registries`

// KubeletConfig is where the kubelet looks for pull credentials: config.json in its root directory, of which this is the
// default. The kubelet keeps what it read for five minutes (pkg/credentialprovider/provider.go).
const KubeletConfig = `C:\var\lib\kubelet\config.json`

// Policy says whether the source is contacted when no mirror has the image. Its values are those of OpenShift's
// mirrorSourcePolicy; empty means AllowContactingSource.
type Policy string

// The values of Policy.
const (
	AllowContactingSource Policy = "AllowContactingSource"
	NeverContactSource    Policy = "NeverContactSource"
)

// Kind is a kind of reference to an image.
type Kind string

// The kinds. Where mirrors are for a kind of reference, the empty one is both.
const (
	Digests Kind = "Digest"
	Tags    Kind = "Tag"
)

// Input is what the cluster says.
type Input struct {
	// Sets in any order; they are taken in the order of kind, name and field.
	Sets []Set
	// Access may be empty.
	Access []Access
	// ReleaseImage is the image of OpenShift's own release, which cannot be blocked; empty elsewhere.
	ReleaseImage string
	PullSecret   PullSecret
}

// Set is one object with mirrors: an ImageDigestMirrorSet, an ImageTagMirrorSet, or WindowsConfig.
type Set struct {
	// Kind and Name of the object, and the Field of it that holds the entries, as in spec.imageDigestMirrors or spec.registries.mirrors.
	Kind, Name, Field string
	Entries           []Entry
}

// Entry is one source and its mirrors.
type Entry struct {
	// Source is a registry, a repository, or the subdomains of a domain: mcr.microsoft.com, quay.io/team, *.example.com.
	// https:// and docker:// before it are ignored.
	Source string
	// Mirrors in the order in which they are tried.
	Mirrors []Mirror
	Policy  Policy
	// For says for which references the mirrors are; empty means all.
	For Kind
}

// Mirror is one place that has copies of the source's images.
type Mirror struct {
	// Location is a registry or a repository, written like Entry.Source. It takes the place of the source in the name of
	// the image.
	Location string
	// Insecure lets the mirror be contacted without a valid certificate, or without TLS. Insecure and CA, the PEM of
	// certificates to trust for this mirror besides those of the host, come from WindowsConfig only: OpenShift's kinds have
	// no place for them.
	Insecure bool
	CA       string
}

// Access is what one field of an object says of registries. Each scope is written like Entry.Source.
type Access struct {
	// Kind and Name of the object, and its Field.
	Kind, Name, Field string
	Rule              Rule
	Scopes            []string
}

// Rule is what holds for registries that a field names.
type Rule string

// The rules. They are named after the lists of registrySources in OpenShift's images.config.
const (
	// Allowed: no image of another scope is pulled, once there is one such scope.
	Allowed Rule = "Allowed"
	// Blocked: they are contacted neither as sources nor as mirrors. Their images come from their mirrors.
	Blocked Rule = "Blocked"
	// Rejected: they are blocked, and no image of their names is pulled, from mirrors either. OpenShift writes what it blocks into policy.json
	// of Linux nodes, too, which goes by the name of the image.
	Rejected Rule = "Rejected"
	// Insecure: they are contacted without a valid certificate, or without TLS.
	Insecure Rule = "Insecure"
)

// PullSecret is the cluster's secret of type kubernetes.io/dockerconfigjson.
type PullSecret struct {
	// Name for messages, as in openshift-config/pull-secret; empty when the cluster has no pull secret.
	Name string
	// DockerConfigJSON is the value of key .dockerconfigjson.
	DockerConfigJSON []byte
}

// Output is what a node gets. Everything is sorted: the same input gives the same bytes.
type Output struct {
	// Table is nil when images are pulled as if nothing had been said.
	Table *Table
	// KubeletConfig is the file of that name; it holds credentials. Empty when there is no pull secret.
	KubeletConfig string
	Problems      []Problem
}

// Problem is something that the node cannot be given as it was asked for. It holds no secret.
type Problem struct {
	// Kind and Name of the object, and its Field.
	Kind, Name, Field string
	// Reason is one of the constants below.
	Reason string
	// Message says what is wrong, what follows, and what to do.
	Message string
}

// Reasons of problems, stable.
const (
	// InvalidSource: nothing is mirrored for the source.
	InvalidSource = "InvalidSource"
	// InvalidPolicy: the policy is taken as NeverContactSource.
	InvalidPolicy = "InvalidPolicy"
	// InvalidMirror: this one mirror is left out.
	InvalidMirror = "InvalidMirror"
	// NoMirrors: the entry has no effect.
	NoMirrors = "NoMirrors"
	// RegistryClosed: no image of the source can be pulled.
	RegistryClosed = "RegistryClosed"
	// InvalidScope: the scope is left out.
	InvalidScope = "InvalidScope"
	// InvalidPullSecret: what cannot be read of the pull secret is left out.
	InvalidPullSecret = "InvalidPullSecret"
)

// Render says what every Windows node of the cluster gets. It never fails: what cannot be used is left out and
// reported, and harms nothing else.
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

// place is where in the cluster something was said.
type place struct{ kind, name, field string }

// in is a field below the place.
func (p place) in(field string) place {
	p.field += field
	return p
}

// String names the object and the field, within the bounds of a table.
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
