package network

import (
	"encoding/json"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// someACLs returns rules that use all fields, and one that uses none.
func someACLs() []hns.ACL {
	return []hns.ACL{
		{
			Action: hns.Allow, Direction: hns.In, Protocol: hns.TCP, Priority: 1000,
			Remote:     []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("10.2.0.7/32")},
			LocalPorts: []hns.PortRange{{First: 80, Last: 80}, {First: 8000, Last: 8100}}, RemotePorts: []hns.PortRange{{First: 1024, Last: 65535}},
		},
		{Action: hns.Block, Direction: hns.Out, Priority: 65500},
	}
}

func TestACLsHaveHcnsForm(t *testing.T) {
	var got []string
	for _, d := range aclDocuments(someACLs()) {
		raw, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(raw))
	}
	want := []string{
		`{"Action":"Allow","Direction":"In","RuleType":"Host"}`,
		`{"Action":"Allow","Direction":"Out","RuleType":"Host"}`,
		`{"Action":"Allow","Direction":"In","Protocols":"6","RemoteAddresses":"10.1.0.0/16,10.2.0.7/32","LocalPorts":"80,8000-8100","RemotePorts":"1024-65535","RuleType":"Switch","Priority":1000}`,
		`{"Action":"Block","Direction":"Out","Protocols":"256","RuleType":"Switch","Priority":65500}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
	if none := aclDocuments(nil); none != nil {
		t.Errorf("no rules become %+v", none)
	}
}

func TestWrittenACLsAreRead(t *testing.T) {
	for _, acls := range [][]hns.ACL{nil, someACLs(), someACLs()[1:]} {
		if got := aclsOf(aclDocuments(acls)); !hns.SameACLs(got, acls) {
			t.Errorf("read %+v, want %+v", got, acls)
		}
	}
}

func TestOtherFormsOfACLsAreRead(t *testing.T) {
	const host = `{"Action":"Allow","Direction":"In","RuleType":"Host"},{"Action":"Allow","Direction":"Out","RuleType":"Host"}`
	allow := []hns.ACL{{Action: hns.Allow, Direction: hns.In, Priority: 900, Remote: []netip.Prefix{netip.MustParsePrefix("10.1.0.7/32")}}}
	foreign := append(slices.Clone(allow), hns.ACL{Foreign: true})
	const rule = `{"Action":"Allow","Direction":"In","Priority":900,"RuleType":"Switch","RemoteAddresses":"10.1.0.7/32"`
	for name, test := range map[string]struct {
		documents string
		want      []hns.ACL
	}{
		"none":                  {``, nil},
		"as it was written":     {host + `,` + rule + `}`, allow},
		"with another order":    {rule + `},` + host, allow},
		"any protocol":          {host + `,` + rule + `,"Protocols":"256"}`, allow},
		"with empty selectors":  {host + `,` + rule + `,"Protocols":"","LocalAddresses":"","LocalPorts":"","RemotePorts":"","Scope":0}`, allow},
		"of the first API":      {host + `,` + rule + `,"Type":"ACL","Id":"x","Protocol":256,"InternalPort":0,"LocalPort":0,"RemotePort":0,"Scope":0,"ServiceName":""}`, allow},
		"an address":            {host + `,{"Action":"Allow","Direction":"In","Priority":900,"RuleType":"Switch","RemoteAddresses":" 10.1.0.7"}`, allow},
		"host rules with all":   {`{"Action":"Allow","Direction":"In","RuleType":"Host","Protocol":256,"Priority":100},{"Action":"Allow","Direction":"Out","RuleType":"Host","Protocols":"256"},` + rule + `}`, allow},
		"no host rules":         {rule + `}`, foreign},
		"one host rule":         {host[:53] + `,` + rule + `}`, foreign},
		"host rules only":       {host, []hns.ACL{{Foreign: true}}},
		"a host rule twice":     {rule + `},` + host + `,` + host[:53], foreign},
		"another host rule":     {rule + `},` + host + `,{"Action":"Block","Direction":"In","RuleType":"Host"}`, foreign},
		"no rule type":          {host + `,` + rule + `},{"Action":"Allow","Direction":"In","Priority":900}`, foreign},
		"local addresses":       {host + `,` + rule + `},` + rule + `,"LocalAddresses":"10.1.0.8"}`, foreign},
		"a service":             {host + `,` + rule + `},` + rule + `,"ServiceName":"x"}`, foreign},
		"one port":              {host + `,` + rule + `},` + rule + `,"LocalPort":80}`, foreign},
		"one remote port":       {host + `,` + rule + `},` + rule + `,"RemotePort":80}`, foreign},
		"an internal port":      {host + `,` + rule + `},` + rule + `,"InternalPort":80}`, foreign},
		"two protocols":         {host + `,` + rule + `},` + rule + `,"Protocols":"6,17"}`, foreign},
		"a protocol by name":    {host + `,` + rule + `},` + rule + `,"Protocols":"TCP"}`, foreign},
		"a port by name":        {host + `,` + rule + `},` + rule + `,"LocalPorts":"http"}`, foreign},
		"an endless range":      {host + `,` + rule + `},` + rule + `,"RemotePorts":"80-"}`, foreign},
		"a port that is none":   {host + `,` + rule + `},` + rule + `,"RemotePorts":"80,65536"}`, foreign},
		"a list":                {host + `,` + rule + `},{"Action":"Allow","Direction":"In","Priority":900,"RuleType":"Switch","RemoteAddresses":["10.1.0.7"]}`, foreign},
		"an address set's name": {host + `,` + rule + `},{"Action":"Allow","Direction":"In","Priority":900,"RuleType":"Switch","RemoteAddresses":"azure-npm-1"}`, foreign},
	} {
		var raw []json.RawMessage
		if err := json.Unmarshal([]byte(`[`+test.documents+`]`), &raw); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var documents []aclDocument
		for _, r := range raw {
			documents = append(documents, readACL(r))
		}
		got := aclsOf(documents)
		compare := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
		if diff := cmp.Diff(test.want, got, compare); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
