package hns

import (
	"fmt"
	"strings"
	"testing"
)

// TestFirstGenerationReturnsTheSameObjects makes the read calls of hcsshim's internal/hns.
func TestFirstGenerationReturnsTheSameObjects(t *testing.T) {
	s := newStore(t)
	const vip = "EEEEEEEE-0000-0000-0000-000000000002"
	expect := func(path string, code Code, want ...string) {
		t.Helper()
		answer, err := s.Call("GET", path)
		if CodeOf(err) != code {
			t.Errorf("%s: %v, want %v", path, err, code)
		}
		for _, part := range want {
			if !strings.Contains(answer, part) {
				t.Errorf("%s: %s, want %s in it", path, answer, part)
			}
		}
	}
	expect("/globals/version", 0, `{"Output":{"Major":15,"Minor":4},"Success":true}`)
	expect("/networks/", 0, `"ManagementIP":"10.99.1.2","Name":"pods"`)
	expect("/networks/"+networkID, 0, `"Subnets":[{"AddressPrefix":"10.1.0.0/16","GatewayAddress":"10.1.0.1"}],"Type":"Overlay"`)
	expect("/endpoints/", 0, `"GatewayAddress":"10.1.0.1","ID":"`+endpointID+`","IPAddress":"10.1.0.7"`, `"State":1`)
	expect("/endpointstats/"+endpointID, 0, `"EndpointId":"`+endpointID+`"`)
	expect("/policylists/", 0, `{"Output":[],"Success":true}`)
	expect("/plugins/", Unsupported, `"Success":false`)
	if _, err := s.Call("POST", "/networks/"); CodeOf(err) != Unsupported {
		t.Errorf("POST: %v, want %v", err, Unsupported)
	}

	mustCreate(t, s, Network, overlayID, overlaySettings)
	expect("/networks/"+overlayID, 0, `{"NetworkAdapterName":"Ethernet","Type":"NetAdapterName"}`, `"Policies":[{"Type":"VSID","VSID":4098}]`)
	mustCreate(t, s, Endpoint, vip, `{"Name":"vip","HostComputeNetwork":"`+overlayID+`","Policies":[
		{"Type":"ProviderAddress","Settings":{"ProviderAddress":"10.99.1.2"}},{"Type":"OutBoundNAT","Settings":{"Exceptions":["10.2.0.0/24"]}}]}`)
	attach := fmt.Appendf(nil, `{"ResourceType":"Endpoint","RequestType":"Add","Settings":{"EndpointId":%q}}`, vip)
	if err := s.Modify(Namespace, hostDefaultID, attach); err != nil {
		t.Fatal(err)
	}
	expect("/endpoints/"+vip, 0, `"Policies":[{"PA":"10.99.1.2","Type":"PA"},{"ExceptionList":["10.2.0.0/24"],"Type":"OutBoundNAT"}]`,
		`"Namespace":{"ID":"`+hostDefaultID+`"}`, `"State":2`)
	mustCreate(t, s, LoadBalancer, "BBBBBBBB-0000-0000-0000-000000000002", `{"HostComputeEndpoints":["`+endpointID+`"],
		"FrontendVIPs":["10.96.0.1"],"PortMappings":[{"Protocol":6,"ExternalPort":80,"Flags":1}]}`)
	expect("/policylists/", 0, `"ILB":true`, `"VIPs":["10.96.0.1"]`, `"References":["/endpoints/`+endpointID+`"]`)

	if err := s.Delete(Network, networkID); err != nil {
		t.Fatal(err)
	}
	expect("/endpoints/"+endpointID, EndpointNotFound, `"Success":false`)
	expect("/networks/"+networkID, NetworkNotFound, `"ErrorCode":2151350273`)
	expect("/policylists/"+networkID, NotFound, `"Success":false`)
}
