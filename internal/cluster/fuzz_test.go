package cluster

import (
	"net/url"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/desired"
)

// FuzzServer: what the cluster says of its API server becomes part of a command line on hosts, where it is one word.
func FuzzServer(f *testing.F) {
	f.Add("clusters: [{name: '', cluster: {server: 'https://api.example:6443'}}]")
	f.Add("clusters: [{name: a, cluster: {server: 'https://api/ --cert-dir=C:\\x \"'}}]")
	f.Add("{\"clusters\": null, \"users\": [1]}")
	f.Fuzz(func(t *testing.T, kubeconfig string) {
		r := reader(configMap("kube-public", "cluster-info", "kubeconfig", kubeconfig))
		var c desired.Cluster
		if err := readServer(t.Context(), r, &c); err != nil {
			if c.Server != "" {
				t.Errorf("both %q and %v", c.Server, err)
			}
			return
		}
		u, err := url.Parse(c.Server)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || strings.ContainsAny(c.Server, " \t\r\n\"'`$%^&|<>;") {
			t.Errorf("the server is %q (%v)", c.Server, err)
		}
	})
}
