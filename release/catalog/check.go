package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/model"

	"github.com/windows-machine-config/wmco/release/bundle"
)

// Check applies the rules of OLM (github.com/operator-framework/operator-registry): one head, to which an upgrade leads from each version.
// Then it applies those of this operator: bundles are named by their digests, an upgrade leads to a later version, and the nodes of the
// former version can follow it.
func (c *Catalog) Check() error {
	channel, err := c.channel()
	if err != nil {
		return err
	}
	withDigest := regexp.MustCompile(`^[a-z0-9.:-]+(/[a-z0-9._-]+)+@sha256:[0-9a-f]{64}$`)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(channel.Bundles)) {
		b := channel.Bundles[name]
		if want := bundle.Name(b.Version.String()); name != want {
			errs = append(errs, fmt.Errorf("catalog: bundle %s has version %s and must be named %s", name, b.Version, want))
		}
		if !withDigest.MatchString(b.Image) {
			errs = append(errs, fmt.Errorf("catalog: bundle %s has image %q, which must have its registry and its digest", name, b.Image))
		}
		if _, found := channel.Bundles[b.Replaces]; b.Replaces != "" && !found {
			errs = append(errs, fmt.Errorf("catalog: %s is replaced but does not exist", b.Replaces))
		}
		for _, former := range upgradesFrom(b) {
			if err := checkUpgrade(former, b); err != nil {
				errs = append(errs, fmt.Errorf("catalog: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}

// channel returns the only channel as OLM reads it, which checks the catalog by OLM's rules.
func (c *Catalog) channel() (*model.Channel, error) {
	all, err := declcfg.ConvertToModel(c.DeclarativeConfig)
	if err != nil {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	p := all[bundle.Package]
	if p == nil || len(all) != 1 || len(p.Channels) != 1 || p.Channels[bundle.Channel] == nil {
		return nil, fmt.Errorf("catalog: it must have only package %s with channel %s", bundle.Package, bundle.Channel)
	}
	return p.Channels[bundle.Channel], nil
}

// upgradesFrom returns the bundles from which OLM upgrades to this one directly, in the order of their names.
func upgradesFrom(b *model.Bundle) (former []*model.Bundle) {
	inRange := func(semver.Version) bool { return false }
	if b.SkipRange != "" {
		inRange = semver.MustParseRange(b.SkipRange) // the model has parsed it
	}
	for _, name := range slices.Sorted(maps.Keys(b.Channel.Bundles)) {
		other := b.Channel.Bundles[name]
		if other != b && (name == b.Replaces || slices.Contains(b.Skips, name) || inRange(other.Version)) {
			former = append(former, other)
		}
	}
	return former
}

// checkUpgrade returns why nodes of a version cannot follow an upgrade to another one, and would keep their daemon and kubelet: the upgrade
// is a downgrade, their daemon is older than the newer operator can upgrade, or no version of Kubernetes has kubelets of both.
func checkUpgrade(former, next *model.Bundle) error {
	previous, errWas := compatibility(former)
	current, errIs := compatibility(next)
	if err := errors.Join(errWas, errIs); err != nil {
		return err
	}
	if !slices.ContainsFunc(current.KubernetesMinors, func(m string) bool { return slices.Contains(previous.KubernetesMinors, m) }) {
		return fmt.Errorf("entry %s strands nodes of %s: that has kubelets for Kubernetes %s, this for %s", next.Name, former.Name,
			strings.Join(previous.KubernetesMinors, ", "), strings.Join(current.KubernetesMinors, ", "))
	}
	if former.Version.GE(next.Version) {
		return fmt.Errorf("entry %s is a downgrade: it is older than %s", next.Name, former.Name)
	}
	least, err := semver.Parse(current.UpgradesFrom)
	if err != nil || former.Version.LT(least) {
		return fmt.Errorf("entry %s strands nodes of %s: it upgrades nodes from version %q on", next.Name, former.Name, current.UpgradesFrom)
	}
	return nil
}

func compatibility(b *model.Bundle) (c bundle.Compatibility, err error) {
	for _, p := range b.Properties {
		if p.Type == bundle.CompatibilityType {
			err = json.Unmarshal(p.Value, &c)
			return c, err
		}
	}
	return c, fmt.Errorf("bundle %s has no property %s", b.Name, bundle.CompatibilityType)
}
