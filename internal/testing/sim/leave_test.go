package sim_test

import (
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// TestHostLeavesOverSSHAndRejoins includes a running WICD service, and containers that the kubelet left.
func TestHostLeavesOverSSHAndRejoins(t *testing.T) {
	w := newFixture(t, sim.Options{Windows: sim.WindowsOptions{Hostname: "WIN-1"}})
	for range 2 {
		w.mustJoin(t)
		w.await(t, "the node is registered", func(corev1.Node) bool { return true })
		w.giveRange()
		w.await(t, "the node is ready", ready)
		windows := w.host.Windows()
		windows.AddContainer("pause", `C:\k\kubelet.exe`)
		var result wicdapi.LeaveResult
		if err := wicdapi.Call(t.Context(), w.operator, `.\\setup.exe leave`, wicdapi.LeaveRequest{Cluster: "cluster"}, &result, nil); err != nil {
			t.Fatal(err)
		}
		for _, s := range w.request.Desired.Services {
			if got := windows.Service(s.Name); got.Name != "" {
				t.Errorf("service %s is there: %+v", s.Name, got)
			}
		}
		if left, err := windows.Disk().List(`C:\k\state`); err != nil || strings.Join(left, " ") != "journal.jsonl" || len(windows.Remnants()) > 0 {
			t.Errorf("C:\\k\\state has %q, %v; there are %q", left, err, windows.Remnants())
		}
		if len(result.Remains) != 1 || !strings.Contains(result.Remains[0], "the running program") {
			t.Errorf("remains: %q", result.Remains)
		}
		w.cluster.Delete(nodePath)
	}
}

func TestUsersLogInWithTheKeysOfTheFile(t *testing.T) {
	first, second := mustKey(t), mustKey(t)
	h := mustStart(t, first, sim.Options{})
	login := func(key ssh.Signer) error {
		client, err := ssh.Dial("tcp", h.Addr(), &ssh.ClientConfig{
			User: "administrator", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: patience,
		})
		if err == nil {
			client.Close()
		}
		return err
	}
	expect := func(when string, old, new bool) {
		t.Helper()
		if errOld, errNew := login(first), login(second); (errOld == nil) != old || (errNew == nil) != new {
			t.Errorf("%s: the first key %v, the second %v", when, errOld, errNew)
		}
	}
	expect("at first", true, false)
	const keys = `C:\ProgramData\ssh\administrators_authorized_keys`
	content, err := h.Windows().Disk().Read(keys)
	if err != nil {
		t.Fatal(err)
	}
	added := string(ssh.MarshalAuthorizedKey(second.PublicKey()))
	for when, content := range map[string]string{"both": "# comment\r\n" + string(content) + added, "the second": added} {
		if _, err := h.Windows().Disk().WriteFile(keys, content); err != nil {
			t.Fatal(err)
		}
		expect(when, when == "both", true)
	}
}
