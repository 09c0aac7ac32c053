package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/windows-machine-config/wmco/release/bundle"
)

// Check applies the rules of catalogs (alpha/model/model.go of github.com/operator-framework/operator-registry), and those of this
// operator: an upgrade leads to a later version, and the nodes of the former version can follow it. The error names each entry that
// breaks a rule.
func (c *Catalog) Check() error {
	bundles := map[string]Bundle{}
	errs := []error{c.checkPackage()}
	versions := map[string]string{}
	for _, b := range c.Bundles {
		if _, double := bundles[b.Name]; double {
			errs = append(errs, fmt.Errorf("catalog: bundle %s is there twice", b.Name))
		}
		bundles[b.Name] = b
		v, err := b.check()
		errs = append(errs, err)
		if other := versions[v]; v != "" && other != "" {
			errs = append(errs, fmt.Errorf("catalog: bundles %s and %s have the same version %s", other, b.Name, v))
		}
		versions[v] = b.Name
	}
	used := map[string]bool{}
	for _, ch := range c.Channels {
		errs = append(errs, ch.check(bundles))
		for _, e := range ch.Entries {
			used[e.Name] = true
		}
	}
	for name := range bundles {
		if !used[name] {
			errs = append(errs, fmt.Errorf("catalog: bundle %s is in no channel", name))
		}
	}
	return errors.Join(errs...)
}

func (c *Catalog) checkPackage() error {
	var errs []error
	if c.Package.Schema != packageSchema || c.Package.Name != bundle.Package || len(c.Package.Icon.Data) == 0 {
		errs = append(errs, fmt.Errorf("catalog: the package is %q, with an icon of %d bytes; want %s", c.Package.Name, len(c.Package.Icon.Data), bundle.Package))
	}
	seen := map[string]bool{}
	for _, ch := range c.Channels {
		if seen[ch.Name] {
			errs = append(errs, fmt.Errorf("catalog: channel %s is there twice", ch.Name))
		}
		seen[ch.Name] = true
	}
	if !seen[c.Package.DefaultChannel] {
		errs = append(errs, fmt.Errorf("catalog: the default channel %q does not exist", c.Package.DefaultChannel))
	}
	return errors.Join(errs...)
}

// check returns the version of a bundle, or its problems.
func (b Bundle) check() (version string, err error) {
	var errs []error
	if b.Package != bundle.Package {
		errs = append(errs, fmt.Errorf("catalog: bundle %s is of package %q", b.Name, b.Package))
	}
	if !regexp.MustCompile(`^[a-z0-9.:-]+(/[a-z0-9._-]+)+@sha256:[0-9a-f]{64}$`).MatchString(b.Image) {
		errs = append(errs, fmt.Errorf("catalog: bundle %s has image %q, which must have its registry and its digest", b.Name, b.Image))
	}
	var packages int
	for _, p := range b.Properties {
		switch p.Type {
		case "olm.package":
			packages++
			var value struct{ PackageName, Version string }
			if err := json.Unmarshal(p.Value, &value); err != nil {
				errs = append(errs, fmt.Errorf("catalog: bundle %s, property %s: %w", b.Name, p.Type, err))
			}
			version = value.Version
		case "olm.bundle.object":
			errs = append(errs, fmt.Errorf("catalog: bundle %s has property %s, which catalogs must not have any more", b.Name, p.Type))
		}
	}
	if packages != 1 || b.Name != bundle.Name(version) {
		errs = append(errs, fmt.Errorf("catalog: bundle %s has %d properties olm.package, version %q", b.Name, packages, version))
	}
	return version, errors.Join(errs...)
}

// check rejects cycles, several heads, versions without a path to the head, and upgrades that strand nodes.
func (ch Channel) check(bundles map[string]Bundle) error {
	var errs []error
	fault := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("catalog: channel %s: %w", ch.Name, fmt.Errorf(format, args...)))
	}
	entries := map[string]Entry{}
	for _, e := range ch.Entries {
		if _, double := entries[e.Name]; double {
			fault("entry %s is there twice", e.Name)
		}
		entries[e.Name] = e
		if _, found := bundles[e.Name]; !found {
			fault("entry %s has no bundle", e.Name)
		}
	}
	if heads := ch.heads(); len(heads) != 1 {
		fault("it has heads [%s], want one: each version but the newest must be replaced or skipped", strings.Join(heads, ", "))
		return errors.Join(errs...)
	}
	reached := map[string]bool{}
	for at := ch.heads()[0]; at != ""; at = entries[at].Replaces {
		if reached[at] {
			fault("entry %s replaces itself, by way of others", at)
			break
		}
		reached[at] = true
		if _, found := entries[at]; !found {
			fault("entry %s is replaced and does not exist", at)
			break
		}
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		skipped := slices.ContainsFunc(ch.Entries, func(e Entry) bool { return reached[e.Name] && slices.Contains(e.Skips, name) })
		if !reached[name] && !skipped {
			fault("entry %s is stranded: no upgrade leads from it to %s", name, ch.heads()[0])
		}
		from, err := entries[name].upgradesFrom(ch)
		if err != nil {
			fault("%w", err)
		}
		for _, former := range from {
			if err := followed(bundles[former], bundles[name]); err != nil {
				fault("%w", err)
			}
		}
	}
	return errors.Join(errs...)
}

// heads returns the entries that no other entry replaces or skips.
func (ch Channel) heads() []string {
	former := map[string]bool{}
	for _, e := range ch.Entries {
		former[e.Replaces] = true
		for _, s := range e.Skips {
			former[s] = true
		}
	}
	var heads []string
	for _, e := range ch.Entries {
		if !former[e.Name] {
			heads = append(heads, e.Name)
		}
	}
	return heads
}

// upgradesFrom returns the entries from which OLM upgrades to this one directly.
func (e Entry) upgradesFrom(ch Channel) ([]string, error) {
	from := slices.Clone(e.Skips)
	if e.Replaces != "" {
		from = append(from, e.Replaces)
	}
	if e.SkipRange == "" {
		return from, nil
	}
	m := regexp.MustCompile(`^>=(\S+) <(\S+)$`).FindStringSubmatch(e.SkipRange)
	if m == nil {
		return nil, fmt.Errorf("entry %s has skipRange %q; it must be written \">=1.0.0 <1.2.0\"", e.Name, e.SkipRange)
	}
	least, errLeast := version.ParseSemantic(m[1])
	below, errBelow := version.ParseSemantic(m[2])
	if err := errors.Join(errLeast, errBelow); err != nil {
		return nil, fmt.Errorf("entry %s has skipRange %q: %w", e.Name, e.SkipRange, err)
	}
	for _, other := range ch.Entries {
		v, err := version.ParseSemantic(strings.TrimPrefix(other.Name, bundle.Package+".v"))
		if err == nil && v.AtLeast(least) && v.LessThan(below) && !slices.Contains(from, other.Name) {
			from = append(from, other.Name)
		}
	}
	return from, nil
}

// followed returns why nodes of a version cannot follow an upgrade to another one, and would keep their daemon and kubelet: the upgrade
// is a downgrade, their daemon is older than the newer operator can upgrade, or no version of Kubernetes has kubelets of both.
func followed(former, next Bundle) error {
	if former.Name == "" || next.Name == "" {
		return nil // another check reports it
	}
	previous, errWas := former.compatibility()
	current, errIs := next.compatibility()
	if err := errors.Join(errWas, errIs); err != nil {
		return err
	}
	if !slices.ContainsFunc(current.KubernetesMinors, func(m string) bool { return slices.Contains(previous.KubernetesMinors, m) }) {
		return fmt.Errorf("entry %s strands nodes of %s: that has kubelets for Kubernetes %s, this for %s", next.Name, former.Name,
			strings.Join(previous.KubernetesMinors, ", "), strings.Join(current.KubernetesMinors, ", "))
	}
	from, errFrom := version.ParseSemantic(strings.TrimPrefix(former.Name, bundle.Package+".v"))
	to, errTo := version.ParseSemantic(strings.TrimPrefix(next.Name, bundle.Package+".v"))
	if err := errors.Join(errFrom, errTo); err != nil {
		return fmt.Errorf("entries %s and %s: %w", former.Name, next.Name, err)
	}
	if !from.LessThan(to) {
		return fmt.Errorf("entry %s leads downwards: it is older than %s", next.Name, former.Name)
	}
	least, err := version.ParseSemantic(current.UpgradesFrom)
	if err != nil || from.LessThan(least) {
		return fmt.Errorf("entry %s strands nodes of %s: it upgrades nodes from version %q on", next.Name, former.Name, current.UpgradesFrom)
	}
	return nil
}

func (b Bundle) compatibility() (c bundle.Compatibility, err error) {
	for _, p := range b.Properties {
		if p.Type == bundle.CompatibilityType {
			err = json.Unmarshal(p.Value, &c)
			return c, err
		}
	}
	return c, fmt.Errorf("catalog: bundle %s has no property %s", b.Name, bundle.CompatibilityType)
}
