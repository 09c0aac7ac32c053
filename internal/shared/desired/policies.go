package desired

import (
	"cmp"
	"fmt"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// PolicyMode is what a node does with the NetworkPolicies of its pods.
type PolicyMode string

// Modes of policies. No Policies in a Node mean that it ignores NetworkPolicies.
const (
	// PoliciesEnforce writes the rules to the endpoints of pods.
	PoliciesEnforce PolicyMode = PolicyMode(v1alpha1.PoliciesEnforce)
	// PoliciesReport computes the rules and reports problems, but writes none.
	PoliciesReport PolicyMode = PolicyMode(v1alpha1.PoliciesReport)
)

// Policies are the settings of NetworkPolicies on a node.
type Policies struct {
	Mode PolicyMode `json:"mode"`
	// OpenIfTooLarge opens a direction of a pod whose policies are too large for an endpoint, instead of closing it.
	OpenIfTooLarge bool `json:"openIfTooLarge,omitempty"`
}

// PoliciesOf returns the settings of NetworkPolicies for nodes with a network, whose provider is set; nil if nodes ignore NetworkPolicies.
func PoliciesOf(n v1alpha1.NetworkSpec) *Policies {
	mode := policyMode(n)
	if mode == v1alpha1.PoliciesOff {
		return nil
	}
	return &Policies{Mode: PolicyMode(mode), OpenIfTooLarge: cmp.Or(n.PolicyFallback, v1alpha1.FallbackClosed) == v1alpha1.FallbackOpen}
}

// policyMode returns the mode with its default. A network of the user's own has its own way to enforce policies, and rules of its own on
// the endpoints of pods.
func policyMode(n v1alpha1.NetworkSpec) v1alpha1.NetworkPolicies {
	if n.Provider != v1alpha1.NetworkOVNHybridOverlay && n.Provider != v1alpha1.NetworkFlannel {
		return v1alpha1.PoliciesOff
	}
	return cmp.Or(n.Policies, v1alpha1.PoliciesOff)
}

func (n Node) checkPolicies() error {
	if n.Policies != nil && n.Policies.Mode != PoliciesEnforce && n.Policies.Mode != PoliciesReport {
		return fmt.Errorf("the mode of NetworkPolicies is %.64q; allowed are %s and %s", n.Policies.Mode, PoliciesEnforce, PoliciesReport)
	}
	return nil
}
