package configure

import (
	"context"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// HeldKubelet returns the resources that the kubelet keeps when the declaration changes from current to next; nil if it uses those of next.
// The kubelet keeps its former resources while the machine cannot provide the declared ones, and while running containers have processors
// or memory assigned: until the next start of Windows, or a change of programs, for which the node is drained.
func HeldKubelet(ctx context.Context, h hostapi.Host, current state.Record, next desired.Node) (*desired.HeldKubelet, error) {
	effective, err := current.Wanted()
	if err != nil || reflect.DeepEqual(effective.KubeletResources(), next.KubeletResources()) {
		return nil, err
	}
	facts, err := h.System.Facts(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the facts of the host: %w", err)
	}
	return former{Record: current, wanted: effective}.heldKubelet(facts, next)
}

func (f former) heldKubelet(facts wicdapi.HostFacts, next desired.Node) (*desired.HeldKubelet, error) {
	existing, wants := f.wanted.KubeletResources(), next.KubeletResources()
	if reflect.DeepEqual(existing, wants) {
		return nil, nil
	}
	held := &desired.HeldKubelet{KubeletResources: existing, Boot: facts.BootID}
	machine := desired.Machine{Memory: facts.MemoryBytes, Disk: facts.DiskBytes, Processors: facts.Processors, NUMANodes: facts.NUMANodes, Build: facts.Build}
	if err := wants.Check(machine); err != nil {
		if f.Node == "" {
			return nil, &wicdapi.Error{Code: wicdapi.CodeRequestInvalid, Message: err.Error()}
		}
		held.Unsuitable = err.Error()
		return held, nil
	}
	if wants.State() == "" || wants.State() == existing.State() || f.Node == "" || isDrainedFor(f.Desired, next) {
		return nil, nil
	}
	if previous := f.Local.Kubelet; previous != nil && reflect.DeepEqual(f.Desired.KubeletResources(), wants) && hasStarted(previous.Boot, facts.BootID) {
		return nil, nil
	}
	return held, nil
}

// hasStarted reports whether Windows has certainly restarted since.
func hasStarted(since, boot string) bool { return since != "" && boot != "" && since != boot }

// isDrainedFor reports whether programs change for which the operator drains the node.
func isDrainedFor(current, next desired.Node) bool {
	d := desired.DisruptionOf(current, next)
	return d == v1alpha1.DisruptionDrain || d == v1alpha1.DisruptionReboot
}

// kubeletStateOf is a file with the resources for which the kubelet's state files were written (desired.KubeletResources.State).
const kubeletStateOf = desired.State + `\kubelet-resources.json`

// kubeletState manages the files in which the kubelet stores the assignment of processors and memory. The kubelet does not start with those
// of other resources.
type kubeletState struct {
	work
	wanted string
}

// isOutdated reports whether the kubelet would not start with its state files.
func (k kubeletState) isOutdated() (bool, error) {
	b, err := k.Disk.Read(kubeletStateOf)
	if state.IgnoreAbsent(err) != nil {
		return false, err
	}
	return string(b) != k.wanted, nil
}

// drop removes the state files. The kubelet must be stopped.
func (k kubeletState) drop() error {
	if k.wanted != "" { // otherwise the kubelet does not read them
		for _, name := range []string{"cpu_manager_state", "memory_manager_state"} {
			path := desired.KubeletData + `\` + name
			if !k.Disk.Exists(path) {
				continue
			}
			if err := k.Disk.Remove(path); err != nil {
				return fmt.Errorf("removing %s: %w", path, err)
			}
			k.recordChange("%s removed: it belongs to other resource settings", path)
		}
	}
	if _, err := k.Disk.WriteFile(kubeletStateOf, k.wanted); err != nil {
		return fmt.Errorf("writing %s: %w", kubeletStateOf, err)
	}
	return nil
}

// Applier brings the host to the requested state, and ends the session.
type Applier interface {
	Apply(ctx context.Context, request wicdapi.JoinRequest) error
}

// Kubelet applies the kubelet's held resources once the host can provide them, and reports to the Node until then.
type Kubelet struct {
	state.Session
	applier Applier
	began   time.Time
}

// NewKubelet returns a Kubelet.
func NewKubelet(s state.Session, a Applier) *Kubelet { return &Kubelet{s, a, time.Now()} }

// Run checks once, and retries only after an error: held resources wait for a start of Windows or for other settings, and either begins a new
// session.
func (k *Kubelet) Run(ctx context.Context) {
	for retry := backoff.New(); k.Record.Local.Kubelet != nil && ctx.Err() == nil; {
		err := k.applyHeld(ctx)
		if err == nil {
			return
		}
		k.Log.Warn("Applying the kubelet's resource settings failed", "error", err.Error())
		_ = backoff.Sleep(ctx, retry.Next())
	}
}

func (k *Kubelet) applyHeld(ctx context.Context) error {
	if !k.Record.Complete && !k.Record.Pulled {
		return nil // a join is running, which ends this session
	}
	held, err := HeldKubelet(ctx, k.Host, k.Record, k.Record.Desired)
	if err != nil || reflect.DeepEqual(held, k.Record.Local.Kubelet) {
		return err
	}
	request := k.Record.JoinRequest
	request.Local.Kubelet = held
	return k.applier.Apply(ctx, request)
}

// ReportTo reports that the kubelet keeps its former resources, and why.
func (k *Kubelet) ReportTo(ctx context.Context, w *nodestatus.Writer, node *corev1.Node) error {
	c := nodestatus.Condition{Type: api.ConditionKubeletSettingsHeld, OKReason: api.ReasonKubeletSettingsInForce, OKMessage: "the kubelet uses the resource settings of WindowsConfig"}
	var p nodestatus.Problem
	if held := k.Record.Local.Kubelet; held != nil {
		p = nodestatus.Problem{Service: desired.KubeletService, Reason: api.ReasonKubeletSettingsUnsuitable, Message: held.Unsuitable, Since: k.began}
		if held.Unsuitable == "" {
			p.Reason, p.Message = api.ReasonKubeletSettingsAwaitRestart, "changes to the CPU, memory or topology manager in spec.kubelet of WindowsConfig, and to the resources reserved for them, "+
				"take effect after a restart of the host; set spec.rollout.reboots to Allowed, or request it with kubectl windows reboot"
		}
		p.Message = truncate.Text(p.Message+"; until then, the kubelet keeps its former resources", truncate.Note)
	}
	return w.ReportProblem(ctx, node, c, p)
}
