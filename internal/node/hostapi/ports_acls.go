package hostapi

import (
	"context"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// EndpointACLs are the rules by which the Host Network Service filters the packets of endpoints. Errors are those of Networks.
type EndpointACLs interface {
	// ACLs returns the rules of all local endpoints by endpoint ID, in no particular order; nil for an endpoint without rules. It reads
	// all endpoints at once, and lists lack what Networks.List lacks. A rule in a form that this port does not write is Foreign.
	ACLs(ctx context.Context) (map[string][]hns.ACL, error)
	// SetACLs makes these the only rules of a local endpoint, in one request; Windows does not document whether packets can pass between
	// the old rules and the new ones. The rules are in force when it returns. Without rules, everything passes; with any, only what a rule
	// allows, in both directions. An endpoint that has them already is not written, because each write may reset its connections. Rules
	// that hns.CheckACLs rejects are hns.ErrPolicy, an absent endpoint is hns.ErrNotFound, and nothing changes. Other policies of the
	// endpoint stay, unless another program changes them meanwhile.
	SetACLs(ctx context.Context, endpoint string, acls []hns.ACL) error
}
