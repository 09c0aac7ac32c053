package hns

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTheFirstGenerationSeesTheSameObjects makes the calls of hcsshim's internal/shared/hns in turn, on a store with a network, an endpoint and a namespace.
func TestTheFirstGenerationSeesTheSameObjects(t *testing.T) {
	s := newStore(t)
	made := 0
	const vip = "FFFFFFFF-0000-0000-0000-000000000003"
	newID := func() string {
		made++
		return fmt.Sprintf("FFFFFFFF-0000-0000-0000-%012d", made)
	}
	for _, test := range []struct {
		method, path, body string
		want               string // in the answer
		code               Code
	}{
		{"GET", "/globals/version", "", `{"Output":{"Major":15,"Minor":4},"Success":true}`, 0},
		{"GET", "/networks/", "", `"ManagementIP":"10.99.1.2","Name":"pods"`, 0},
		{"GET", "/networks/" + networkID, "", `"Subnets":[{"AddressPrefix":"10.1.0.0/16","GatewayAddress":"10.1.0.1"}],"Type":"Overlay"`, 0},
		{"GET", "/endpoints/", "", `"GatewayAddress":"10.1.0.1","ID":"` + endpointID + `","IPAddress":"10.1.0.7"`, 0},
		{"GET", "/endpointstats/" + endpointID, "", `"EndpointId":"` + endpointID + `"`, 0},
		{"GET", "/policylists/", "", `{"Output":[],"Success":true}`, 0},
		{"GET", "/plugins/", "", `"Success":false`, Unsupported},

		{"POST", "/networks/", `{"Name":"old","Type":"overlay","Subnets":[{"AddressPrefix":"10.2.0.0/24","GatewayAddress":"10.2.0.1",
			"Policies":[{"Type":"VSID","VSID":4096}]}],"NetworkAdapterName":"Ethernet"}`, `"ID":"FFFFFFFF-0000-0000-0000-000000000001"`, 0},
		{"GET", "/networks/FFFFFFFF-0000-0000-0000-000000000001", "", `"Policies":[{"NetworkAdapterName":"Ethernet","Type":"NetAdapterName"}]`, 0},
		{"GET", "/networks/FFFFFFFF-0000-0000-0000-000000000001", "", `"Policies":[{"Type":"VSID","VSID":4096}]`, 0},
		{"POST", "/networks/", `{"Name":"old"}`, `"ErrorCode":2151350288`, NetworkExists},

		{"POST", "/endpoints/", `{"Name":"vip","VirtualNetwork":"FFFFFFFF-0000-0000-0000-000000000001","Policies":[{"Type":"PA","PA":"10.99.1.2"},
			{"Type":"OutBoundNAT","ExceptionList":["10.2.0.0/24"]}]}`, `"IPAddress":"10.2.0.2"`, 0},
		{"GET", "/endpoints/" + vip, "",
			`"Policies":[{"PA":"10.99.1.2","Type":"PA"},{"ExceptionList":["10.2.0.0/24"],"Type":"OutBoundNAT"}]`, 0},
		{"POST", "/endpoints/" + vip, `{"Policies":[{"Type":"ACL","Action":"Allow"}]}`, `"Policies":[{"Action":"Allow","Type":"ACL"}]`, 0},
		{"POST", "/endpoints/" + vip + "/attach", `{"SystemType":"Host","CompartmentId":1}`, `"Success":true`, 0},
		{"GET", "/endpoints/" + vip, "", `"Namespace":{"ID":"` + hostDefaultID + `"}`, 0},
		{"POST", "/endpoints/" + vip + "/attach", `{"SystemType":"Host","CompartmentId":1}`, `"Success":false`, AlreadyAttached},
		{"POST", "/endpoints/" + vip + "/detach", `{"SystemType":"Host"}`, `"Success":true`, 0},
		{"GET", "/endpoints/" + vip, "", `"State":1`, 0},

		{"POST", "/namespaces/", `{}`, `"CompartmentId":3,"ID":"FFFFFFFF-0000-0000-0000-000000000004"`, 0},
		{"POST", "/namespaces/FFFFFFFF-0000-0000-0000-000000000004/addresource", `{"Type":"Endpoint","Data":{"Id":"` + endpointID + `"}}`,
			`"ResourceList":[{"Data":{"Id":"` + endpointID + `"},"Type":"Endpoint"}]`, 0},
		{"POST", "/namespaces/FFFFFFFF-0000-0000-0000-000000000004/removeresource", `{"Type":"Endpoint","Data":{"Id":"` + endpointID + `"}}`, `"Success":true`, 0},

		{"POST", "/policylists/", `{"References":["/endpoints/` + endpointID + `"],
			"Policies":[{"Type":"ELB","VIPs":["10.96.0.1"],"Protocol":6,"ExternalPort":80,"ILB":true}]}`,
			`"References":["/endpoints/` + endpointID + `"]`, 0},
		{"POST", "/policylists/", `{"References":["/endpoints/` + endpointID + `"],
			"Policies":[{"Type":"ROUTE","DestinationPrefix":"10.96.0.0/12","NeedEncap":true}]}`,
			`"Policies":[{"DestinationPrefix":"10.96.0.0/12","NeedEncap":true,"Type":"ROUTE"}]`, 0},
		{"GET", "/policylists/", "", `"ILB":true`, 0},
		{"DELETE", "/policylists/FFFFFFFF-0000-0000-0000-000000000006", "", `"Success":true`, 0},
		{"DELETE", "/policylists/FFFFFFFF-0000-0000-0000-000000000006", "", `"Success":false`, NotFound},

		{"DELETE", "/endpoints/" + endpointID, "", `"Success":true`, 0},
		{"GET", "/endpoints/" + endpointID, "", `"Success":false`, EndpointNotFound},
		{"DELETE", "/networks/" + networkID, "", `"Success":true`, 0},
		{"GET", "/networks/" + networkID, "", `"Success":false`, NetworkNotFound},
	} {
		answer, err := s.Call(test.method, test.path, test.body, newID)
		if strings.Contains(test.body, `"Type":"PA"`) { // which has another name in the second generation
			document, err := s.Properties(Endpoint, vip)
			if want := `"Settings":{"ProviderAddress":"10.99.1.2"},"Type":"ProviderAddress"`; !strings.Contains(document, want) || err != nil {
				t.Errorf("the endpoint is %s (%v), want %s in it", document, err, want)
			}
		}
		if !strings.Contains(answer, test.want) || CodeOf(err) != test.code {
			t.Errorf("%s %s: %s (%v), want %s in it and %v", test.method, test.path, answer, err, test.want, test.code)
		}
	}
	if diff := cmp.Diff([]string{"old"}, names(t, s, Network, "")); diff != "" {
		t.Error(diff)
	}
}
