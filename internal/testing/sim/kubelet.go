package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// The versions that simulated nodes report, those of the newest programs in the payload.
const (
	KubeletVersion   = "v1.37.2"
	ContainerRuntime = "containerd://2.3.7"
)

// KubeletOptions are the options of a simulated kubelet.
type KubeletOptions struct {
	// Heartbeat is how often it renews the Lease and checks the host. Default: 10 s, like the real one.
	Heartbeat time.Duration
	// Version is the version that the node reports. Default: KubeletVersion.
	Version string
	// CNIConfig is the file without which the node is not ready. Default: C:\k\cni\config\cni.conf. With the extension .conflist, it counts as well.
	CNIConfig string
}

// Program returns the kubelet as a service: it requests a certificate with the token of the bootstrap kubeconfig, registers the node with its labels
// and taints, and keeps it Ready while there is a pod network. The node has no pods.
func (o KubeletOptions) Program() Program {
	o.Heartbeat = cmp.Or(o.Heartbeat, 10*time.Second)
	o.Version = cmp.Or(o.Version, KubeletVersion)
	o.CNIConfig = cmp.Or(o.CNIConfig, `C:\k\cni\config\cni.conf`)
	return func(ctx context.Context, p Process) uint32 {
		k := &kubelet{options: o, host: p.Host, flags: flagsOf(p.Command)}
		err := k.run(ctx)
		k.log(fmt.Sprintf("Kubelet ends: %v", err))
		return 1
	}
}

// kubelet is one run of a kubelet.
type kubelet struct {
	options KubeletOptions
	host    hostapi.Host
	flags   map[string]string
	facts   wicdapi.HostFacts
	node    string
	taints  []corev1.Taint
	api     *kubeletAPI
}

// flagsOf reads the flags of the form --name=value.
func flagsOf(command string) map[string]string {
	flags := map[string]string{}
	for word := range strings.FieldsSeq(command) {
		if name, value, ok := strings.Cut(strings.TrimLeft(word, "-"), "="); ok && strings.HasPrefix(word, "-") {
			flags[name] = value
		}
	}
	return flags
}

// log writes to the log file of kube-log-runner.
func (k *kubelet) log(line string) {
	f, _, err := k.host.Disk.Append(k.flags["log-file"])
	if err != nil {
		return
	}
	_, _ = fmt.Fprintf(f, "%s %s\n", time.Now().UTC().Format(time.RFC3339), line)
	_ = f.Close()
}

func (k *kubelet) run(ctx context.Context) (err error) {
	if k.facts, err = k.host.System.Facts(ctx); err != nil {
		return err
	}
	k.node = cmp.Or(k.flags["hostname-override"], strings.ToLower(k.facts.Hostname))
	if err := k.readConfig(); err != nil {
		return err
	}
	if err := k.connect(ctx); err != nil {
		return err
	}
	defer k.api.close()
	if err := k.retry(ctx, k.register); err != nil {
		return err
	}
	// As with the real kubelet, the node works while its serving certificate is pending.
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = k.retry(ctx, k.serve)
	}()
	k.beat(ctx)
	<-served
	return ctx.Err()
}

// readConfig reads the taints from kubelet.conf, and starts the managers that it names.
func (k *kubelet) readConfig() error {
	name := k.flags["config"]
	b, err := k.host.Disk.Read(name)
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	var config struct {
		RegisterWithTaints []corev1.Taint `json:"registerWithTaints"`
		kubeletManagers
	}
	if err := json.Unmarshal(b, &config); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	k.taints = config.RegisterWithTaints
	return k.startManagers(config.kubeletManagers)
}

// retry retries until success or the end of ctx. After a permanent error the kubelet exits, and Windows restarts it.
func (k *kubelet) retry(ctx context.Context, try func(context.Context) error) error {
	for wait := 500 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		err := try(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, errPermanent) {
			return err
		}
		k.log(err.Error())
		if err := backoff.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// errPermanent marks errors after which a kubelet exits.
var errPermanent = errors.New("the kubelet cannot continue")

// register creates the node, or updates the existing one.
func (k *kubelet) register(ctx context.Context) error {
	labels := map[string]string{
		corev1.LabelHostname: k.node, corev1.LabelOSStable: "windows", corev1.LabelArchStable: k.facts.Architecture,
		corev1.LabelWindowsBuild: fmt.Sprintf("10.0.%d", k.facts.Build),
	}
	for pair := range strings.SplitSeq(k.flags["node-labels"], ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			labels[key] = value
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: k.node, Labels: labels}, Spec: corev1.NodeSpec{Taints: k.taints}, Status: k.status()}
	if k.isOfCloud() {
		node.Annotations = map[string]string{"alpha.kubernetes.io/provided-node-ip": k.flags["node-ip"]}
		node.Spec.Taints = append(slices.Clone(k.taints), corev1.Taint{Key: api.TaintUninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule})
	}
	_, err := k.api.core.Nodes().Create(ctx, node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
		if _, err := k.api.core.Nodes().Patch(ctx, k.node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("labeling node %s: %w", k.node, err)
		}
		return k.report(ctx)
	}
	if err != nil {
		return fmt.Errorf("registering node %s: %w", k.node, err)
	}
	k.log("Successfully registered node " + k.node)
	return nil
}

// beat renews the lease, and reports when the node becomes ready or not ready, or may have been marked as unknown because its
// lease was not renewed in time. While it is not ready, it checks every second.
func (k *kubelet) beat(ctx context.Context) {
	reported, tried, renewed := false, time.Time{}, time.Now()
	for {
		if ready := k.ready(); ready != reported {
			if err := k.report(ctx); err != nil {
				k.log(err.Error())
			} else {
				reported = ready
			}
		}
		if time.Since(tried) >= k.options.Heartbeat {
			if err := k.renewLease(ctx); err != nil {
				k.log(err.Error())
			} else {
				reported = reported && time.Since(renewed) < 2*k.options.Heartbeat
				renewed = time.Now()
			}
			tried = time.Now()
		}
		wait := k.options.Heartbeat
		if !reported {
			wait = min(wait, time.Second)
		}
		if backoff.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// isOfCloud reports whether a cloud initializes the node.
func (k *kubelet) isOfCloud() bool { return k.flags["cloud-provider"] == "external" }

func (k *kubelet) ready() bool {
	return k.host.Disk.Exists(k.options.CNIConfig) || k.host.Disk.Exists(k.options.CNIConfig+"list")
}

// report writes the node's status.
func (k *kubelet) report(ctx context.Context) error {
	status := k.status()
	if k.isOfCloud() {
		status.Addresses = nil // the cloud sets the node's addresses
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	// As with the real kubelet, conditions set by others are kept.
	_, err = k.api.core.Nodes().Patch(ctx, k.node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("reporting the status of node %s: %w", k.node, err)
	}
	return nil
}
