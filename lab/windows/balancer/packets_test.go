package balancer

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// site is a host that forwards packets between a pod and a client, each in a network namespace of its own.
type site struct{ host, pod, client netns.NsHandle }

const (
	nftProgram    = "/usr/sbin/nft"
	hostAddress   = "10.99.1.2"
	podAddress    = "10.1.0.7"
	clientAddress = "10.2.0.7"
)

// in runs a function in a network namespace.
func in(t *testing.T, ns netns.NsHandle, do func() error) {
	t.Helper()
	if err := enter(ns, do); err != nil {
		t.Fatal(err)
	}
}

func enter(ns netns.NsHandle, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread cannot be reused
		err := netns.Set(ns)
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}

func newNamespace(t *testing.T) netns.NsHandle {
	t.Helper()
	made := make(chan netns.NsHandle)
	go func() {
		runtime.LockOSThread()
		ns, err := netns.New()
		if err == nil {
			var lo netlink.Link
			if lo, err = netlink.LinkByName("lo"); err == nil {
				err = netlink.LinkSetUp(lo)
			}
		}
		if err != nil {
			t.Error(err)
		}
		made <- ns
	}()
	ns := <-made
	t.Cleanup(func() { _ = ns.Close() })
	return ns
}

func newSite(t *testing.T) site {
	t.Helper()
	if _, err := os.Stat(nftProgram); err != nil || os.Geteuid() != 0 {
		t.Skipf("SKIPPED: needs root and nftables (%v)", err)
	}
	s := site{newNamespace(t), newNamespace(t), newNamespace(t)}
	for name, other := range map[string]struct {
		ns      netns.NsHandle
		address string
	}{"pod": {s.pod, podAddress}, "client": {s.client, clientAddress}} {
		in(t, s.host, func() error {
			link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "eth0", PeerNamespace: netlink.NsFd(other.ns)}
			return errors.Join(netlink.LinkAdd(link), connect(name, hostAddress, other.address+"/32"),
				os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644), os.WriteFile("/proc/sys/net/ipv4/conf/"+name+"/proxy_arp", []byte("1"), 0o644),
				os.WriteFile("/proc/sys/net/ipv4/neigh/"+name+"/proxy_delay", []byte("0"), 0o644))
		})
		in(t, other.ns, func() error { return connect("eth0", other.address, "0.0.0.0/0") })
	}
	for ns, addresses := range map[netns.NsHandle][]string{
		s.pod: {podAddress + ":80", podAddress + ":8080"}, s.client: {clientAddress + ":443"}, s.host: {hostAddress + ":10250"},
	} {
		in(t, ns, func() error { return serve(t, addresses) })
	}
	return s
}

// connect gives a link an address and a route.
func connect(name, address, to string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	own, err := netlink.ParseAddr(address + "/32")
	if err != nil {
		return err
	}
	_, destination, err := net.ParseCIDR(to)
	if err != nil {
		return err
	}
	return errors.Join(netlink.AddrAdd(link, own), netlink.LinkSetUp(link),
		netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: destination, Scope: netlink.SCOPE_LINK}))
}

// serve echoes over TCP, and over UDP at the same ports.
func serve(t *testing.T, addresses []string) error {
	for _, address := range addresses {
		listener, err := net.Listen("tcp4", address)
		if err != nil {
			return err
		}
		packets, err := net.ListenPacket("udp4", address)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _, _ = listener.Close(), packets.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				go func() { _, _ = io.Copy(conn, conn) }()
			}
		}()
		go func() {
			for buffer := make([]byte, 8); ; {
				n, from, err := packets.ReadFrom(buffer)
				if err != nil {
					return
				}
				_, _ = packets.WriteTo(buffer[:n], from)
			}
		}()
	}
	return nil
}

// echoes reports whether a connection returns what is sent.
func echoes(conn net.Conn) bool {
	_ = conn.SetDeadline(time.Now().Add(300 * time.Millisecond))
	if _, err := conn.Write([]byte("x")); err != nil {
		return false
	}
	n, err := conn.Read(make([]byte, 8))
	return err == nil && n == 1
}

// open returns the names of the connections that can be made, sorted.
func (s site) open() []string {
	type target struct {
		from             netns.NsHandle
		network, address string
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	names := []string{}
	for name, to := range map[string]target{
		"client>pod:80": {s.client, "tcp4", podAddress + ":80"}, "client>pod:8080": {s.client, "tcp4", podAddress + ":8080"},
		"client>pod:80/udp": {s.client, "udp4", podAddress + ":80"}, "pod>client:443": {s.pod, "tcp4", clientAddress + ":443"},
		"pod>client:443/udp": {s.pod, "udp4", clientAddress + ":443"}, "host>pod:80": {s.host, "tcp4", podAddress + ":80"},
		"pod>host:10250": {s.pod, "tcp4", hostAddress + ":10250"},
	} {
		all.Go(func() {
			_ = enter(to.from, func() error {
				conn, err := net.DialTimeout(to.network, to.address, 300*time.Millisecond)
				if err != nil {
					return err
				}
				defer conn.Close()
				if echoes(conn) {
					mu.Lock()
					defer mu.Unlock()
					names = append(names, name)
				}
				return nil
			})
		})
	}
	all.Wait()
	slices.Sort(names)
	return names
}

// apply makes the tables of the host those of an endpoint with these ACLs.
func (s site) apply(t *testing.T, applied map[string]string, acls []string) map[string]string {
	t.Helper()
	endpoint := strings.Replace(`{"ID":"e","IpConfigurations":[{"IpAddress":"`+podAddress+`"}],"Policies":[POLICIES]}`, "POLICIES", strings.Join(acls, ","), 1)
	wanted := Filters(objects(t, endpoint))
	in(t, s.host, func() error {
		command := exec.CommandContext(t.Context(), nftProgram, "-f", "-")
		command.Stdin = strings.NewReader(Changes(applied, wanted))
		output, err := command.CombinedOutput()
		if err != nil {
			t.Logf("%s\n%s", output, wanted)
		}
		return err
	})
	return wanted
}

// hostRules let the firewall pass everything.
func hostRules() []string {
	return []string{
		`{"Type":"ACL","Settings":{"Action":"Allow","Direction":"In","RuleType":"Host"}}`, `{"Type":"ACL","Settings":{"Action":"Allow","Direction":"Out","RuleType":"Host"}}`,
	}
}

func TestACLsDecideAboutPackets(t *testing.T) {
	s := newSite(t)
	incoming := []string{"client>pod:80", "client>pod:80/udp", "client>pod:8080", "host>pod:80"}
	outgoing := []string{"pod>client:443", "pod>client:443/udp", "pod>host:10250"}
	everything := slices.Concat(incoming, outgoing)
	allowIn, allowOut := acl(`,"Priority":65500`), acl(`,"Priority":65500,"Direction":"Out"`)
	with := func(acls ...string) []string { return append(hostRules(), acls...) }
	var applied map[string]string
	for _, test := range []struct {
		name string
		acls []string
		want []string
	}{
		{"none", nil, everything},
		{"all", with(allowIn, allowOut), everything},
		{"all, without rules of the firewall", []string{allowIn, allowOut}, nil},
		{"all, by rules of both layers", []string{acl(`,"RuleType":""`), acl(`,"RuleType":"","Direction":"Out"`)}, everything},
		{"rules of the firewall only", hostRules(), nil},
		{"incoming only", with(allowIn), incoming},
		{"outgoing only, with replies", with(allowOut), outgoing},
		{"a port", with(acl(`,"Protocols":"6","LocalPorts":"80"`)), []string{"client>pod:80", "host>pod:80"}},
		{"a range of ports", with(acl(`,"Protocols":"6","LocalPorts":"79,81-9000"`)), []string{"client>pod:8080"}},
		{"a protocol", with(acl(`,"Protocols":"17"`)), []string{"client>pod:80/udp"}},
		{"a client", with(acl(`,"RemoteAddresses":"10.2.0.0/16"`)), []string{"client>pod:80", "client>pod:80/udp", "client>pod:8080"}},
		{"the host, for probes", with(acl(`,"RemoteAddresses":"` + hostAddress + `"`)), []string{"host>pod:80"}},
		{"a server", with(acl(`,"Direction":"Out","RemoteAddresses":"` + clientAddress + `","Protocols":"6","RemotePorts":"443"`)), []string{"pod>client:443"}},
		{"another port of it", with(acl(`,"Direction":"Out","Protocols":"6","RemotePorts":"444"`)), nil},
		{"a client's ports", with(acl(`,"Protocols":"6","RemotePorts":"1-1023"`)), nil},
		{"the address of another pod", with(acl(`,"LocalAddresses":"10.1.0.8"`)), nil},
		{"all but one", with(allowIn, allowOut, acl(`,"Action":"Block","Priority":100,"RemoteAddresses":"10.2.0.7"`)), slices.Concat([]string{"host>pod:80"}, outgoing)},
		{"all but one, which comes too late", with(acl(`,"Priority":100`), acl(`,"Action":"Block","Priority":101`)), incoming},
		{"all, at the priority of a block", with(allowIn, acl(`,"Action":"Block","Priority":65500`)), nil},
		{"all addresses, by a prefix", with(acl(`,"RemoteAddresses":"0.0.0.0/0"`)), nil},
		{"a priority that closes it", with(allowIn, allowOut, acl(`,"Priority":99`)), nil},
		{"none again", nil, everything},
	} {
		applied = s.apply(t, applied, test.acls)
		want := slices.Sorted(slices.Values(test.want))
		if want == nil {
			want = []string{}
		}
		diff := "untried"
		for attempt := 0; diff != "" && attempt < 5; attempt++ { // a busy machine can be late
			diff = cmp.Diff(want, s.open())
		}
		if diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// TestConnectionsSurviveOtherRules expects that an established connection passes until the endpoint is closed.
func TestConnectionsSurviveOtherRules(t *testing.T) {
	s := newSite(t)
	applied := s.apply(t, nil, append(hostRules(), acl(``), acl(`,"Direction":"Out"`))) // the kernel tracks connections since it has such rules
	var conn net.Conn
	in(t, s.client, func() (err error) {
		conn, err = net.Dial("tcp4", podAddress+":80")
		return err
	})
	defer conn.Close()
	for _, step := range []struct {
		name string
		acls []string
		want bool
	}{
		{"rules that allow it", append(hostRules(), acl(``)), true},
		{"rules that would not allow it", append(hostRules(), acl(`,"Direction":"Out","RemoteAddresses":"10.9.0.0/16"`)), true},
		{"a priority that closes it", append(hostRules(), acl(``), acl(`,"Priority":99`)), false},
	} {
		applied = s.apply(t, applied, step.acls)
		if got := echoes(conn); got != step.want {
			t.Errorf("with %s, the connection works: %t, want %t", step.name, got, step.want)
		}
	}
}
