//go:build linux

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// operatorMemory is the memory limit of the operator, in bytes.
const operatorMemory = 200 << 20

// TestHostile adds twenty hostile hosts and then ten honest ones. The honest ones must become nodes, no host may get the identity of
// another, and the operator's memory must stay small.
func TestHostile(t *testing.T) {
	p := newHarness(t, testenv.Options{SimulatedHosts: 10})
	honest := p.Hosts()
	hostile, at, err := p.AddHostile(20, honest...)
	must(t, err)
	for _, h := range at {
		p.announce(h, nil)
	}
	p.eventually("each thief has a token", func(context.Context) string {
		for i, h := range hostile {
			if sim.Attacks()[i%len(sim.Attacks())] == sim.Thief && len(h.Tokens()) == 0 {
				return at[i].Name + " has none"
			}
		}
		return ""
	})
	began := time.Now()
	for _, h := range honest {
		p.announce(h, nil)
	}
	for _, h := range honest {
		p.expectReady(operatorObject(h.Name))
	}
	t.Logf("%d hosts joined with %d hostile ones in %s", len(honest), len(hostile), time.Since(began).Round(time.Second))

	victims := []string{}
	for _, h := range honest {
		victims = append(victims, h.Name)
	}
	for n, h := range hostile {
		if tokens := h.Tokens(); len(tokens) > 0 {
			p.expectOneIdentity(at[n].Name, tokens, victims, testenv.ClaimedNames(n))
		}
	}
	if bytes, err := p.Operator.PeakMemory(); err != nil || bytes > operatorMemory {
		t.Errorf("the operator used %d MB (%v), want at most %d", bytes>>20, err, operatorMemory>>20)
	}
}

// expectOneIdentity uses a host's tokens to request the identities of victims, of which it must get none, and of missing nodes, of which it may get
// one: the one for which it got its first token.
func (p harness) expectOneIdentity(host string, tokens, victims, claimed []string) {
	p.t.Helper()
	created := map[string]string{} // the node of each request
	for n, token := range tokens {
		holder := p.withToken(token)
		for _, node := range slices.Concat(victims, claimed) {
			request := p.request(fmt.Sprintf("stolen-%s-%d-%s", host, n, node), badRequest{
				signer: kubeletSigner, commonName: "system:node:" + node, organization: []string{"system:nodes"},
			})
			if err := holder.Create(p.t.Context(), request); err == nil { // an old token cannot create requests
				created[request.Name] = node
			}
		}
	}
	if len(created) == 0 {
		p.t.Error("none of the host's tokens could create a request: nothing was tested")
	}
	gained := map[string]bool{}
	p.eventually("all requests are approved or rejected", func(ctx context.Context) string {
		rejected, err := p.rejectedRequests(ctx)
		if err != nil {
			return err.Error()
		}
		for request, node := range created {
			var r certificatesv1.CertificateSigningRequest
			if err := p.Client.Get(ctx, types.NamespacedName{Name: request}, &r); err != nil {
				return err.Error()
			}
			switch {
			case len(r.Status.Conditions) > 0:
				gained[node] = true
			case !rejected[request]:
				return fmt.Sprintf("request %s is pending", request)
			}
		}
		return ""
	})
	for node := range gained {
		if slices.Contains(victims, node) {
			p.t.Errorf("%s got the identity of node %s", host, node)
		}
	}
	if len(gained) > 1 {
		p.t.Errorf("%s got the identities %v, want at most one", host, gained)
	}
}

// rejectedRequests returns the certificate requests that the operator has reported as violating a rule.
func (p harness) rejectedRequests(ctx context.Context) (map[string]bool, error) {
	var list eventsv1.EventList
	if err := p.Client.List(ctx, &list, client.InNamespace("default")); err != nil {
		return nil, err
	}
	rejected := map[string]bool{}
	for _, e := range list.Items {
		if e.Reason == api.EventCertificateRefused {
			rejected[e.Regarding.Name] = true
		}
	}
	return rejected, nil
}
