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
	// PolicyEnforce writes the rules to the endpoints of pods.
	PolicyEnforce PolicyMode = PolicyMode(v1alpha1.PoliciesEnforce)
	// PolicyReport computes the rules and reports problems, but writes none.
	PolicyReport PolicyMode = PolicyMode(v1alpha1.PoliciesReport)
)

// Policies are the settings of NetworkPolicies on a node.
type Policies struct {
	Mode PolicyMode `json:"mode"`
	// OpenIfTooLarge opens a direction of a pod whose policies are too large for an endpoint, instead of closing it.
	OpenIfTooLarge bool `json:"openIfTooLarge,omitempty"`
}

// Enforces reports whether pods start only with the rules of their policies. Nil policies are off.
func (p *Policies) Enforces() bool { return p != nil && p.Mode == PolicyEnforce }

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
	return cmp.Or(n.Policies, v1alpha1.PoliciesEnforce)
}

func (n Node) checkPolicies() error {
	if n.Policies != nil && n.Policies.Mode != PolicyEnforce && n.Policies.Mode != PolicyReport {
		return fmt.Errorf("the mode of NetworkPolicies is %.64q; allowed: %s and %s", n.Policies.Mode, PolicyEnforce, PolicyReport)
	}
	return nil
}
