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

// operatorKilled kills the operator as soon as the first of two hosts is in a step, for each step, and then at random moments.
// Hosts of earlier rounds are still joining.
func operatorKilled(p place) {
	var all []joiner
	announce := func(round string) {
		for n := range 2 {
			all = append(all, p.joiner(fmt.Sprintf("kill-%s-%d", round, n), nil))
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
func (p place) restartOperator() {
	p.t.Helper()
	p.Operator.Kill()
	p.startOperator()
}

// startOperator starts the operator after it was killed. It deletes the Lease, which would expire after 15 s.
func (p place) startOperator() {
	p.t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: testenv.OperatorAccount}}
	must(p.t, client.IgnoreNotFound(p.Client.Delete(p.t.Context(), lease)))
	must(p.t, p.Operator.Start())
}

// held is a host whose kubelet and WICD wait until open is called, so that the host stays in the state right after the join.
type held struct {
	joiner
	open func()
}

func (p place) held(hostname string) held {
	p.t.Helper()
	gate := make(chan struct{})
	behind := func(program sim.Program) sim.Program {
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
		"kubelet": behind(sim.KubeletOptions{}.Program()), api.WICDService: behind(sim.WICD),
	}}})
	j := joiner{host, h, p.announce(h, nil)}
	p.expect(j.name, api.ConditionConfigured, api.ReasonConfigured)
	return held{j, func() { close(gate) }}
}

// tokenLost kills the operator between creating the token of a second attempt and sending it: the certificate requests that the
// host created with the first token are no longer approved.
func tokenLost(p place) {
	h := p.held("token-lost")
	p.Operator.Kill()
	h.open()
	requests := p.requestsOf(h.at.Name, 2)
	i := p.instance(h.name)
	before := i.DeepCopy()
	i.Status.BootstrapCredentialID = "of-another-attempt"
	meta.SetStatusCondition(&i.Status.Conditions, metav1.Condition{
		Type: api.ConditionConfigured, Status: metav1.ConditionFalse, Reason: api.ReasonJoining,
	})
	must(p.t, p.Client.Status().Patch(p.t.Context(), i, client.MergeFrom(before)))
	p.startOperator()
	p.expectAlive(h.joiner)
	for _, name := range requests {
		p.expectPending(name)
	}
}

// requestsOf waits until a joining host has count requests, and returns their names.
func (p place) requestsOf(node string, count int) (names []string) {
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
			return fmt.Sprintf("there are %q", names)
		}
		return ""
	})
	return names
}

// apiServerUnavailable stops the API server while five hosts join and others work. In twenty seconds the operator loses its Lease (after ten), exits,
// and is restarted as its Deployment would do, and all clients retry several times. A longer outage would only lengthen their pauses, up to half a
// minute.
func apiServerUnavailable(p place) {
	before := p.hostStates()
	wait := p.follow("hosts are in the middle of their joins", func(i *v1alpha1.WindowsInstance) bool {
		return i.Name == "away-2" && reached(i, join.StepTransfer, v1alpha1.StepRunning)
	})
	var all []joiner
	for n := range 5 {
		all = append(all, p.joiner(fmt.Sprintf("away-%d", n), nil))
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
func (p place) keepOperatorRunning() (stop func()) {
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
func (p place) hostStates() map[string]hostState {
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

func (p place) expectUntouched(host string, before, got hostState) {
	p.t.Helper()
	if before.boot != got.boot || !maps.Equal(before.pids, got.pids) {
		p.t.Errorf("host %s had boot %s with processes %v, has boot %s with %v", host, before.boot, before.pids, got.boot, got.pids)
	}
	for name := range before.files {
		if !got.files[name] {
			p.t.Errorf("host %s: %s is gone", host, name)
		}
	}
}

func (p place) instances() []v1alpha1.WindowsInstance {
	p.t.Helper()
	var list v1alpha1.WindowsInstanceList
	must(p.t, p.Client.List(p.t.Context(), &list))
	return list.Items
}

func (p place) expectAllReady() {
	p.t.Helper()
	for _, i := range p.instances() {
		p.expectReady(client.ObjectKeyFromObject(&i))
	}
}

// storeAltered alters a program in the store of a host that has joined. It is the same file as the one that runs.
func storeAltered(p place) {
	j := p.joiner("altered", nil)
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

// payloadAltered alters the content that the operator sends. SSH prevents changes in transit; this has the same effect on the host. Package daemon
// tests that WICD discards every wrong byte.
func payloadAltered(p place) {
	blob := p.blobOf("containerd/containerd.exe") // every host gets it
	whole, err := os.ReadFile(blob)
	must(p.t, err)
	p.alter(blob)
	j := p.joiner("in-transit", nil)
	p.expect(j.name, api.ConditionConfigured, api.ReasonContentAltered, "sent again")
	p.expectEvent(j.name.Name, api.ReasonContentAltered)
	if j.Windows().Service("kubelet").Name != "" {
		p.t.Error("services were created although a program is altered")
	}
	must(p.t, os.WriteFile(blob, whole, 0o600))
	p.expectAlive(j)
}

// alter changes one byte in the middle of a file, in place, and returns the former hash.
func (p place) alter(name string) (good string) {
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

func (p place) hashOf(name string) string {
	p.t.Helper()
	content, err := os.ReadFile(name)
	must(p.t, err)
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// blobOf returns the file with the compressed content of a program.
func (p place) blobOf(program string) string {
	p.t.Helper()
	content, err := payload.Open(p.Payload)
	must(p.t, err)
	i := slices.IndexFunc(content.Manifest.Files, func(f payload.File) bool { return f.Path == program })
	if i < 0 {
		p.t.Fatalf("the payload has no %s", program)
	}
	return filepath.Join(p.Payload, payload.BlobName(content.Manifest.Files[i].SHA256))
}
