package desired_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

func TestCNIConfigurationIsFilledForTheNode(t *testing.T) {
	for name, test := range map[string]struct {
		template, want string
	}{
		"all fields": {
			`{"name": "l2", "type": "win-bridge", "subnet": "{{.PodCIDR}}", "node": "{{ .NodeIP }}", "dns": "{{.ClusterDNS}}", "services": "{{.ServiceCIDR}}"}`,
			`{"name": "l2", "type": "win-bridge", "subnet": "10.244.3.0/24", "node": "10.1.2.3", "dns": "10.96.0.10", "services": "10.96.0.0/16"}`,
		},
		"all ranges of Services": {
			`{"name": "l2", "type": "t", "services": [{{range $i, $r := .ServiceCIDRs}}{{if $i}},{{end}}"{{$r}}"{{end}}], "subnet": {{printf "%q" .PodCIDR}}}`,
			`{"name": "l2", "type": "t", "services": ["10.96.0.0/16","10.200.0.0/16"], "subnet": "10.244.3.0/24"}`,
		},
		"an added field": {`{"name": "l2", "type": "t", "if": {{if .NodeIP}}1{{else}}2{{end}}}`, `{"name": "l2", "type": "t", "if": 1}`},
	} {
		t.Run(name, func(t *testing.T) {
			in := inputs()
			in.Config.Network, in.Cluster.ServiceCIDRs, in.Cluster.DNSServers = custom(test.template), []string{"10.96.0.0/16", "10.200.0.0/16"}, []string{"10.96.0.10"}
			rendered, err := desired.Render(in)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := rendered.Node.CNI.Fill("10.244.3.0/24", "10.1.2.3"); err != nil || got != test.want {
				t.Errorf("got %s, %v\nwant %s", got, err, test.want)
			}
		})
	}
}

func TestTemplatesOnlyInsertTheFieldsOfNodes(t *testing.T) {
	for _, template := range []string{
		`{"name": "x", "type": "t", "net": "{{slice .PodCIDR 0 4}}"}`,
		`{"name": "x", "type": "t", "net": "{{if eq .NodeIP "192.0.2.1"}}a{{else}}b{{end}}"}`,
		`{"name": "x", "type": "t", "net": "{{len .PodCIDR}}"}`,
		`{"name": "x", "type": "t", "text": "{{"{{.PodCIDR}}"}}"}`,
	} {
		in := inputs()
		in.Config.Network = custom(template)
		_, err := desired.Render(in)
		if !errors.Is(err, desired.ErrNetwork) || !strings.Contains(err.Error(), "spec.network.custom.cniConfig: .PodCIDR and .NodeIP can only be inserted") {
			t.Errorf("%s: %v", template, err)
		}
	}
}

func FuzzCNIFill(f *testing.F) {
	f.Add(bridge)
	f.Add(`{{range .}}{{end}}`)
	f.Add(`{"name":"{{.NodeIP}}","type":"a"}`)
	f.Fuzz(func(t *testing.T, content string) {
		text, err := desired.CNI{Content: content}.Fill("10.0.0.0/24", "192.0.2.1")
		if err == nil && !json.Valid([]byte(text)) {
			t.Errorf("%q was filled to %q, which is not JSON", content, text)
		}
		in := inputs()
		in.Config.Network = v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkCustom, Custom: &v1alpha1.CustomNetwork{CNIConfig: content}}
		if rendered, err := desired.Render(in); err == nil {
			if _, err := rendered.Node.CNI.Fill("172.16.0.0/20", "198.51.100.7"); err != nil {
				t.Errorf("a node cannot fill in %q: %v", content, err)
			}
		}
	})
}
