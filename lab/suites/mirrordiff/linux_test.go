package mirrordiff

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	written "github.com/containers/image/v5/pkg/sysregistriesv2"
	"github.com/openshift/runtime-utils/pkg/registries"
	"go.podman.io/image/v5/docker/policyconfiguration"
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/sysregistriesv2"
	"go.podman.io/image/v5/types"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// linux models a Linux node of OpenShift with its registries.conf and its policy.json.
type linux struct {
	context *types.SystemContext
	sources []string // with mirrors
	// policy is whether images in a scope may be pulled. The empty scope is for all others.
	policy map[string]bool
	// corrects is the set of known differences that are corrected.
	corrects map[string]bool
}

// newLinux writes the files of a node to a folder. The differences in corrects are also corrected in OpenShift's check of the
// release image. It fails if OpenShift fails, in which case nodes keep their files.
func newLinux(folder string, in cluster, corrects map[string]bool) (*linux, error) {
	digests, tags := in.sets()
	l := &linux{corrects: corrects, context: &types.SystemContext{SystemRegistriesConfPath: filepath.Join(folder, "registries.conf"), SystemRegistriesConfDirPath: filepath.Join(folder, "none")}}
	for _, e := range append(slices.Clone(in.digests), in.tags...) {
		if slices.ContainsFunc(e.mirrors, func(m string) bool { return m != e.source }) {
			l.sources = append(l.sources, e.source)
		}
	}
	write := func(blocked []string) error {
		var conf written.V2RegistriesConf
		if err := registries.EditRegistriesConfig(&conf, in.insecure, blocked, nil, digests, tags); err != nil {
			return err
		}
		var text bytes.Buffer
		if err := toml.NewEncoder(&text).Encode(conf); err != nil {
			return err
		}
		defer sysregistriesv2.InvalidateCache()
		return os.WriteFile(l.context.SystemRegistriesConfPath, text.Bytes(), 0o600)
	}
	if err := write(in.blocked); err != nil {
		return nil, err
	}
	blocked, err := l.setPolicy(in)
	if err != nil {
		return nil, err
	}
	return l, write(blocked)
}

// setPolicy sets the policy like getValidBlockedAndAllowedRegistries and updatePolicyJSON of the machine config operator
// (https://github.com/openshift/machine-config-operator, pkg/controller/container-runtime-config/helpers.go), and returns the
// scopes that are blocked in registries.conf. The file must already exist, with all scopes that the administrator blocks.
func (l *linux) setPolicy(in cluster) (blocked []string, err error) {
	l.policy = map[string]bool{"": len(in.allowed) == 0}
	for _, scope := range in.allowed {
		l.policy[scope] = true
	}
	release, err := reference.ParseNamed(in.release)
	if err != nil {
		return nil, fmt.Errorf("the release: %w", err)
	}
	for _, scope := range in.blocked {
		if !registries.ScopeIsNestedInsideScope(release.Name(), scope) {
			blocked, l.policy[scope] = append(blocked, scope), false
			continue
		}
		isMirrored, err := l.isMirrored(release, in.blocked)
		if err != nil {
			return nil, err
		}
		if !isMirrored {
			continue // the cluster's own release cannot be blocked
		}
		blocked, l.policy[scope] = append(blocked, scope), false
	}
	if len(blocked) > 0 && slices.ContainsFunc(blocked, func(scope string) bool { return registries.ScopeIsNestedInsideScope(release.Name(), scope) }) {
		l.policy[release.Name()] = true
	}
	return blocked, nil
}

// isMirrored reports whether an image can be pulled from a location that is not blocked.
func (l *linux) isMirrored(image reference.Named, blocked []string) (bool, error) {
	r, err := l.find(image.Name())
	if err != nil || r == nil {
		return false, err
	}
	places, err := l.places(r, image)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(places, func(p sysregistriesv2.PullSource) bool {
		return !slices.ContainsFunc(blocked, func(scope string) bool { return registries.ScopeIsNestedInsideScope(p.Reference.Name(), scope) })
	}), nil
}

// pull returns the locations that are tried for an image, in order. A trailing ! means that TLS is optional.
func (l *linux) pull(p pull) ([]string, error) {
	image, err := parse(p)
	if err != nil || !l.mayPull(image) {
		return nil, err
	}
	r, err := l.find(image.Name())
	if err != nil {
		return nil, err
	}
	if r == nil {
		r = &sysregistriesv2.Registry{Prefix: image.Name(), Endpoint: sysregistriesv2.Endpoint{Location: image.Name()}}
	}
	requested, err := l.places(r, image)
	if err != nil {
		return nil, nil // the whole pull fails
	}
	var places []string
	for _, a := range requested {
		at, err := l.find(a.Reference.Name()) // like newDockerClientFromRef
		if err != nil {
			return nil, err
		}
		if at != nil && at.Blocked {
			continue
		}
		place := a.Reference.Name()
		if a.Endpoint.Insecure {
			place += "!"
		}
		places = append(places, place)
	}
	return places, nil
}

func parse(p pull) (reference.Named, error) {
	text := p.name + ":1"
	if p.kind == mirrors.Digests {
		text = p.name + "@" + someDigest
	}
	return reference.ParseNormalizedNamed(text)
}

// mayPull evaluates the policy, like requirementsForImageRef of containers/image.
func (l *linux) mayPull(image reference.Named) bool {
	for _, scope := range policyconfiguration.DockerReferenceNamespaces(image) {
		if may, known := l.policy[scope]; known {
			return may
		}
	}
	return l.policy[""]
}

// find returns the registry in registries.conf that is used for a name, or nil.
func (l *linux) find(name string) (*sysregistriesv2.Registry, error) {
	if len(l.corrects) == 0 {
		return sysregistriesv2.FindRegistry(l.context, name)
	}
	all, err := sysregistriesv2.GetRegistries(l.context)
	if err != nil {
		return nil, err
	}
	var found *sysregistriesv2.Registry
	for i, r := range all {
		if !l.matches(name, r.Prefix) {
			continue
		}
		isLonger := found == nil || len(r.Prefix) > len(found.Prefix)
		if l.corrects[equalLengths] && found != nil && len(r.Prefix) == len(found.Prefix) {
			isLonger = strings.HasPrefix(found.Prefix, "*.")
		}
		if isLonger {
			found = &all[i]
		}
	}
	if found != nil && l.corrects[outermost] {
		return l.nearest(all, *found), nil
	}
	return found, nil
}

// nearest returns a registry with the mirrors of the nearest source that contains it, unless it has its own mirrors.
func (l *linux) nearest(all []sysregistriesv2.Registry, r sysregistriesv2.Registry) *sysregistriesv2.Registry {
	if slices.Contains(l.sources, r.Prefix) {
		return &r
	}
	nearest := ""
	for _, s := range l.sources {
		if !strings.HasPrefix(s, "*.") && strings.HasPrefix(r.Prefix, s+"/") && len(s) > len(nearest) {
			nearest = s
		}
	}
	for _, s := range all {
		if s.Prefix == nearest {
			r.Mirrors = nil
			for _, m := range s.Mirrors {
				m.Location += r.Prefix[len(nearest):]
				r.Mirrors = append(r.Mirrors, m)
			}
		}
	}
	return &r
}
