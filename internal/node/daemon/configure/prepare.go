package configure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// Prepare enables Windows features on a host that an image is made from, and has containerd pull the sandbox image. If features need a restart, the
// result has the reason, and the caller repeats the command after it. Then nothing is left that copies of the host would share but content, features and
// the image: no service, no journal, no record, no lock.
func Prepare(ctx context.Context, s *wicdapi.Session, h hostapi.Host) (wicdapi.PrepareResult, error) {
	var request wicdapi.PrepareRequest
	if err := s.Request(&request); err != nil {
		return wicdapi.PrepareResult{}, err
	}
	allowed := []string{desired.ContainersFeature, desired.HyperVFeature}
	for _, name := range request.Features {
		if !slices.Contains(allowed, name) {
			return wicdapi.PrepareResult{}, &wicdapi.Error{Code: wicdapi.CodeRequestInvalid, Message: fmt.Sprintf(
				"features contains %.64q; only %s are allowed", name, strings.Join(allowed, ", "))}
		}
	}
	facts, err := h.System.Facts(ctx)
	if err != nil {
		return wicdapi.PrepareResult{}, fmt.Errorf("reading the facts of the host: %w", err)
	}
	wanted, err := wantedImage(request.Containerd)
	if err != nil {
		return wicdapi.PrepareResult{}, err
	}
	release, err := state.LockCommands(ctx, h)
	if err != nil {
		return wicdapi.PrepareResult{}, err
	}
	notify := func(step wicdapi.Step) { _ = s.Step(step) } // the command continues if no one reads the steps
	w := &windows{work: newWork(h, notify), facts: facts, features: request.Features, registers: true, mayReboot: true}
	image := imagePull{work: w.work, wanted: wanted}
	err = w.run(ctx, slices.Concat(
		[]step{
			{"checking that the host is not a node", w.checkNotNode},
			{"waiting for Windows", w.await},
			{"enabling features", w.enableFeatures},
			{"restarting the host", w.restart},
		},
		image.steps(),
		[]step{{"removing the record of these steps", w.forgetState}},
	))
	release()
	result := wicdapi.PrepareResult{BootID: facts.BootID, Changed: wicdapi.Brief(w.changed)}
	if errors.Is(err, errRebooting) {
		result.Rebooting, err = w.why(), nil
	} else if err == nil {
		removeLocks(h.Disk)
	}
	return result, err
}

// checkNotNode returns an error if the host is a node, or has parts of one: copies would share its names and keys.
func (w *windows) checkNotNode(ctx context.Context) error {
	r, err := state.ReadLast(w.Disk)
	if err != nil {
		return err
	}
	if r.Cluster != "" {
		return &wicdapi.Error{Code: wicdapi.CodeRequestInvalid, Message: fmt.Sprintf(
			"the host is node %s of cluster %s; only a host that is not a node can be prepared: remove it from the cluster, or use another host", r.Node, r.Cluster)}
	}
	managed, err := operatorServices(ctx, w.Services)
	if err != nil {
		return err
	}
	if len(managed) == 1 && managed[0].Name == desired.ContainerdService {
		return nil // of an interrupted preparation: a node has more services, and a record
	}
	if len(managed) > 0 {
		return &wicdapi.Error{Code: wicdapi.CodeRequestInvalid, Message: fmt.Sprintf(
			"the host has service %s of a node; only a host that is not a node can be prepared: remove it from its cluster, or use another host", managed[0].Name)}
	}
	return nil
}

// forgetState removes all that WICD has recorded on the host.
func (w *windows) forgetState(context.Context) error {
	names, err := w.Disk.List(desired.State)
	if err != nil {
		return fmt.Errorf("listing %s: %w", desired.State, err)
	}
	for _, name := range names {
		if path := desired.State + `\` + name; path != state.CommandLock && path != state.ServicesLock {
			if err := w.Disk.Remove(path); err != nil {
				return fmt.Errorf("removing %s: %w", path, err)
			}
		}
	}
	return nil
}

// removeLocks removes the files of locks that are no longer held.
func removeLocks(d hostapi.Disk) {
	for _, name := range []string{state.CommandLock, state.ServicesLock} {
		_ = d.Remove(name) // another command may hold it already
	}
}
