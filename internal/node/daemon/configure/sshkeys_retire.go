package configure

import (
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
)

// KeyRetirer removes SSH keys that are no longer needed.
type KeyRetirer struct{ state.Session }

// Retire removes keys that the operator no longer needs: those that WICD once added, and those in RetiredKeys. It does so only after the Node's
// annotation proves that the operator has logged in with a remaining key, and if that key is still present.
func (k KeyRetirer) Retire(node *corev1.Node) error {
	proven := node.Annotations[api.AnnotationPubKeyHash]
	kept := keysIn(strings.Join(k.Wanted.AuthorizedKeys, "\n"))
	if !slices.ContainsFunc(kept, func(key string) bool { return keyHash(key) == proven }) {
		return nil
	}
	obsolete, err := k.obsoleteKeys(kept)
	if err != nil || len(obsolete) == 0 {
		return err
	}
	err = k.IfIdle(func() error { return k.retire(obsolete, proven) })
	if errors.Is(err, state.ErrBusy) {
		return nil // the next event of the Node tries again
	}
	return err
}

// retire removes keys from the file and from the list of added ones.
func (k KeyRetirer) retire(obsolete []string, proven string) error {
	if err := k.removeKeys(obsolete, proven); err != nil {
		return err
	}
	added, err := addedKeys(k.Host.Disk)
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(slices.Clone(added), func(key string) bool { return slices.Contains(obsolete, key) })
	if len(kept) == len(added) {
		return nil
	}
	return noteAdded(k.Host.Disk, kept)
}

// obsoleteKeys returns the added and retired keys, without those that stay.
func (k KeyRetirer) obsoleteKeys(kept []string) ([]string, error) {
	obsolete, err := addedKeys(k.Host.Disk)
	obsolete = append(obsolete, keysIn(strings.Join(k.Wanted.RetiredKeys, "\n"))...)
	return slices.DeleteFunc(obsolete, func(key string) bool { return slices.Contains(kept, key) }), err
}

// removeKeys removes the lines of keys, unless the proven key is missing.
func (k KeyRetirer) removeKeys(obsolete []string, proven string) error {
	content, err := readKeys(k.Host.Disk)
	if err != nil {
		return err
	}
	var kept strings.Builder
	var dropped []string
	isProvenPresent := false
	for line := range strings.Lines(content) {
		key := keyIn(line)
		isProvenPresent = isProvenPresent || key != "" && keyHash(key) == proven
		if key != "" && slices.Contains(obsolete, key) {
			dropped = append(dropped, key)
			continue
		}
		kept.WriteString(line)
	}
	if len(dropped) == 0 || !isProvenPresent {
		return nil
	}
	if err := writeKeys(k.Host, kept.String()); err != nil {
		return err
	}
	for _, key := range dropped {
		k.RecordChange("SSH key %.12s is no longer authorized", keyHash(key))
	}
	return nil
}
