package configure

import (
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
)

// KeyRetirer takes SSH keys away that are not needed any more.
type KeyRetirer struct{ state.Session }

// Retire takes away keys that the operator does not need any more: those that we added once, and those that are named. It does
// so once the Node says that the operator has logged in with one that stays, and that one is still there.
func (k KeyRetirer) Retire(node *corev1.Node) error {
	proven := node.Annotations[api.AnnotationPubKeyHash]
	stays := keysIn(strings.Join(k.Wanted.AuthorizedKeys, "\n"))
	if !slices.ContainsFunc(stays, func(key string) bool { return keyHash(key) == proven }) {
		return nil
	}
	leaves, err := k.leavingKeys(stays)
	if err != nil || len(leaves) == 0 {
		return err
	}
	err = k.IfIdle(func() error { return k.retire(leaves, proven) })
	if errors.Is(err, state.ErrBusy) {
		return nil // the next event of the Node tries again
	}
	return err
}

// retire takes keys away, and forgets that they are ours.
func (k KeyRetirer) retire(leaves []string, proven string) error {
	if err := k.dropKeys(leaves, proven); err != nil {
		return err
	}
	added, err := addedKeys(k.Host.Disk)
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(slices.Clone(added), func(key string) bool { return slices.Contains(leaves, key) })
	if len(kept) == len(added) {
		return nil
	}
	return noteAdded(k.Host.Disk, kept)
}

// leavingKeys are those that we added and those that are retired, but for those that stay.
func (k KeyRetirer) leavingKeys(stays []string) ([]string, error) {
	leaves, err := addedKeys(k.Host.Disk)
	leaves = append(leaves, keysIn(strings.Join(k.Wanted.RetiredKeys, "\n"))...)
	return slices.DeleteFunc(leaves, func(key string) bool { return slices.Contains(stays, key) }), err
}

// dropKeys removes the lines of keys, unless the one that is proven to work is not there.
func (k KeyRetirer) dropKeys(leaves []string, proven string) error {
	content, err := readKeys(k.Host.Disk)
	if err != nil {
		return err
	}
	var kept strings.Builder
	var dropped []string
	works := false
	for line := range strings.Lines(content) {
		key := keyIn(line)
		works = works || key != "" && keyHash(key) == proven
		if key != "" && slices.Contains(leaves, key) {
			dropped = append(dropped, key)
			continue
		}
		kept.WriteString(line)
	}
	if len(dropped) == 0 || !works {
		return nil
	}
	if err := writeKeys(k.Host, kept.String()); err != nil {
		return err
	}
	for _, key := range dropped {
		k.RecordChange("SSH key %.12s is authorized no more", keyHash(key))
	}
	return nil
}
