package acceptance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// undoTimeout limits undoing one change.
const undoTimeout = 3 * time.Minute

// leaveTimeout limits removing a node: its services end within two minutes each.
const leaveTimeout = 10 * time.Minute

// undoAll undoes all changes, newest first. It continues after a failure: changes that could not be undone stay in the journal.
func (s *session) undoAll(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx) // also after Ctrl+C
	var failures []error
	for _, c := range slices.Backward(slices.Clone(s.journal.changes)) {
		if s.inService && isOfService(c) {
			continue // this process runs in the service
		}
		s.printf("  reverting: %s", c)
		timeout := undoTimeout
		if c.Kind == kindNode {
			timeout = leaveTimeout
		}
		limited, cancel := context.WithTimeout(ctx, timeout)
		err := s.undo(limited, c)
		cancel()
		if err == nil {
			err = s.journal.remove(c)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("reverting %s: %w", c, err))
		}
	}
	return errors.Join(failures...)
}

// undo undoes one change. It is not an error if the change was never made or was already undone.
func (s *session) undo(ctx context.Context, c change) error {
	switch c.Kind {
	case kindFolder:
		if s.isNeeded(c) {
			return errors.New("it is needed to remove the node")
		}
		return s.removeFolder(ctx, Root+`\`+c.Name)
	case kindFeature:
		return s.disableFeature(ctx, c.Name)
	case kindRules:
		_, err := s.Host.Firewall.Set(ctx, nil)
		return err
	case kindExclusion:
		return s.Host.Defender.Remove(ctx, desired.Exclusions{Paths: []string{c.Name}})
	case kindRoute:
		return s.removeRoute(ctx)
	case kindCertificate:
		_, err := s.Host.Certificates.Remove(ctx, c.Name)
		return err
	case kindHostname:
		return s.Host.NextStart.Rename(ctx, c.Name)
	case kindRestart:
		return s.cancelRestart(ctx)
	case kindTests:
		return s.cleanUpAfterTests(ctx, c.Name)
	case kindKeys:
		return s.restoreKeys()
	case kindNode:
		return s.removeNode(ctx, c.Name)
	case kindNetworks:
		return s.removeNetworks(ctx)
	case kindNamespace:
		_, err := s.Host.Containers.RemoveNamespace(ctx, c.Name)
		return err
	case kindService:
		return s.removeService(ctx)
	case kindShell:
		return s.setShell(ctx, c.Name)
	case kindPrograms:
		return s.removeCopiedPrograms()
	}
	return c.check()
}

// isNeeded reports whether a change that is still to be undone needs this folder.
func (s *session) isNeeded(folder change) bool {
	return slices.ContainsFunc(s.journal.changes, func(c change) bool {
		return c.Kind == kindNode && Root+`\`+folder.Name == joinFolder || c.Kind == kindKeys && Root+`\`+folder.Name == keysFolder
	})
}

// isOfService reports whether a change belongs to the temporary service, which is removed last.
func isOfService(c change) bool {
	return c.Kind == kindService || c.Kind == kindFolder && Root+`\`+c.Name == serviceFolder
}
