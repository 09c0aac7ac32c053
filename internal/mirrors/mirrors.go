// Package mirrors turns, purely, what a cluster says of registry mirrors and pull credentials into what a Windows node
// reads: a hosts.toml for each mirrored registry (containerd 2.4.2) and the kubelet's config.json (1.36).
//
// A mirror set names repositories, containerd knows registries only: one list of mirrors for all images of a registry,
// in which each mirror gets the whole path of the image below a prefix. What that cannot express is a Problem and is not
// guessed. In doubt a source that says NeverContactSource stays uncontacted, and any other is pulled from directly.
//
// What is said here of containerd is from core/remotes/docker of its source, and is tried with containerd's own code on
// the golden files of this package in payload/containerd.
package mirrors

import (
	"cmp"
	"fmt"
	"maps"
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

// Input is what the cluster says.
type Input struct {
	// Sets in any order; they are taken in the order of kind, name and field.
	Sets       []Set
	PullSecret PullSecret
}

// Set is one object with mirrors: an ImageDigestMirrorSet, an ImageTagMirrorSet, or WindowsConfig.
type Set struct {
	// Kind and Name of the object, and the Field of it that holds the entries, as in spec.imageDigestMirrors or spec.registries.mirrors.
	Kind, Name, Field string
	Entries           []Entry
}

// Entry is one source and its mirrors.
type Entry struct {
	// Source is a registry or a repository: mcr.microsoft.com, quay.io/team. https:// and docker:// before it are ignored.
	Source string
	// Mirrors in the order in which they are tried.
	Mirrors []Mirror
	Policy  Policy
	// Tags says that mirrors are asked for tags too, and are trusted to say which image a tag means. Without it they
	// are asked for digests only.
	Tags bool
}

// Mirror is one place that has copies of the source's images.
type Mirror struct {
	// Location is a registry or a repository, written like Entry.Source. Its path must end with the path of the source.
	Location string
	// PlainHTTP and CA, the PEM of certificates to trust for this mirror besides those of the host, come from
	// WindowsConfig only: OpenShift's kinds have no place for them.
	PlainHTTP bool
	CA        string
}

// PullSecret is the cluster's secret of type kubernetes.io/dockerconfigjson.
type PullSecret struct {
	// Name for messages, as in openshift-config/pull-secret; empty when the cluster has no pull secret.
	Name string
	// DockerConfigJSON is the value of key .dockerconfigjson.
	DockerConfigJSON []byte
}

// Output is what a node gets. Everything is sorted: the same input gives the same bytes.
type Output struct {
	// Files are all there are below Folder, and KubeletConfig. In each folder what hosts.toml names comes before it:
	// written in this order, a pull never meets a hosts.toml whose CA is missing, with which it would fail.
	Files    []File
	Problems []Problem
}

// File is a file on the host.
type File struct {
	Path, Content string
	// Secret says that there is a credential in it.
	Secret bool
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
	// InvalidSource and WildcardSource: nothing is mirrored for the source.
	InvalidSource  = "InvalidSource"
	WildcardSource = "WildcardSource"
	// InvalidPolicy: the policy is taken as NeverContactSource.
	InvalidPolicy = "InvalidPolicy"
	// InvalidMirror, PathDiffers and SourceIsMirror: this one mirror is left out.
	InvalidMirror  = "InvalidMirror"
	PathDiffers    = "PathDiffers"
	SourceIsMirror = "SourceIsMirror"
	// SourcesConflict: the registry has no mirrors. RegistryClosed: it has none and is not contacted either.
	SourcesConflict = "SourcesConflict"
	RegistryClosed  = "RegistryClosed"
	// PolicyConflict and WiderThanAsked: it is rendered, and holds for more than what was asked.
	PolicyConflict = "PolicyConflict"
	WiderThanAsked = "WiderThanAsked"
	// InvalidPullSecret: what cannot be read of the pull secret is left out.
	InvalidPullSecret = "InvalidPullSecret"
	// CredentialsConflict and CredentialsUnsupported: the mirror is rendered without credentials of its own.
	CredentialsConflict    = "CredentialsConflict"
	CredentialsUnsupported = "CredentialsUnsupported"
	// SourceCredentialsSent: a mirror may get the credentials of the source in place of its own.
	SourceCredentialsSent = "SourceCredentialsSent"
)

// Render says what every Windows node of the cluster gets. It never fails: what cannot be expressed is left out and
// reported, and harms nothing else.
func Render(in Input) Output {
	var r report
	known, files := r.readPullSecret(in.PullSecret)
	byFolder := map[string][]entry{}
	sets := slices.SortedStableFunc(slices.Values(in.Sets), func(a, b Set) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Field, b.Field))
	})
	for _, s := range sets {
		for i, e := range s.Entries {
			at := place{kind: s.Kind, name: s.Name, field: fmt.Sprintf("%s[%d]", s.Field, i)}
			if read, ok := r.readEntry(at, e); ok {
				byFolder[read.folder] = append(byFolder[read.folder], read)
			}
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(byFolder)) {
		if reg, ok := r.merge(byFolder[folder]); ok {
			r.giveCredentials(&reg, known)
			files = append(files, reg.files(folder)...)
		}
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return Output{Files: files, Problems: r.sorted()}
}

// place is where in the cluster something was said.
type place struct{ kind, name, field string }

// in is a field below the place.
func (p place) in(field string) place {
	p.field += field
	return p
}

// String names the object.
func (p place) String() string { return fmt.Sprintf("%s %q", p.kind, p.name) }

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
