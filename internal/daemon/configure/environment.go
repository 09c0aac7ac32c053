package configure

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/trust"
)

// setEnvironment gives the machine its variables. Services have them in declarations of their own: they need no restart
// of Windows to see them.
func (c *configurator) setEnvironment(ctx context.Context) error {
	changed, err := c.Environment.Set(ctx, c.wanted.Environment, c.wanted.WatchedEnvironment)
	for _, name := range changed {
		c.recordChange("variable %s of the machine changed", name)
	}
	return err
}

// trustedFile lists the certificates that we put into the machine's store. Those that were there before are not ours,
// and are never removed.
const trustedFile = desired.State + `\certificates.json`

// trustCertificates makes the machine trust what is wanted. What it adds is noted as ours before it is there: a cut in
// between leaves a note without a certificate, which the next time adds, and never a certificate without a note.
func (c *configurator) trustCertificates(ctx context.Context) error {
	wanted, err := trust.Read(c.wanted.Certificates)
	if err != nil {
		return err
	}
	there, err := c.Certificates.List(ctx)
	if err != nil {
		return fmt.Errorf("listing the trusted certificates: %w", err)
	}
	ours, err := c.trusted()
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(wanted), func(c trust.Certificate) bool { return slices.Contains(there, c.SHA256) })
	surplus := slices.DeleteFunc(slices.Clone(ours), func(hash string) bool {
		return slices.ContainsFunc(wanted, func(c trust.Certificate) bool { return c.SHA256 == hash })
	})
	for _, c := range missing {
		ours = append(ours, c.SHA256)
	}
	if err := c.noteTrusted(ours); err != nil {
		return err
	}
	for _, m := range missing {
		if _, err := c.Certificates.Add(ctx, m.DER); err != nil {
			return fmt.Errorf("trusting certificate %.12s (%s): %w", m.SHA256, m.Subject, err)
		}
		c.recordChange("certificate %.12s (%s) is trusted", m.SHA256, m.Subject)
	}
	for _, hash := range surplus {
		removed, err := c.Certificates.Remove(ctx, hash)
		if err != nil {
			return fmt.Errorf("removing certificate %.12s: %w", hash, err)
		}
		if removed {
			c.recordChange("certificate %.12s is trusted no more", hash)
		}
	}
	return c.noteTrusted(slices.DeleteFunc(ours, func(hash string) bool { return slices.Contains(surplus, hash) }))
}

// trusted are the certificates that we put into the store, by hash. A list that is not what we wrote begins anew: what is
// in the store could be others', and stays.
func (c *configurator) trusted() ([]string, error) {
	b, err := c.Disk.Read(trustedFile)
	if err != nil {
		return nil, state.IgnoreAbsent(err)
	}
	var ours []string
	if err := json.Unmarshal(b, &ours); err != nil {
		c.recordChange("%s starts empty, because it was unreadable: certificates that are trusted now stay trusted", trustedFile)
		return nil, nil
	}
	return ours, nil
}

func (c *configurator) noteTrusted(ours []string) error {
	if len(ours) == 0 && !c.Disk.Exists(trustedFile) {
		return nil
	}
	slices.Sort(ours)
	b, err := json.MarshalIndent(slices.Compact(ours), "", "  ")
	if err != nil {
		return err
	}
	_, err = c.Disk.WriteFile(trustedFile, string(b)+"\n")
	return err
}
