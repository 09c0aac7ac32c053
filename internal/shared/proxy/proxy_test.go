package proxy

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http/httpproxy"
)

const (
	plainURL  = "http://proxy.example.com:3128"
	secretURL = "http://user:hunter2@proxy.example.com:3128"
)

func inside() Inside {
	return Inside{
		Networks:  []string{"10.128.0.0/14", "172.30.0.0/16", "10.0.0.0/24", "192.168.7.9"},
		APIServer: "api-int.c.example.com",
		Domain:    "cluster.local",
	}
}

const clusterNoProxy = ".cluster.local,.svc,10.0.0.0/24,10.128.0.0/14,127.0.0.1,169.254.169.254,172.30.0.0/16,192.168.7.9,api-int.c.example.com,localhost"

func settings(http, https, noProxy string) Config {
	return Config{Object: "Proxy cluster", Path: "status", HTTPProxy: http, HTTPSProxy: https, NoProxy: noProxy}
}

func TestClusterProxyBecomesEnvironment(t *testing.T) {
	tests := map[string]struct {
		in            Config
		plain, secret map[string]string
	}{
		"no proxy, no variables":            {settings("", "", ""), nil, nil},
		"exceptions without proxy are none": {settings("", " ", "example.com"), nil, nil},
		"one proxy":                         {settings(plainURL, "", ""), map[string]string{HTTPProxy: plainURL, NoProxy: clusterNoProxy}, nil},
		"spaces are removed":                {settings("", " "+plainURL+"/ ", ""), map[string]string{HTTPSProxy: plainURL + "/", NoProxy: clusterNoProxy}, nil},
		"a user and password are secret":    {settings(plainURL, secretURL, ""), map[string]string{HTTPProxy: plainURL, NoProxy: clusterNoProxy}, map[string]string{HTTPSProxy: secretURL}},
		// https://docs.redhat.com/en/documentation/openshift_container_platform/4.14/html/networking/enable-cluster-wide-proxy
		"a user of a domain":                         {settings(`http://CORP%5Csvc-user:pa%24s@proxy:8080`, "", ""), map[string]string{NoProxy: clusterNoProxy}, map[string]string{HTTPProxy: `http://CORP%5Csvc-user:pa%24s@proxy:8080`}},
		"@ in the password":                          {settings("http://user:p@ss@proxy:8080", "", ""), map[string]string{NoProxy: clusterNoProxy}, map[string]string{HTTPProxy: "http://user:p@ss@proxy:8080"}},
		"a user alone is secret":                     {settings("http://user@proxy", "", ""), map[string]string{NoProxy: clusterNoProxy}, map[string]string{HTTPProxy: "http://user@proxy"}},
		"an address of IPv6 and https":               {settings("HTTPS://[fd00::1]:8443", "", ""), map[string]string{HTTPProxy: "HTTPS://[fd00::1]:8443", NoProxy: clusterNoProxy}, nil},
		"noProxy covers everything":                  {settings(plainURL, secretURL, "example.com, *"), nil, nil},
		"the user's entries come first and in order": {settings(plainURL, "", "z.com,10.9.0.1,a.com:8080"), map[string]string{HTTPProxy: plainURL, NoProxy: "z.com,10.9.0.1,a.com:8080," + clusterNoProxy}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			plain, secret, err := Render(test.in, inside())
			if err != nil {
				t.Fatal(err)
			}
			if plain == nil || !maps.Equal(plain, test.plain) {
				t.Errorf("plain: %s", cmp.Diff(test.plain, plain))
			}
			if secret == nil || !maps.Equal(secret, test.secret) {
				t.Errorf("secret: %s", cmp.Diff(test.secret, secret))
			}
		})
	}
}

func TestExceptionsAreMerged(t *testing.T) {
	tests := map[string]struct {
		users  string
		inside Inside
		want   string
	}{
		// As written by cluster-network-operator to status.noProxy on AWS and GCP.
		"a list with the cluster's own entries is unchanged": {
			".cluster.local,.ec2.internal,.svc,10.0.0.0/16,10.128.0.0/14,127.0.0.1,169.254.169.254,172.30.0.0/16,api-int.c.example.com,etcd-0.,localhost,metadata.google.internal.",
			Inside{Networks: []string{"10.128.0.0/14", "172.30.0.0/16", "10.0.44.3"}, APIServer: "api-int.c.example.com", Domain: "cluster.local"},
			".cluster.local,.ec2.internal,.svc,10.0.0.0/16,10.128.0.0/14,127.0.0.1,169.254.169.254,172.30.0.0/16,api-int.c.example.com,etcd-0.,localhost,metadata.google.internal.",
		},
		"empty entries, spaces and line breaks are removed": {
			" ,b.com , ,\n\ta.com\n,", Inside{},
			"b.com,a.com,.svc,127.0.0.1,169.254.169.254,localhost",
		},
		"duplicates in any spelling are removed": {
			"a.com,A.com,10.0.0.1,10.0.0.1/32,10.1.2.3/16,10.1.0.0/16,::ffff:10.0.0.1,LOCALHOST,.SVC", Inside{Domain: "d", APIServer: "A.COM"},
			"a.com,10.0.0.1,10.1.2.3/16,LOCALHOST,.SVC,.d,127.0.0.1,169.254.169.254",
		},
		"covered entries are not added": {
			"127.0.0.0/8,169.254.0.0/16", Inside{Networks: []string{"10.0.3.4", "10.0.0.0/16", "10.0.8.0/24", "fd00::5", "fd00::/64", "10.0.0.0/16"}},
			"127.0.0.0/8,169.254.0.0/16,.svc,10.0.0.0/16,fd00::/64,localhost",
		},
		"a range within a cluster network covers only itself": {
			"10.0.0.0/24,fd00::1", Inside{Networks: []string{"10.0.0.0/16", "fd00::/64"}},
			"10.0.0.0/24,fd00::1,.svc,10.0.0.0/16,127.0.0.1,169.254.169.254,fd00::/64,localhost",
		},
		"the result does not depend on the order of the networks": {
			"", Inside{Networks: []string{"10.2.0.0/16", "10.1.0.1"}, APIServer: "10.1.0.1"},
			".svc,10.1.0.1,10.2.0.0/16,127.0.0.1,169.254.169.254,localhost",
		},
		"a covered name is added, because not all programs support subdomains": {
			"example.com", Inside{APIServer: "api-int.example.com"},
			"example.com,.svc,127.0.0.1,169.254.169.254,api-int.example.com,localhost",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			plain, _, err := Render(settings(plainURL, "", test.users), test.inside)
			if err != nil {
				t.Fatal(err)
			}
			if got := plain[NoProxy]; got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			again, _, err := Render(settings(plainURL, "", plain[NoProxy]), test.inside)
			if err != nil || again[NoProxy] != plain[NoProxy] {
				t.Errorf("merged with itself: %s, %v", again[NoProxy], err)
			}
		})
	}
}

// asGo decides with the code that containerd and the kubelet use.
func asGo(t *testing.T, environment map[string]string, target string) string {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	config := httpproxy.Config{HTTPProxy: environment[HTTPProxy], HTTPSProxy: environment[HTTPSProxy], NoProxy: environment[NoProxy]}
	through, err := config.ProxyFunc()(u)
	if err != nil {
		t.Fatal(err)
	}
	if through == nil {
		return ""
	}
	return through.Redacted()
}

func TestInternalDestinationsBypassProxy(t *testing.T) {
	plain, secret, err := Render(settings("http://web:3128", "https://user:hunter2@tls:8443", "mirror.example.com:5000,.corp.example.com,*.lab.example.com,10.9.0.0/16,10.8.0.1"), inside())
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(plain, secret)
	const web, tls = "http://web:3128", "https://user:xxxxx@tls:8443"
	for target, want := range map[string]string{
		"https://10.128.3.4:8443":                      "", // pod
		"http://10.131.255.255":                        "",
		"https://172.30.0.1:443":                       "", // service
		"https://api-int.c.example.com:6443":           "",
		"http://registry.ns.svc:5000":                  "",
		"https://registry.ns.svc.cluster.local":        "",
		"https://10.0.0.77:10250":                      "", // node, by its range
		"https://192.168.7.9:10250":                    "", // node, by its address
		"http://localhost:8080":                        "",
		"http://127.0.0.1:10248":                       "",
		"http://169.254.169.254/latest/meta-data":      "",
		"https://mirror.example.com:5000":              "", // the user's
		"https://a.corp.example.com":                   "",
		"https://a.lab.example.com":                    "",
		"https://10.9.200.1":                           "",
		"http://10.8.0.1:5000":                         "",
		"https://mirror.example.com":                   tls,
		"https://corp.example.com":                     tls,
		"https://mcr.microsoft.com/v2/":                tls,
		"http://mcr.microsoft.com":                     web,
		"https://api.c.example.com:6443":               tls,
		"https://10.0.1.1":                             tls,
		"https://172.31.0.1":                           tls,
		"https://notsvc":                               tls,
		"https://192.168.7.10":                         tls,
		"https://169.254.169.253":                      tls,
		"https://cluster.local.evil.example.com:30000": tls,
	} {
		if got := asGo(t, plain, target); got != want {
			t.Errorf("%s goes through %q, want %q", target, got, want)
		}
	}
}

func TestInvalidProxyErrorsHideSecrets(t *testing.T) {
	tests := map[string]struct {
		in   Config
		want []string
	}{
		"socks5":                 {settings("socks5://user:hunter2@proxy:1080", "", ""), []string{"Proxy cluster: status.httpProxy does not begin with http:// or https://"}},
		"user of a domain":       {settings(`http://CORP\svc-user:hunter2@proxy:8080`, "", ""), []string{"status.httpProxy"}},
		"no scheme and user":     {settings("user:hunter2@proxy:3128", "", ""), []string{"status.httpProxy does not begin with"}},
		"line break":             {settings("", "http://user:hunter2@proxy:3128\nX=1", ""), []string{"status.httpsProxy is not a URL"}},
		"NUL":                    {settings("", "http://user:hunter2@proxy\x00:3128", ""), []string{"status.httpsProxy is not a URL"}},
		"no host":                {settings("http://user:hunter2@:3128", "", ""), []string{"no valid host"}},
		"no host, no slashes":    {settings("http:hunter2", "", ""), []string{"no valid host"}},
		"host of other letters":  {settings("http://pröxy:3128", "", ""), []string{"no valid host"}},
		"address with a zone":    {settings("http://[fe80::1%25eth0]:3128", "", ""), []string{"no valid host"}},
		"forgotten @":            {settings("http://user:hunter2", "", ""), []string{"is not a URL"}},
		"port out of range":      {settings("http://proxy:70000", "", ""), []string{"no valid port"}},
		"password with slash":    {settings("http://user:1/hunter2@proxy:3128", "", ""), []string{"%-encode"}},
		"password with hash":     {settings("http://user:1#hunter2@proxy:3128", "", ""), []string{"%-encode"}},
		"password with question": {settings("http://user:1?hunter2@proxy:3128", "", ""), []string{"%-encode"}},
		"empty port":             {settings("http://proxy:", "", ""), []string{"no valid port"}},
		"long entry":             {settings(plainURL, "", strings.Repeat("x;", 5000)), []string{`"x;x;`}},
		"wrong without use":      {settings("", "", "a;b"), []string{`"a;b"`}},
		"path":                   {settings("http://proxy:3128/hunter2", "", ""), []string{"after host and port"}},
		"semicolons":             {settings(plainURL, "", "a.com;b.com"), []string{`Proxy cluster: status.noProxy has invalid entries (1): "a.com;b.com"; allowed:`, "commas"}},
		"line break between":     {settings(plainURL, "", "a.com\nHTTP_PROXY=x"), []string{`"a.com\nHTTP_PROXY=x"`}},
		"beginning of an address": {settings(plainURL, "", "10.0.,192.168.1.300,10.0.0.0/33,1:2"),
			[]string{`"10.0.", "192.168.1.300", "10.0.0.0/33", "1:2"`}},
		"ports":            {settings(plainURL, "", "a.com:0,a.com:,a.com:70000,a.com:080,10.0.0.1:0,:80"), []string{`"a.com:0", "a.com:", "a.com:70000", "a.com:080", "10.0.0.1:0", ":80"`}},
		"brackets":         {settings(plainURL, "", "[fd00::1],fe80::1%eth0"), []string{`"[fd00::1]", "fe80::1%eth0"`}},
		"quotes":           {settings(plainURL, "", `"a.com"`), []string{"has invalid entries (1)"}},                      // https://issues.redhat.com/browse/OCPBUGS-43570
		"URL without user": {settings(plainURL, "", "https://registry.example.com"), []string{"has invalid entries (1)"}}, // https://github.com/openshift/openshift-docs/issues/25195
		"URL as entry":     {settings(plainURL, "", "http://user:hunter2@host"), []string{"invalid entries (1): an entry with @"}},
		"many":             {settings(plainURL, "", strings.Repeat("a;b,", 500)), []string{"invalid entries (500)", `"a;b"`}},
		"all at once":      {settings("ftp://hunter2", "http://", "a;b"), []string{"status.httpProxy", "status.httpsProxy", "status.noProxy"}},
		"too long":         {settings(plainURL, "", many()), []string{"status.noProxy and the cluster's own entries have", "32767"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			plain, secret, err := Render(test.in, inside())
			if err == nil {
				t.Fatalf("accepted: %v %v", plain, secret)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %s", want, err)
				}
			}
			if strings.Contains(err.Error(), "hunter2") || len(err.Error()) > 1000 || plain != nil || secret != nil {
				t.Errorf("the error is too long or has the secret: %s %v %v", err, plain, secret)
			}
		})
	}
}

// many returns more entries than a variable can hold.
func many() string {
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, "registry-%d.example.com,", i)
	}
	return b.String()
}

func TestInvalidClusterValuesAreNamed(t *testing.T) {
	for name, in := range map[string]Inside{
		"range":      {Networks: []string{"10.0.0.0/99"}},
		"API server": {APIServer: "https://10.0.0.0/99"},
		"domain":     {Domain: "10.0.0.0/99"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Render(settings(plainURL, "", ""), in)
			if err == nil || !strings.Contains(err.Error(), `10.0.0.0/99", which belongs to the cluster`) {
				t.Error(err)
			}
		})
	}
}

// FuzzRender checks the output as Go reads it: no password in plain variables, no character that breaks out of a
// variable, no duplicates, and destinations inside never go through the proxy.
func FuzzRender(f *testing.F) {
	f.Add(plainURL, secretURL, "a.com,10.0.0.0/8", "10.128.0.0/14", "api.example.com")
	f.Add("https://[::1]:1/", "http://a:b%40@c", "*.a.com:80, [::1]:443,::/0", "fd00::/48", "10.0.0.1")
	f.Add("socks5://x", "http://a:1/b@c", "::ffff:10.0.0.0/104,1.2.3.4:80", "::ffff:1.2.3.4", "a.")
	f.Fuzz(func(t *testing.T, http, https, noProxy, network, apiServer string) {
		in := Inside{Networks: []string{network}, APIServer: apiServer, Domain: "cluster.local"}
		plain, secret, err := Render(settings(http, https, noProxy), in)
		if err != nil || len(plain)+len(secret) == 0 {
			return
		}
		for _, v := range plain {
			if strings.Contains(v, "@") {
				t.Errorf("%q may hold a password", v)
			}
		}
		all := maps.Clone(plain)
		maps.Copy(all, secret)
		if len(all) != len(plain)+len(secret) {
			t.Errorf("a name is in both maps: %v %v", plain, secret)
		}
		for name, v := range all {
			if strings.ContainsAny(v, "\x00\r\n\t \"") { // a password may contain ;
				t.Errorf("%s has strange characters: %q", name, v)
			}
		}
		entries := strings.Split(all[NoProxy], ",")
		slices.Sort(entries)
		if len(slices.Compact(slices.Clone(entries))) != len(entries) || slices.Contains(entries, "") {
			t.Errorf("entries are empty or duplicate: %q", entries)
		}
		again, _, err := Render(settings(http, https, all[NoProxy]), in)
		if err != nil || again[NoProxy] != all[NoProxy] {
			t.Errorf("merged with itself: %q %v", again[NoProxy], err)
		}
		for _, target := range []string{"registry.ns.svc", "a.b.svc.cluster.local", bracketed(network), bracketed(apiServer)} {
			if target == "" {
				continue
			}
			for _, scheme := range []string{"http://", "https://"} {
				if through := asGo(t, all, scheme+target); through != "" {
					t.Errorf("%s goes through %s; NO_PROXY=%s", scheme+target, through, all[NoProxy])
				}
			}
		}
	})
}

// bracketed returns the URL host for a network, by its first address, or for a name.
func bracketed(s string) string {
	s, _, _ = strings.Cut(s, "/")
	if n, ok := parseNetwork(s); ok && !n.Addr().Is4() {
		return "[" + n.Addr().String() + "]"
	}
	return s
}

func TestHostsOfProxies(t *testing.T) {
	got := Hosts(map[string]string{HTTPProxy: "http://u:p@proxy.example.com:3128", HTTPSProxy: "https://secure.example.com", NoProxy: "other.example.com"})
	if want := []string{"proxy.example.com:3128", "secure.example.com"}; !slices.Equal(got, want) {
		t.Errorf("Hosts() = %q, want %q", got, want)
	}
	for text, want := range map[string][]string{"": nil, "%": nil, "127.0.0.1:3128": {"127.0.0.1:3128"}, "proxy:3128": {"proxy:3128"}, "proxy": {"proxy"}} {
		if got := Hosts(map[string]string{HTTPSProxy: text}); !slices.Equal(got, want) {
			t.Errorf("of %q, the hosts are %q, want %q", text, got, want)
		}
	}
}
