package policycni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"

	"github.com/windows-machine-config/wmco/internal/node/policypipe"
)

// host runs plugins as containerd does, by libcni.
type host struct {
	*libcni.CNIConfig
	folder string
}

// newHost returns a host with a WICD that has this handler; nil for a host without WICD.
func newHost(t *testing.T, handler func(context.Context, policypipe.Request) error) host {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs links to this program and a Unix socket; the plugin's pipe has tests of its own")
	}
	folder, err := os.MkdirTemp("", "cni") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"wicd-cni", "connects"} {
		if err := os.Symlink(self, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	address := filepath.Join(folder, "wicd")
	t.Setenv(socket, address)
	t.Setenv(calls, filepath.Join(folder, "calls"))
	if handler != nil {
		l, err := net.Listen("unix", address)
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- policypipe.Serve(ctx, l, handler) }()
		t.Cleanup(func() {
			end()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	return host{CNIConfig: libcni.NewCNIConfigWithCacheDir([]string{folder}, filepath.Join(folder, "cache"), nil), folder: folder}
}

const sandbox = "f3a1"

// pod is what containerd passes for a pod.
func pod(args ...[2]string) *libcni.RuntimeConf {
	all := [][2]string{
		{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "shop"}, {"K8S_POD_NAME", "web-0"}, {"K8S_POD_INFRA_CONTAINER_ID", sandbox}, {"K8S_POD_UID", "0b0f9f0e"},
	}
	return &libcni.RuntimeConf{ContainerID: sandbox, NetNS: "a-namespace", IfName: "eth0", Args: append(all, args...)}
}

func mustList(t *testing.T, cniVersion string, plugins ...string) *libcni.NetworkConfigList {
	t.Helper()
	var items []string
	for _, p := range plugins {
		items = append(items, fmt.Sprintf(`{"type": %q}`, p))
	}
	list, err := libcni.NetworkConfFromBytes(fmt.Appendf(nil, `{"cniVersion": %q, "name": "pods", "plugins": [%s]}`, cniVersion, strings.Join(items, ",")))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// results are what plugins return for a pod with an address, by version: win-overlay's for the first.
func results() map[string]string {
	ips := `"ips": [{"version": "4", "address": "10.132.1.7/24", "gateway": "10.132.1.1"}], "dns": {"nameservers": ["10.96.0.10"]}}`
	return map[string]string{
		"0.2.0": `{"cniVersion": "0.2.0", "ip4": {"ip": "10.132.1.7/24", "gateway": "10.132.1.1"}, "dns": {"nameservers": ["10.96.0.10"]}}`,
		"0.3.1": `{"cniVersion": "0.3.1", ` + ips,
		"0.4.0": `{"cniVersion": "0.4.0", ` + ips,
		"1.0.0": strings.Replace(`{"cniVersion": "1.0.0", `+ips, `"version": "4", `, "", 1),
		"1.1.0": strings.Replace(`{"cniVersion": "1.1.0", `+ips, `"version": "4", `, "", 1),
	}
}

func TestPodStartsWhenRulesAreInForce(t *testing.T) {
	for cniVersion, result := range results() {
		t.Run(cniVersion, func(t *testing.T) {
			asked := make(chan policypipe.Request, 1)
			h := newHost(t, func(_ context.Context, r policypipe.Request) error { asked <- r; return nil })
			t.Setenv(output, result)
			want, err := h.AddNetworkList(t.Context(), mustList(t, cniVersion, "connects"), pod())
			if err != nil {
				t.Fatal(err)
			}
			got, err := h.AddNetworkList(t.Context(), mustList(t, cniVersion, "connects", "wicd-cni"), pod())
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got result %+v, want %+v", got, want)
			}
			r := policypipe.Request{
				Namespace: "shop", Name: "web-0", UID: "0b0f9f0e", ContainerID: sandbox, Addresses: []netip.Addr{netip.MustParseAddr("10.132.1.7")},
			}
			if got := <-asked; !reflect.DeepEqual(got, r) {
				t.Errorf("WICD was asked for %+v, want %+v", got, r)
			}
		})
	}
}

func TestPodDoesNotStartWithoutRules(t *testing.T) {
	for name, test := range map[string]struct {
		handler func(context.Context, policypipe.Request) error
		plugins []string
		args    [][2]string
		result  string
		want    []string
	}{
		"refused": {
			handler: func(context.Context, policypipe.Request) error {
				return errors.New("the set of namespace shop is not there yet")
			},
			want: []string{"the network policies of pod shop/web-0 are not in force", "WICD: the set of namespace shop is not there yet"},
		},
		"without WICD":          {want: []string{"pod shop/web-0", "start service windows-instance-config-daemon"}},
		"alone":                 {plugins: []string{"wicd-cni"}, want: []string{"no prevResult"}},
		"without address":       {result: `{"cniVersion": "0.2.0"}`, want: []string{"no addresses"}},
		"namespace named twice": {args: [][2]string{{"K8S_POD_NAMESPACE", "kube-system"}}, want: []string{"K8S_POD_NAMESPACE twice"}},
		"no name of a pod":      {args: [][2]string{{"K8S_POD_NAME", ""}, {"K8S_POD_NAMESPACE", ""}}, want: []string{"twice"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, test.handler)
			t.Setenv(output, results()["0.2.0"])
			if test.result != "" {
				t.Setenv(output, test.result)
			}
			plugins := test.plugins
			if plugins == nil {
				plugins = []string{"connects", "wicd-cni"}
			}
			_, err := h.AddNetworkList(t.Context(), mustList(t, "0.2.0", plugins...), pod(test.args...))
			if err == nil {
				t.Fatal("the pod starts")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
			}
		})
	}
}

func TestPodIsRemovedWithoutWICD(t *testing.T) {
	for cniVersion, result := range results() {
		t.Run(cniVersion, func(t *testing.T) {
			h := newHost(t, func(context.Context, policypipe.Request) error { return nil })
			t.Setenv(output, result)
			list := mustList(t, cniVersion, "connects", "wicd-cni")
			if _, err := h.AddNetworkList(t.Context(), list, pod()); err != nil {
				t.Fatal(err)
			}
			t.Setenv(socket, filepath.Join(h.folder, "nobody"))
			if cniVersion >= "0.4.0" {
				if err := h.CheckNetworkList(t.Context(), list, pod()); err != nil {
					t.Error(err)
				}
			}
			if err := h.GetStatusNetworkList(t.Context(), list); err != nil {
				t.Error(err)
			}
			if err := errors.Join(h.DelNetworkList(t.Context(), list, pod()), h.DelNetworkList(t.Context(), list, pod())); err != nil {
				t.Error(err)
			}
			if err := h.GCNetworkList(t.Context(), list, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPodsOutliveChangesOfChain: containerd removes a pod with the configuration that it has then.
func TestPodsOutliveChangesOfChain(t *testing.T) {
	alone, chained := []string{"connects"}, []string{"connects", "wicd-cni"}
	for name, test := range map[string]struct{ before, after []string }{"enforced meanwhile": {alone, chained}, "off meanwhile": {chained, alone}} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, func(context.Context, policypipe.Request) error { return nil })
			t.Setenv(output, results()["0.2.0"])
			if _, err := h.AddNetworkList(t.Context(), mustList(t, "0.2.0", test.before...), pod()); err != nil {
				t.Fatal(err)
			}
			if err := h.DelNetworkList(t.Context(), mustList(t, "0.2.0", test.after...), pod()); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(h.folder, "calls"))
			if want := "ADD pods f3a1\nDEL pods f3a1\n"; string(got) != want || err != nil {
				t.Errorf("the plugin was called\n%s%v, want\n%s", got, err, want)
			}
			if left, _ := os.ReadDir(filepath.Join(h.folder, "cache", "results")); len(left) > 0 {
				t.Errorf("libcni keeps %v", left)
			}
		})
	}
}

// run runs wicd-cni without libcni.
func (h host) run(t *testing.T, stdin string, env ...string) (stdout string, exit int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, filepath.Join(h.folder, "wicd-cni"))
	command.WaitDelay = time.Second
	command.Stdin, command.Env = strings.NewReader(stdin), append(command.Environ(), env...)
	var out bytes.Buffer
	command.Stdout = &out
	if err := command.Run(); err != nil && command.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), command.ProcessState.ExitCode()
}

func TestErrorsHaveCodesOfSpecification(t *testing.T) {
	h := newHost(t, func(context.Context, policypipe.Request) error { return errors.New("no") })
	conf := func(previous string) string {
		return `{"cniVersion": "1.0.0", "name": "pods", "type": "wicd-cni"` + previous + `}`
	}
	previous := `, "prevResult": ` + results()["1.0.0"]
	args := "CNI_ARGS=K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0;K8S_POD_UID=1"
	for name, test := range map[string]struct {
		stdin, args string
		want        uint
	}{
		"refused":               {conf(previous), args, 11},
		"no prevResult":         {conf(""), args, 7},
		"bad prevResult":        {conf(`, "prevResult": {"ips": 7}`), args, 6},
		"no addresses":          {conf(`, "prevResult": {"cniVersion": "1.0.0"}`), args, 7},
		"no JSON":               {"x", args, 6},
		"no pod":                {conf(previous), "CNI_ARGS=", 4},
		"no UID":                {conf(previous), "CNI_ARGS=K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0", 4},
		"version of the future": {strings.Replace(conf(previous), "1.0.0", "9.0.0", 1), args, 1},
	} {
		out, exit := h.run(t, test.stdin, "CNI_COMMAND=ADD", "CNI_CONTAINERID=f3a1", "CNI_NETNS=n", "CNI_IFNAME=eth0", "CNI_PATH=/", test.args)
		var got struct {
			Code uint   `json:"code"`
			Msg  string `json:"msg"`
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || exit == 0 || got.Code != test.want || got.Msg == "" {
			t.Errorf("%s: exit code %d with %s, %v; want code %d", name, exit, out, err, test.want)
		}
	}
}

func TestVersionsAreThoseOfLibrary(t *testing.T) {
	out, exit := newHost(t, nil).run(t, "", "CNI_COMMAND=VERSION")
	var got struct {
		Supported []string `json:"supportedVersions"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || exit != 0 {
		t.Fatalf("exit code %d with %s, %v", exit, out, err)
	}
	for version := range results() {
		if !strings.Contains(out, `"`+version+`"`) {
			t.Errorf("version %s is not among %v", version, got.Supported)
		}
	}
}
