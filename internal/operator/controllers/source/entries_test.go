package source

import (
	"strings"
	"testing"
	"unicode"
)

func TestParseEntries(t *testing.T) {
	tests := map[string]struct {
		key, value string
		username   string
		fault      string
		message    string
	}{
		"an IPv4 address":               {"10.1.42.1", "username=Administrator", "Administrator", "", ""},
		"a DNS name":                    {"instance.example.com", "username=core", "core", "", ""},
		"a name in upper case":          {"HOST.example.COM", "username=core", "core", "", ""},
		"a line break at the end":       {"10.1.42.1", "username=core\n", "core", "", ""},
		"a domain account":              {"10.1.42.1", `username=CORP\admin`, `CORP\admin`, "", ""},
		"an equals sign inside":         {"10.1.42.1", "username=a=b", "a=b", "", ""},
		"no username=":                  {"10.1.42.1", "Administrator", "", usernameInvalid, `"Administrator"`},
		"another field":                 {"10.1.42.1", "user=Administrator", "", usernameInvalid, "username=<user>"},
		"an empty value":                {"10.1.42.1", "", "", usernameInvalid, "empty"},
		"an empty user name":            {"10.1.42.1", "username=", "", usernameInvalid, "user name"},
		"two lines":                     {"10.1.42.1", "username=a\nport=23", "", usernameInvalid, "more than one line"},
		"an endless user name":          {"10.1.42.1", "username=" + strings.Repeat("a", 257), "", usernameInvalid, "257"},
		"256 letters of 2 bytes":        {"10.1.42.1", "username=" + strings.Repeat("ü", 256), strings.Repeat("ü", 256), "", ""},
		"257 letters of 2 bytes":        {"10.1.42.1", "username=" + strings.Repeat("ü", 257), "", usernameInvalid, "257"},
		"a blank before the name":       {"10.1.42.1", "username= core", "", usernameInvalid, "begins with a space"},
		"a blank inside the name":       {"10.1.42.1", `username=CORP\domain admin`, `CORP\domain admin`, "", ""},
		"a control character":           {"10.1.42.1", "username=co\x1b[2Jre", "", usernameInvalid, "not printable"},
		"an invisible character":        {"10.1.42.1", "username=co\u202ere", "", usernameInvalid, "not printable"},
		"a tab":                         {"10.1.42.1", "username=co\tre", "", usernameInvalid, "not printable"},
		"loopback":                      {"127.0.0.1", "username=a", "", addressInvalid, "loopback"},
		"name with a trailing dot":      {"instance.example.com.", "username=core", "core", "", ""},
		"address with a trailing dot":   {"10.1.42.1.", "username=core", "", addressInvalid, "IPv4"},
		"single dot":                    {".", "username=core", "", addressInvalid, "IPv4"},
		"name with two trailing dots":   {"instance.example.com..", "username=core", "", addressInvalid, "DNS name"},
		"an IPv6 address":               {"2001:db8::1", "username=a", "", addressInvalid, "IPv6"},
		"three numbers":                 {"10.1.42", "username=a", "", addressInvalid, "IPv4"},
		"a number that is too big":      {"10.1.42.256", "username=a", "", addressInvalid, "IPv4"},
		"an underscore":                 {"my_host", "username=a", "", addressInvalid, "DNS name"},
		"a name without a dot":          {"host", "username=a", "", addressInvalid, "has no dot, and the operator does not complete names"},
		"name with only a trailing dot": {"host.", "username=a", "", addressInvalid, "has no dot"},
		"a Service":                     {"win1.lan.svc.cluster.local", "username=a", "", addressInvalid, "the cluster's own DNS"},
		"a Service in short":            {"win1.lan.svc.", "username=a", "", addressInvalid, "the cluster's own DNS"},
		"a pod":                         {"10-0-0-1.lan.pod.Cluster.Local", "username=a", "", addressInvalid, "the cluster's own DNS"},
		"localhost":                     {"win1.localhost", "username=a", "", addressInvalid, "loopback"},
		"a domain called svc":           {"win1.svc.example.com", "username=core", "core", "", ""},
		"a name with a port":            {"host:22", "username=a", "", addressInvalid, "DNS name"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			entries, faults := parseEntries(map[string]string{test.key: test.value, "zz.example": "username=bystander"}, nil)
			if test.fault == "" {
				if len(faults) != 0 || len(entries) != 2 || entries[0].username != test.username {
					t.Errorf("entries %+v, faults %+v", entries, faults)
				}
				return
			}
			if len(entries) != 1 || entries[0].username != "bystander" {
				t.Errorf("the good entry did not survive: %+v", entries)
			}
			if len(faults) != 1 || faults[0].kind != test.fault || !strings.Contains(faults[0].message, test.message) {
				t.Errorf("faults %+v, want %s containing %q", faults, test.fault, test.message)
			}
		})
	}
}

func FuzzParseEntries(f *testing.F) {
	f.Add("10.0.0.1", "username=a")
	f.Add("::1", "")
	f.Add("Ä", "username=\x00")
	f.Fuzz(func(t *testing.T, key, value string) {
		entries, faults := parseEntries(map[string]string{key: value}, nil)
		if len(entries)+len(faults) != 1 {
			t.Fatalf("one entry became %d entries and %d faults", len(entries), len(faults))
		}
		if len(entries) == 1 && (entries[0].username == "" || strings.ContainsFunc(entries[0].username, unicode.IsControl)) {
			t.Errorf("user name %q was accepted", entries[0].username)
		}
	})
}
