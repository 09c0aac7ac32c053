package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"mvdan.cc/sh/v3/expand"
)

// runIn runs a program in a folder.
func runIn(t *testing.T, dir string, args ...string) (out string, status int) {
	t.Helper()
	var b bytes.Buffer
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	c := call{args: args, dir: dir, env: expand.ListEnviron("NAME=value", "JOB_COMPLETION_INDEX=3"), in: in, out: &b, err: io.Discard}
	status = c.run(t.Context())
	return b.String(), status
}

// TestShellRunsScripts runs scripts like those that Kubernetes' tests run in their pods.
func TestShellRunsScripts(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		out    string
		status int
	}{
		"exit code":                  {"exit 42", "", 42},
		"condition":                  {"if [ -f restart ]; then exit 1; else touch restart; exit 42; fi", "", 42},
		"condition with brackets":    {`if [[ -r foo ]]; then exit 0; else touch foo; exit 1; fi`, "", 1},
		"shell arithmetic":           {"exit $(( 32767 / 16384 ))", "", 1},
		"arithmetic with expr":       {`if [ $(expr ${JOB_COMPLETION_INDEX} % 2) -ne 0 ]; then exit 1; fi`, "", 1},
		"wc and awk":                 {`f=count; n=$(echo hello >> $f ; wc -l $f | awk {'print $1'}); if [ $n -eq 1 ]; then exit 7; fi`, "", 7},
		"environment variable":       {"env | grep -E '(NAME|OTHER)' | sort", "NAME=value\n", 0},
		"program with a path":        {"/bin/echo -n DONE > message; cat message", "DONE", 0},
		"writing and reading a file": {"echo ok >health; /bin/cat health; rm -rf health; cat health", "ok\n", 1},
		"loop":                       {"for i in $(seq 1 3); do echo $i; done", "1\n2\n3\n", 0},
		"grep without a match":       {"echo a | grep b", "", 1},
		"mkdir":                      {"mkdir -p a/b && test -d a/b; echo $?", "0\n", 0},
		"mv":                         {"mkdir to; echo a > f; mv -v f to/ > log; mv to/f g; cat g; test -f f", "a\n", 1},
		"tail from a line":           {"seq 3 | tail -n +2", "2\n3\n", 0},
		"tail":                       {"seq 3 | tail -n 1", "3\n", 0},
		"head":                       {"seq 3 | head -n 1", "1\n", 0},
		"nested shell":               {`sh -c 'echo "$NAME"; exit 3'`, "value\n", 3},
		"command with arguments":     {`sh -c 'echo $1' name first`, "first\n", 0},
		"background process":         {"sleep 0.01 & exit 1", "", 1},
		"timeout of sleep":           {"timeout 0.05 sleep 10", "", 143},
		"timeout of tail":            {"timeout 0.1 tail -f /dev/null", "", 143},
		"output to /dev/null":        {"echo a > /dev/null; echo b", "b\n", 0},
		"unknown program":            {"no-such-program", "", statusNotFound},
		"syntax error":               {"if", "", statusSyntax},
		"set -x":                     {"set -x; true", "", 0},
	} {
		if out, status := runIn(t, t.TempDir(), "sh", "-c", test.script); out != test.out || status != test.status {
			t.Errorf("%s: got output %q and exit code %d, want %q and %d", name, out, status, test.out, test.status)
		}
	}
}

// TestNameSelectsProgram runs programs like pods that have their names as commands.
func TestNameSelectsProgram(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "it's a file"), []byte("content\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		out  string
	}{
		{[]string{"cat", "it's a file"}, "content\n"},
		{[]string{"echo", "two  words", "$NAME"}, "two  words $NAME\n"},
		{[]string{"printenv", "NAME"}, "value\n"},
		{[]string{"stat", "-c", "%s", "it's a file"}, "8\n"},
		{[]string{"hexdump", "-C", "it's a file"}, "00000000  63 6f 6e 74 65 6e 74 0a                           |content.|\n"},
		{[]string{"sh", "-c", "echo $1", "sh", "one"}, "one\n"},
	} {
		if out, status := runIn(t, dir, test.args...); status != 0 || out != test.out {
			t.Errorf("%q: got output %q and exit code %d, want %q and 0", test.args, out, status, test.out)
		}
	}
}

func TestNameOf(t *testing.T) {
	for path, want := range map[string]string{
		"sh": "sh", "/bin/sh": "sh", "C:/bin/SH.EXE": "sh", "/usr/bin/awk": "awk", "tools.exe": "tools", "/agnhost": "/agnhost", "./cat": "./cat", "cat": "cat",
	} {
		if name := nameOf(path); name != want {
			t.Errorf("got name %q of %s, want %q", name, path, want)
		}
	}
}

func TestNetworkClients(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/missing" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(r.Method + " " + r.URL.Path + " " + string(body)))
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	for _, test := range []struct {
		script string
		out    string
		status int
	}{
		{"curl -q -s --connect-timeout 2 http://" + address + "/a", "GET /a ", 0},
		{"curl -g -q -s -o /dev/null -w %{http_code} http://" + address + "/missing", "404", 0},
		{"curl -s -f " + address + "/missing", "", curlStatus},
		{"curl -4 " + address + "/a --connect-timeout 10 --fail", "GET /a ", 0},
		{"curl -k -i -sS -X POST -d body " + address + "/p | tail -n 1", "POST /p body", 0},
		{"curl -q -s --connect-timeout 2 http://" + closed.Addr().String(), "", curlConnect},
		{`wget -O- --post-data='{"Source": "prestop"}' http://` + address + "/write", `POST /write {"Source": "prestop"}`, 0},
		{"wget -T 5 -qO- " + address + "/w", "GET /w ", 0},
		{"wget -q -O - " + address + "/missing", "", 1},
		{"echo x | nc -v -t -w 1 " + strings.Replace(closed.Addr().String(), ":", " ", 1), "", 1},
		{"nc -z -w 1 " + strings.Replace(address, ":", " ", 1), "", 0},
	} {
		if out, status := runIn(t, t.TempDir(), "sh", "-c", test.script); out != test.out || status != test.status {
			t.Errorf("%s: got output %q and exit code %d, want %q and %d", test.script, out, status, test.out, test.status)
		}
	}
}

// TestDNSClients queries a server like Kubernetes' DNS tests.
func TestDNSClients(t *testing.T) {
	records := map[dns.Question]string{
		{Name: "web.test.", Qtype: dns.TypeA, Qclass: dns.ClassINET}:                 "web.test. 5 IN A 10.96.0.9",
		{Name: "_http._tcp.web.test.", Qtype: dns.TypeSRV, Qclass: dns.ClassINET}:    "_http._tcp.web.test. 5 IN SRV 0 100 80 web.test.",
		{Name: "9.0.96.10.in-addr.arpa.", Qtype: dns.TypePTR, Qclass: dns.ClassINET}: "9.0.96.10.in-addr.arpa. 5 IN PTR web.test.",
		{Name: "alias.test.", Qtype: dns.TypeCNAME, Qclass: dns.ClassINET}:           "alias.test. 5 IN CNAME web.test.",
	}
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, query *dns.Msg) {
		reply := new(dns.Msg).SetRcode(query, dns.RcodeNameError)
		if text, known := records[query.Question[0]]; known {
			record, err := dns.NewRR(text)
			if err != nil {
				t.Error(err)
			}
			reply.Rcode, reply.Answer = dns.RcodeSuccess, []dns.RR{record}
		}
		_ = w.WriteMsg(reply)
	})
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range []*dns.Server{{Listener: tcp, Handler: handler}, {PacketConn: udp, Handler: handler}} {
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		go func() { _ = server.ActivateAndServe() }()
		<-started
		defer server.Shutdown()
	}
	_, port, _ := net.SplitHostPort(tcp.Addr().String())
	for _, test := range []struct{ args, out string }{
		{"+notcp +noall +answer +search web.test A", "web.test.\t5\tIN\tA\t10.96.0.9\n"},
		{"+tcp +noall +answer +search _http._tcp.web.test SRV", "_http._tcp.web.test.\t5\tIN\tSRV\t0 100 80 web.test.\n"},
		{"+notcp +noall +answer +search 9.0.96.10.in-addr.arpa. PTR", "9.0.96.10.in-addr.arpa.\t5\tIN\tPTR\tweb.test.\n"},
		{"+short -x 10.96.0.9", "web.test.\n"},
		{"+short alias.test CNAME", "web.test.\n"},
		{"+short missing.test A", ""},
	} {
		if out, status := runIn(t, "", strings.Fields("dig @127.0.0.1 -p "+port+" "+test.args)...); out != test.out || status != 0 {
			t.Errorf("dig %s: got output %q and exit code %d, want %q and 0", test.args, out, status, test.out)
		}
	}
	for name, want := range map[string]string{
		"web.test":     "Name:    web.test\nAddress:  10.96.0.9\n",
		"missing.test": "*** the server can't find missing.test: NXDOMAIN\n",
	} {
		if out, status := runIn(t, "", "sh", "-c", "nslookup -port="+port+" "+name+" 127.0.0.1 2>&1"); out != want || status != 0 {
			t.Errorf("nslookup %s: got output %q and exit code %d, want %q and 0", name, out, status, want)
		}
	}
}
