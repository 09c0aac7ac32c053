package join_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

func TestHostWithoutAPIServerAccessIsUnchanged(t *testing.T) {
	const server = "https://lb-apiserver.kubernetes.local:6443"
	for name, test := range map[string]struct {
		answer wicdapi.ReachResult
		parts  []string
	}{
		"unknown name": {
			wicdapi.ReachResult{Failure: "resolving lb-apiserver.kubernetes.local: no such host"},
			[]string{server + ", which was read from ConfigMap kube-public/cluster-info: resolving lb-apiserver.kubernetes.local: no such host", "spec.cluster.apiServer"}},
		"connection timeout": {
			wicdapi.ReachResult{Resolved: []netip.Addr{netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("fd00::5")}, Failure: "connecting to 10.0.0.5:6443: timeout"},
			[]string{server + ", which resolves on the host to 10.0.0.5, fd00::5, and was read from", "connecting to 10.0.0.5:6443: timeout"}},
		"oversized report": {wicdapi.ReachResult{Failure: strings.Repeat("x", 10_000)}, []string{server, "spec.cluster.apiServer"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := &cloudHost{facts: goodHost(), reach: test.answer}
			err := joinOn(h, "", server).Run(t.Context())
			var u *join.Unsupported
			if !errors.As(err, &u) || u.Reason != api.ReasonAPIServerUnreachable {
				t.Fatalf("the join ends with %v, want reason %s", err, api.ReasonAPIServerUnreachable)
			}
			for _, part := range test.parts {
				if !strings.Contains(u.Message, part) {
					t.Errorf("%q does not contain %q", u.Message, part)
				}
			}
			if len(u.Message) > 4096 {
				t.Errorf("a message of %d bytes", len(u.Message))
			}
			if want := []string{"facts", "reach"}; !slices.Equal(h.commands, want) {
				t.Errorf("the host received commands %q, want %q", h.commands, want)
			}
			if h.reachRequest != (wicdapi.ReachRequest{Server: server, CA: "the CA"}) {
				t.Errorf("the host received request %+v", h.reachRequest)
			}
		})
	}
}
