package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// ACLs implements hostapi.EndpointACLs, by the first generation of the API.
func (h *HNS) ACLs(ctx context.Context) (map[string][]hns.ACL, error) {
	if err := h.begin(ctx, "ACLs"); err != nil {
		return nil, err
	}
	local := h.listed(h.State()).Endpoints
	h.mu.Lock()
	defer h.mu.Unlock()
	found := map[string][]hns.ACL{}
	for _, e := range local {
		if !e.Remote {
			found[e.ID] = h.echoACLs(h.acls[e.ID])
		}
	}
	return found, nil
}

// SetACLs implements hostapi.EndpointACLs.
func (h *HNS) SetACLs(ctx context.Context, endpoint string, acls []hns.ACL) error {
	if err := h.begin(ctx, "SetACLs"); err != nil {
		return err
	}
	if err := hns.CheckACLs(acls); err != nil {
		return fmt.Errorf("setting the ACLs of endpoint %s: %w", endpoint, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	e, exists := h.endpoints[endpoint]
	switch {
	case !exists:
		return fmt.Errorf("setting the ACLs of endpoint %s: %w", endpoint, hns.ErrNotFound)
	case e.Remote:
		return fmt.Errorf("setting the ACLs of endpoint %s: this requested operation is invalid for a remote endpoint (0x803b000f)", endpoint)
	case hns.SameACLs(h.echoACLs(h.acls[endpoint]), acls):
		return nil
	}
	h.aclWrites++
	h.acls[endpoint] = copiedACLs(acls)
	return nil
}

// echoACLs returns rules as the service returns them: neither they nor the entries of their lists are in the order in which they were
// written.
func (h *HNS) echoACLs(acls []hns.ACL) []hns.ACL {
	echo := copiedACLs(acls)
	slices.Reverse(echo)
	for i := range echo {
		slices.Reverse(echo[i].Remote)
		slices.Reverse(echo[i].LocalPorts)
		slices.Reverse(echo[i].RemotePorts)
		if h.options.Quirks.OmitsACLPorts {
			echo[i].LocalPorts, echo[i].RemotePorts = nil, nil
		}
	}
	return echo
}

func copiedACLs(acls []hns.ACL) []hns.ACL {
	copied := slices.Clone(acls)
	for i, a := range copied {
		copied[i].Remote = slices.Clone(a.Remote)
		copied[i].LocalPorts, copied[i].RemotePorts = slices.Clone(a.LocalPorts), slices.Clone(a.RemotePorts)
	}
	if len(copied) == 0 {
		return nil
	}
	return copied
}

// ReplaceACLs replaces the rules of an endpoint, like another program. They may be Foreign.
func (h *HNS) ReplaceACLs(endpoint string, acls []hns.ACL) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acls[endpoint] = copiedACLs(acls)
}

// RulesOf returns the rules of an endpoint as they are in force, even if the service is stopped. It does not count as a call.
func (h *HNS) RulesOf(endpoint string) []hns.ACL {
	h.mu.Lock()
	defer h.mu.Unlock()
	return copiedACLs(h.acls[endpoint])
}

// ACLWrites counts the calls of SetACLs that changed rules, each of which may reset connections.
func (h *HNS) ACLWrites() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.aclWrites
}

// dropACLsLocked removes the rules of endpoints that are gone.
func (h *HNS) dropACLsLocked() {
	maps.DeleteFunc(h.acls, func(endpoint string, _ []hns.ACL) bool {
		_, exists := h.endpoints[endpoint]
		return !exists
	})
}

// ACLs implements hostapi.EndpointACLs.
func (n networks) ACLs(ctx context.Context) (map[string][]hns.ACL, error) {
	if n.boot.isOff() {
		return nil, ErrPower
	}
	return n.boot.w.hns.ACLs(ctx)
}

// SetACLs implements hostapi.EndpointACLs.
func (n networks) SetACLs(ctx context.Context, endpoint string, acls []hns.ACL) error {
	if err := n.boot.change("ACLs of endpoint " + endpoint); err != nil {
		return err
	}
	return n.boot.w.hns.SetACLs(ctx, endpoint, acls)
}
