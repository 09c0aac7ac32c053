//go:build linux

package testenv

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/build"
)

// OperatorAccount is the operator's ServiceAccount in deploy/.
const OperatorAccount = "windows-machine-config-operator"

const operatorPackage = "./cmd/wmco"

// detectsRaces reports whether operators are built with Go's race detector, which costs memory and time.
func detectsRaces() bool { return os.Getenv("WMCO_RACE") != "" }

// Operator is the operator as a process on this machine, with a token and therefore the permissions of its ServiceAccount. See
// OperatorPod for the operator as a pod.
type Operator struct {
	operatorOptions

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
}

type operatorOptions struct {
	root, namespace, kubeconfig, payload, log, program string
}

func newOperator(ctx context.Context, o operatorOptions, progress io.Writer) (*Operator, error) {
	if err := lab.BuildProgram(ctx, o.root, operatorPackage, o.program, lab.BuildOptions{Race: detectsRaces()}, progress); err != nil {
		return nil, err
	}
	return &Operator{operatorOptions: o}, nil
}

// Start starts the operator.
func (o *Operator) Start() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	log, err := os.OpenFile(o.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	o.cmd = exec.Command(o.program, "--kubeconfig", o.kubeconfig, "--payload-dir", o.payload,
		"--namespace", o.namespace, "--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0")
	o.cmd.Stdout, o.cmd.Stderr = log, log
	o.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOGC=") }), // set for the tests only
		"POD_NAME=operator") // the same after a restart, as for containers of a pod
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	o.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan<- struct{}) {
		runtime.LockOSThread() // Pdeathsig refers to the thread that started the process
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}(o.cmd, o.ended)
	if err := <-started; err != nil {
		return fmt.Errorf("starting the operator: %w", err)
	}
	return nil
}

// Upgrade stops the operator as its Deployment does, and starts it with another payload, which counts as another version.
func (o *Operator) Upgrade(dir string) error {
	o.end(syscall.SIGTERM)
	o.mu.Lock()
	o.payload = dir
	o.mu.Unlock()
	return o.Start()
}

// UseAPIServer configures the operator to use another URL for the API server, and to trust its certificate, from its next start
// until restore is called.
func (o *Operator) UseAPIServer(url string, certificate *x509.Certificate) (restore func(), err error) {
	config, err := clientcmd.LoadFromFile(o.kubeconfig)
	if err != nil {
		return nil, err
	}
	for _, c := range config.Clusters {
		c.Server, c.CertificateAuthority = url, ""
		c.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
	}
	original, changed := o.kubeconfig, o.kubeconfig+".changed"
	if err := clientcmd.WriteToFile(*config, changed); err != nil {
		return nil, err
	}
	set := func(kubeconfig string) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.kubeconfig = kubeconfig
	}
	set(changed)
	return func() { set(original) }, nil
}

// PeakMemory returns the highest resident memory of the process so far, in bytes.
func (o *Operator) PeakMemory() (bytes int64, err error) {
	p, err := o.process()
	if err != nil {
		return 0, err
	}
	status, err := p.NewStatus()
	return int64(status.VmHWM), err
}

// CPUTime returns the processor time of the process so far, in seconds, with a resolution of 10 ms (proc(5)).
func (o *Operator) CPUTime() (seconds float64, err error) {
	p, err := o.process()
	if err != nil {
		return 0, err
	}
	stat, err := p.Stat()
	return stat.CPUTime(), err
}

func (o *Operator) process() (procfs.Proc, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cmd == nil {
		return procfs.Proc{}, errors.New("the operator does not run")
	}
	return procfs.NewProc(o.cmd.Process.Pid)
}

// Kill kills the operator, as a power failure of its node would. Its successor waits until the Lease has expired.
func (o *Operator) Kill() { o.end(syscall.SIGKILL) }

// end sends a signal to the operator, and kills it after a pod's grace period.
func (o *Operator) end(signal syscall.Signal) {
	const grace = 30 * time.Second
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cmd == nil || o.cmd.Process == nil {
		return
	}
	_ = o.cmd.Process.Signal(signal)
	select {
	case <-o.ended:
	case <-time.After(grace):
		_ = o.cmd.Process.Kill()
		<-o.ended
	}
	o.cmd = nil
}

// Ended returns a channel that is closed when the process has exited, on its own or by Kill.
func (o *Operator) Ended() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended
}

// Log returns the operator's log so far.
func (o *Operator) Log() string {
	text, err := os.ReadFile(o.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Races returns the data races that the operator reported, if it was built to detect them: make e2e-core RACE=1.
func (o *Operator) Races() string {
	const report, limit = "WARNING: DATA RACE", 20000
	log := o.Log()
	at := strings.Index(log, report)
	if at < 0 {
		return ""
	}
	return log[at:min(at+limit, len(log))]
}

// Command runs the operator's executable with arguments, as a cluster administrator, and returns its output.
func (env *Env) Command(ctx context.Context, args ...string) (string, error) {
	root, err := Repository(ctx)
	if err != nil {
		return "", err
	}
	program := filepath.Join(env.folder.Path, "wmco-command")
	if err := lab.BuildProgram(ctx, root, operatorPackage, program, lab.BuildOptions{}, os.Stderr); err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, program, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+env.Kubeconfig)
	out, err := command.CombinedOutput()
	return string(out), err
}

// components returns the components of a host's payload: those that a Ready node with the network needs, or all of group base.
func (o Options) components() ([]build.Component, error) {
	if !o.WholePayload {
		base := []string{"wicd", "kubelet", "kube-log-runner", "containerd", "win-bridge", "host-local"}
		all, err := build.Named(slices.Concat(base, o.networkComponents(), o.Components)...)
		return slices.DeleteFunc(all, o.isOfOtherMinor), err
	}
	isOptional := func(c build.Component) bool { return c.Minor == "" && c.Group != payload.Base || o.isOfOtherMinor(c) }
	return slices.DeleteFunc(build.Components(), isOptional), nil
}

// isOfOtherMinor reports whether a component belongs to a minor version of Kubernetes that the payload should not have.
func (o Options) isOfOtherMinor(c build.Component) bool {
	minors := o.Minors
	if len(minors) == 0 {
		all := build.Minors()
		minors = all[len(all)-1:]
	}
	return c.Minor != "" && !slices.Contains(minors, c.Minor)
}

// payload builds the operator's payload.
func (env *Env) payload(ctx context.Context, o Options) (string, error) {
	dir := filepath.Join(env.folder.Path, "payload")
	if o.WineHosts == 0 {
		return dir, simulatedPayload(ctx, dir, cmp.Or(o.ProgramBytes, wicdBytes))
	}
	components, err := o.components()
	if err != nil {
		return "", err
	}
	return dir, buildPayload(ctx, dir, o, components)
}

// Repository returns the folder of the operator's module.
func Repository(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/windows-machine-config/wmco").Output()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
