package network

import (
	"context"
	"fmt"
	"strings"

	"github.com/Microsoft/hcsshim"
	"github.com/Microsoft/hcsshim/hcn"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// ACLs implements hostapi.EndpointACLs.
func (h *HNS) ACLs(ctx context.Context) (map[string][]hns.ACL, error) {
	return read(ctx, h, "reading the ACLs of endpoints", func() (map[string][]hns.ACL, error) {
		endpoints, err := hcsshim.HNSListEndpointRequest() // as in stateNow
		if err != nil {
			return nil, err
		}
		all := map[string][]hns.ACL{}
		for _, e := range endpoints {
			if e.IsRemoteEndpoint {
				continue
			}
			var documents []aclDocument
			for _, raw := range e.Policies {
				if settingsOf[hcsshim.Policy](raw).Type == hcsshim.ACL {
					documents = append(documents, readACL(raw))
				}
			}
			all[strings.ToLower(e.Id)] = aclsOf(documents)
		}
		return all, nil
	})
}

// SetACLs implements hostapi.EndpointACLs.
func (h *HNS) SetACLs(ctx context.Context, endpoint string, acls []hns.ACL) error {
	what := "setting the ACLs of endpoint " + endpoint
	if err := hns.CheckACLs(acls); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return h.change(ctx, what, func() error { return setACLs(endpoint, acls) })
}

func setACLs(endpoint string, acls []hns.ACL) error {
	e, current, others, err := openEndpoint(endpoint)
	if err != nil {
		return err
	}
	if hns.SameACLs(aclsOf(documentsIn(current)), acls) {
		return nil
	}
	// An update replaces the policies of the endpoint. Sources differ on whether it keeps those of other types: Azure sends them again,
	// before the ACLs (npm/pkg/dataplane/policies/policymanager_windows.go), and Calico does not.
	policies := others
	for _, d := range aclDocuments(acls) {
		policies = append(policies, hcn.EndpointPolicy{Type: hcn.ACL, Settings: mustEncode(d)})
	}
	if err := e.ApplyPolicy(hcn.RequestTypeUpdate, hcn.PolicyEndpointRequest{Policies: policies}); err != nil || len(acls) > 0 {
		return err
	}
	// If it keeps them, an update without ACLs keeps the old ones.
	e, current, _, err = openEndpoint(endpoint)
	if err != nil || len(current) == 0 {
		return err
	}
	return e.ApplyPolicy(hcn.RequestTypeRemove, hcn.PolicyEndpointRequest{Policies: current})
}

// openEndpoint returns an endpoint with its ACLs and its other policies, both in Windows' own form.
func openEndpoint(id string) (e *hcn.HostComputeEndpoint, acls, others []hcn.EndpointPolicy, err error) {
	e, err = hcn.GetEndpointByID(strings.ToUpper(id)) // as in findNetwork
	if err != nil {
		return nil, nil, nil, err
	}
	for _, p := range e.Policies {
		if p.Type == hcn.ACL {
			acls = append(acls, p)
		} else {
			others = append(others, p)
		}
	}
	return e, acls, others, nil
}

func documentsIn(policies []hcn.EndpointPolicy) (documents []aclDocument) {
	for _, p := range policies {
		documents = append(documents, readACL(p.Settings))
	}
	return documents
}
