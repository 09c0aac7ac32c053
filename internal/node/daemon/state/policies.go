package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// PolicySets holds what the API server last said of the NetworkPolicies of each namespace with pods on this host.
const PolicySets = desired.State + `\policysets`

// policyEndpointsFile lists the endpoints whose rules WICD has written.
const policyEndpointsFile = desired.State + `\policy-endpoints.json`

// maxPolicyEndpoints is more than the size of policyEndpointsFile, in bytes: the kubelet allows a few hundred pods.
const maxPolicyEndpoints = 1 << 20

// ReadPolicyEndpoints returns the IDs of the endpoints whose rules WICD has written, or is about to write, sorted.
func ReadPolicyEndpoints(d hostapi.Disk) (endpoints []string, err error) {
	b, err := d.ReadAtMost(policyEndpointsFile, maxPolicyEndpoints)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &endpoints)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", policyEndpointsFile, err)
	}
	return slices.Sorted(slices.Values(endpoints)), nil
}

// WritePolicyEndpoints replaces the list; without endpoints, it removes the file.
func WritePolicyEndpoints(d hostapi.Disk, endpoints []string) error {
	if len(endpoints) > 0 {
		return WriteJSON(d, policyEndpointsFile, slices.Sorted(slices.Values(endpoints)))
	}
	if err := d.Remove(policyEndpointsFile); err != nil {
		return fmt.Errorf("removing %s: %w", policyEndpointsFile, err)
	}
	return nil
}
