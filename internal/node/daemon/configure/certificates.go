package configure

import (
	"context"
	"fmt"
	"slices"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/trust"
)

// trustedFile lists the certificates that WICD added to the machine's store. Certificates that existed before are not listed and never removed.
const trustedFile = desired.State + `\certificates.json`

// certificates are the root certificates that the machine trusts.
type certificates struct {
	work
	// wanted is the PEM bundle of certificates to trust.
	wanted string
}

// trust adds missing certificates to the machine's store and removes WICD's surplus ones. Each certificate is recorded before it is added: an
// interrupted run may leave a record without a certificate, which the next run adds, but never a certificate without a record.
func (c certificates) trust(ctx context.Context) error {
	wanted, err := trust.Read(c.wanted)
	if err != nil {
		return err
	}
	existing, err := c.Certificates.List(ctx)
	if err != nil {
		return fmt.Errorf("listing the trusted certificates: %w", err)
	}
	added, err := c.added()
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(wanted), func(w trust.Certificate) bool { return slices.Contains(existing, w.SHA256) })
	surplus := slices.DeleteFunc(slices.Clone(added), func(hash string) bool {
		return slices.ContainsFunc(wanted, func(w trust.Certificate) bool { return w.SHA256 == hash })
	})
	for _, m := range missing {
		added = append(added, m.SHA256)
	}
	if err := c.storeAdded(added); err != nil {
		return err
	}
	for _, m := range missing {
		if _, err := c.Certificates.Add(ctx, m.DER); err != nil {
			return fmt.Errorf("trusting certificate %.12s (%s): %w", m.SHA256, m.Subject, err)
		}
		c.recordChange("certificate %.12s (%s) is trusted", m.SHA256, m.Subject)
	}
	if err := c.remove(ctx, surplus); err != nil {
		return err
	}
	return c.storeAdded(slices.DeleteFunc(added, func(hash string) bool { return slices.Contains(surplus, hash) }))
}

// added returns the hashes of the certificates that WICD added to the store.
func (c certificates) added() ([]string, error) {
	return readRecorded[[]string](c.work, trustedFile, "certificates that are trusted now stay trusted")
}

func (c certificates) storeAdded(added []string) error {
	if len(added) == 0 && !c.Disk.Exists(trustedFile) {
		return nil
	}
	slices.Sort(added)
	return state.WriteJSON(c.Disk, trustedFile, slices.Compact(added))
}

// adopt records certificates of others as WICD's.
func (c certificates) adopt(hashes []string) error {
	added, err := c.added()
	if err != nil {
		return err
	}
	return c.storeAdded(append(added, hashes...))
}

func (c certificates) untrust(ctx context.Context) error {
	added, err := c.added()
	if err != nil {
		return err
	}
	return c.remove(ctx, added)
}

func (c certificates) remove(ctx context.Context, hashes []string) error {
	for _, hash := range hashes {
		removed, err := c.Certificates.Remove(ctx, hash)
		if err != nil {
			return fmt.Errorf("removing certificate %.12s: %w", hash, err)
		}
		if removed {
			c.recordChange("certificate %.12s is no longer trusted", hash)
		}
	}
	return nil
}
