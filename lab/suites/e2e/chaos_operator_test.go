//go:build linux

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/payload"
)

// operatorKilled kills the operator as soon as one of two hosts is in a step, for each step, and then at random moments. Hosts of
// earlier rounds are still joining then.
func operatorKilled(p harness) {
	var all []joiningHost
	announce := func(round string) {
		for n := range 2 {
			all = append(all, p.addHost(fmt.Sprintf("kill-%s-%d", round, n), nil))
		}
	}
	for n, step := range join.StepNames() {
		round := fmt.Sprint(n)
		wait := p.follow("a host is in step "+step, func(i *v1alpha1.WindowsInstance) bool {
			return strings.HasPrefix(i.Name, "kill-"+round+"-") && reached(i, step, v1alpha1.StepRunning)
		})
		announce(round)
		wait()
		p.restartOperator()
	}
	random := p.random()
	for n := range 3 {
		announce(fmt.Sprintf("r%d", n))
		<-time.After(time.Duration(random.Int64N(int64(2 * time.Second))))
		p.restartOperator()
	}
	for _, j := range all {
		p.expectAlive(j)
	}
	p.expectOneNodeEach(all)
}

// restartOperator kills the operator and starts it.
func (p harness) restartOperator() {
	p.t.Helper()
	p.Operator.Kill()
	p.startOperator()
}

// startOperator starts the operator after it was killed. It deletes the Lease, which would expire after 15 s.
func (p harness) startOperator() {
	p.t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: testenv.OperatorAccount}}
	must(p.t, client.IgnoreNotFound(p.Client.Delete(p.t.Context(), lease)))
	must(p.t, p.Operator.Start())
}

// heldHost is a host whose kubelet and WICD wait for release, so that the host stays in its state right after the configuration.
type heldHost struct {
	joiningHost
	release func()
}

func (p harness) holdHost(hostname string) heldHost {
	p.t.Helper()
	gate := make(chan struct{})
	gated := func(program sim.Program) sim.Program {
		return func(ctx context.Context, process sim.Process) uint32 {
			select {
			case <-ctx.Done():
				return 1
			case <-gate:
				return program(ctx, process)
			}
		}
	}
	host, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: hostname, Programs: map[string]sim.Program{
		"kubelet": gated(sim.KubeletOptions{}.Program()), api.WICDService: gated(sim.WICD),
	}}})
	j := joiningHost{host, h, p.announce(h, nil)}
	p.expect(j.name, api.ConditionConfigured, api.ReasonConfigured)
	return heldHost{j, func() { close(gate) }}
}

// tokenLost kills the operator after it created the token of a second attempt and before it sent it. Then the certificate requests that
// the host created with the first token must not be approved.
func tokenLost(p harness) {
	h := p.holdHost("token-lost")
	p.Operator.Kill()
	h.release()
	requests := p.requestsOf(h.at.Name, 2)
	i := p.instance(h.name)
	before := i.DeepCopy()
	i.Status.BootstrapCredentialID = "another-attempt"
	meta.SetStatusCondition(&i.Status.Conditions, metav1.Condition{
		Type: api.ConditionConfigured, Status: metav1.ConditionFalse, Reason: api.ReasonJoining,
	})
	must(p.t, p.Client.Status().Patch(p.t.Context(), i, client.MergeFrom(before)))
	p.startOperator()
	p.expectAlive(h.joiningHost)
	for _, name := range requests {
		p.expectPending(name)
	}
}

// requestsOf waits until a joining host has count requests, and returns their names.
func (p harness) requestsOf(node string, count int) (names []string) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("%d certificate requests of %s", count, node), func(ctx context.Context) string {
		var list certificatesv1.CertificateSigningRequestList
		if err := p.Client.List(ctx, &list); err != nil {
			return err.Error()
		}
		names = nil
		for _, r := range list.Items {
			if name := requestedNode(&r); name == node && len(r.Status.Conditions) == 0 {
				names = append(names, r.Name)
			}
		}
		if len(names) != count {
			return fmt.Sprintf("got %q", names)
		}
		return ""
	})
	return names
}

// apiServerUnavailable stops the API server while five hosts join and other nodes work. Twenty seconds are enough for the operator to lose its Lease
// (after ten), exit, and be restarted as by its Deployment, and for all clients to retry several times. A longer outage would only lengthen their
// back-off, up to half a minute.
func apiServerUnavailable(p harness) {
	before := p.hostStates()
	wait := p.follow("a host is in step Transfer", func(i *v1alpha1.WindowsInstance) bool {
		return i.Name == "away-2" && reached(i, join.StepTransfer, v1alpha1.StepRunning)
	})
	var all []joiningHost
	for n := range 5 {
		all = append(all, p.addHost(fmt.Sprintf("away-%d", n), nil))
	}
	wait()
	stop := p.keepOperatorRunning()
	p.Lab.ControlPlane.StopAPIServer()
	<-time.After(20 * time.Second)
	must(p.t, p.Lab.ControlPlane.StartAPIServer(p.t.Context()))
	for _, j := range all {
		p.expectAlive(j)
	}
	p.expectAllReady()
	stop()
	p.expectOneNodeEach(all)
	after := p.hostStates()
	for host, previous := range before {
		p.expectUntouched(host, previous, after[host])
	}
}

// keepOperatorRunning starts the operator again whenever it has exited, until stop is called.
func (p harness) keepOperatorRunning() (stop func()) {
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-p.Operator.Ended():
			}
			<-time.After(time.Second)
			if err := p.Operator.Start(); err != nil {
				p.t.Error(err)
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// hostState is the state that must not change on a working host.
type hostState struct {
	boot  string
	pids  map[string]uint32
	files map[string]bool
}

// hostStates reads the state of all hosts with Ready instances.
func (p harness) hostStates() map[string]hostState {
	p.t.Helper()
	ready := map[string]bool{} // by address
	for _, i := range p.instances() {
		ready[i.Spec.Address] = meta.IsStatusConditionTrue(i.Status.Conditions, api.ConditionReady)
	}
	states := map[string]hostState{}
	for n, h := range p.Simulated() {
		if !ready[p.Hosts()[n].Address] {
			continue
		}
		s := hostState{boot: h.Windows().BootID(), pids: map[string]uint32{}, files: map[string]bool{}}
		for _, service := range []string{"containerd", "kubelet", api.WICDService} {
			s.pids[service] = h.Windows().Service(service).PID
		}
		for _, folder := range []string{desired.Root, desired.KubeletCertificates} {
			if err := h.Windows().Disk().Walk(folder, func(name string, _ fs.FileInfo) error {
				s.files[name] = true
				return nil
			}); err != nil {
				p.t.Fatal(err)
			}
		}
		states[p.Hosts()[n].Name] = s
	}
	return states
}

func (p harness) expectUntouched(host string, before, got hostState) {
	p.t.Helper()
	if before.boot != got.boot || !maps.Equal(before.pids, got.pids) {
		p.t.Errorf("host %s: got boot %s with processes %v, want %s with %v", host, got.boot, got.pids, before.boot, before.pids)
	}
	for name := range before.files {
		if !got.files[name] {
			p.t.Errorf("host %s: %s was removed", host, name)
		}
	}
}

func (p harness) instances() []v1alpha1.WindowsInstance {
	p.t.Helper()
	var list v1alpha1.WindowsInstanceList
	must(p.t, p.Client.List(p.t.Context(), &list))
	return list.Items
}

func (p harness) expectAllReady() {
	p.t.Helper()
	for _, i := range p.instances() {
		p.expectReady(client.ObjectKeyFromObject(&i))
	}
}

// storeAltered alters a program in the store of a host that has joined. The running program is a link to the same file.
func storeAltered(p harness) {
	j := p.addHost("altered", nil)
	p.expectAlive(j)
	disk := j.Windows().Disk()
	pid := j.Windows().Service("kubelet").PID
	good := p.alter(disk.Local(`C:\k\kubelet.exe`))
	p.forget(j.name)
	p.announce(j.at, nil)
	p.expectEvent(j.name.Name, api.ReasonContentAltered, "kubelet.exe", "replaced")
	p.expectAlive(j)
	for _, name := range []string{`C:\k\kubelet.exe`, desired.Store + `\` + good} {
		if sum := p.hashOf(disk.Local(name)); sum != good {
			p.t.Errorf("%s has content %.12s, want %.12s", name, sum, good)
		}
	}
	if j.Windows().Service("kubelet").PID == pid {
		p.t.Error("the altered kubelet still runs")
	}
}

// payloadAltered alters the content that the operator sends, which has the same effect on the host as a change in transit, which SSH prevents.
// Package daemon tests that WICD discards every wrong byte.
func payloadAltered(p harness) {
	blob := p.blobOf("containerd/containerd.exe") // every host gets it
	whole, err := os.ReadFile(blob)
	must(p.t, err)
	p.alter(blob)
	j := p.addHost("in-transit", nil)
	p.expect(j.name, api.ConditionConfigured, api.ReasonContentAltered, "sent again")
	p.expectEvent(j.name.Name, api.ReasonContentAltered)
	if j.Windows().Service("kubelet").Name != "" {
		p.t.Error("services were created from an altered program")
	}
	must(p.t, os.WriteFile(blob, whole, 0o600))
	p.expectAlive(j)
}

// alter changes one byte in the middle of a file, and returns the former hash.
func (p harness) alter(name string) (good string) {
	p.t.Helper()
	good = p.hashOf(name)
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	must(p.t, err)
	defer f.Close()
	var b [1]byte
	if _, err = f.ReadAt(b[:], programBytes/2); err == nil {
		b[0]++
		_, err = f.WriteAt(b[:], programBytes/2)
	}
	must(p.t, err)
	return good
}

func (p harness) hashOf(name string) string {
	p.t.Helper()
	content, err := os.ReadFile(name)
	must(p.t, err)
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// blobOf returns the file with the compressed content of a program.
func (p harness) blobOf(program string) string {
	p.t.Helper()
	content, err := payload.Open(p.Payload)
	must(p.t, err)
	i := slices.IndexFunc(content.Manifest.Files, func(f payload.File) bool { return f.Path == program })
	if i < 0 {
		p.t.Fatalf("the payload has no %s", program)
	}
	return filepath.Join(p.Payload, payload.BlobName(content.Manifest.Files[i].SHA256))
}
