package desired_test

import (
	"reflect"
	"testing"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// TestPoliciesFollowWindowsConfig also expects that nodes read what is published, and that a change interrupts nothing.
func TestPoliciesFollowWindowsConfig(t *testing.T) {
	const overlay, flannel, custom = v1alpha1.NetworkOVNHybridOverlay, v1alpha1.NetworkFlannel, v1alpha1.NetworkCustom
	enforced, reported := &desired.Policies{Mode: desired.PolicyEnforce}, &desired.Policies{Mode: desired.PolicyReport}
	for name, c := range map[string]struct {
		network v1alpha1.NetworkSpec
		want    *desired.Policies
	}{
		"default on the overlay":             {v1alpha1.NetworkSpec{Provider: overlay}, enforced},
		"default on Flannel":                 {v1alpha1.NetworkSpec{Provider: flannel}, enforced},
		"default with a network of the user": {v1alpha1.NetworkSpec{Provider: custom}, nil},
		"off":                                {v1alpha1.NetworkSpec{Provider: overlay, Policies: v1alpha1.PoliciesOff}, nil},
		"enforced on the overlay":            {v1alpha1.NetworkSpec{Provider: overlay, Policies: v1alpha1.PoliciesEnforce}, enforced},
		"enforced on Flannel":                {v1alpha1.NetworkSpec{Provider: flannel, Policies: v1alpha1.PoliciesEnforce}, enforced},
		"reported":                           {v1alpha1.NetworkSpec{Provider: flannel, Policies: v1alpha1.PoliciesReport}, reported},
		"closed if too large": {
			v1alpha1.NetworkSpec{Provider: overlay, Policies: v1alpha1.PoliciesEnforce, PolicyFallback: v1alpha1.FallbackClosed}, enforced,
		},
		"open if too large": {
			v1alpha1.NetworkSpec{Provider: overlay, Policies: v1alpha1.PoliciesEnforce, PolicyFallback: v1alpha1.FallbackOpen},
			&desired.Policies{Mode: desired.PolicyEnforce, OpenIfTooLarge: true},
		},
		"network of the user":        {v1alpha1.NetworkSpec{Provider: custom, Policies: v1alpha1.PoliciesEnforce}, nil},
		"network that is unknown":    {v1alpha1.NetworkSpec{Policies: v1alpha1.PoliciesEnforce}, nil},
		"network of a later version": {v1alpha1.NetworkSpec{Provider: "Other", Policies: v1alpha1.PoliciesEnforce}, nil},
	} {
		if got := desired.PoliciesOf(c.network); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
	before := bounded(t, flannel)
	node := before
	node.Policies = &desired.Policies{Mode: desired.PolicyReport, OpenIfTooLarge: true}
	data, err := node.Data()
	if err != nil {
		t.Fatal(err)
	}
	read, err := desired.FromData(data)
	if err != nil || !reflect.DeepEqual(read.Policies, node.Policies) {
		t.Errorf("nodes read policies %+v, error %v", read.Policies, err)
	}
	if got := desired.DisruptionOf(before, node); got != v1alpha1.DisruptionNone {
		t.Errorf("the change has effect %q", got)
	}
}
