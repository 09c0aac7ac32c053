//go:build linux

package deploytest

import (
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/eviction"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// testRandomKubeletSettings compares random values of spec.kubelet with the newest kubelet's own code: the kubelet must start
// with each configuration that both the API server and the operator accept, and must know all of its fields.
func (c *cluster) testRandomKubeletSettings(t *testing.T) {
	defer klog.CaptureState().Restore()
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard) // each configuration repeats the warnings about feature gates
	_, codecs, err := scheme.NewSchemeAndCodecs(serializer.EnableStrict)
	must(t, err)
	all := configs(c.admin)
	seen := map[string]int{}
	for seed := range uint64(600) {
		spec := randomKubeletSpec(rand.New(rand.NewPCG(seed, 42)))
		var k v1alpha1.KubeletSpec
		must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &k))
		content, err := renderKubelet(k)
		if err != nil && !errors.Is(err, desired.ErrSettings) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		o := object("WindowsConfig", "cluster", map[string]any{"kubelet": spec})
		_, rejected := all.Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case rejected != nil:
			seen["rejected by the API server"]++
			continue
		case err != nil:
			seen["rejected by the operator"]++
			continue
		}
		seen["accepted"]++
		if err := startsWith(codecs.UniversalDecoder(), content); err != nil {
			t.Errorf("seed %d: the kubelet does not start: %v\n%v", seed, err, spec)
		}
	}
	if seen["accepted"] < 200 || seen["rejected by the operator"] < 30 || seen["rejected by the API server"] < 100 {
		t.Errorf("too few specs of each result: %v", seen)
	}
}

// startsWith returns an error if the kubelet would not start with a configuration, or if strict decoding fails.
func startsWith(strict runtime.Decoder, content string) error {
	kc := &kubeletconfig.KubeletConfiguration{}
	if err := runtime.DecodeInto(strict, []byte(content), kc); err != nil {
		return err
	}
	kc.FailCgroupV1 = false // depends on the machine of this test
	if err := validation.ValidateKubeletConfiguration(kc, utilfeature.DefaultFeatureGate); err != nil {
		return err
	}
	_, err := eviction.ParseThresholdConfig(kc.EnforceNodeAllocatable, kc.EvictionHard, kc.EvictionSoft, kc.EvictionSoftGracePeriod, kc.EvictionMinimumReclaim)
	return err
}

// renderKubelet returns the kubelet's configuration of nodes, without the fields that each host sets.
func renderKubelet(spec v1alpha1.KubeletSpec) (string, error) {
	rendered, err := desired.Render(desired.Inputs{
		Cluster: desired.Cluster{Server: "https://api.example:6443", ServiceCIDRs: []string{"10.96.0.0/16"}, DNSServers: []string{"10.96.0.10"}, Domain: "cluster.local"},
		Config: v1alpha1.WindowsConfigSpec{Kubelet: spec, Network: v1alpha1.NetworkSpec{
			Provider: v1alpha1.NetworkCustom, Custom: &v1alpha1.CustomNetwork{CNIConfig: `{"name": "l2", "type": "win-bridge"}`},
		}},
	})
	if err != nil {
		return "", err
	}
	for _, f := range rendered.Node.Files {
		if !strings.HasSuffix(f.Path, `\kubelet.conf`) {
			continue
		}
		var fields map[string]any
		if err := json.Unmarshal([]byte(f.Content), &fields); err != nil {
			return "", err
		}
		delete(fields, "registerWithTaints")
		b, err := json.Marshal(fields)
		return string(b), err
	}
	return "", errors.New("the settings of nodes have no kubelet.conf")
}

// randomKubeletSpec returns a spec with a few fields, whose values are within, at and beyond their limits.
func randomKubeletSpec(r *rand.Rand) map[string]any {
	choose := func(of ...any) any { return of[r.IntN(len(of))] }
	texts := func(keys []any, values ...any) map[string]any {
		all := map[string]any{}
		for range 1 + r.IntN(2) {
			all[choose(keys...).(string)] = choose(values...)
		}
		return all
	}
	signals := []any{"memory.available", "nodefs.available", "imagefs.available"}
	resources := []any{"cpu", "memory", "ephemeral-storage"}
	thresholds := []any{"500Mi", "1Gi", "1.5Gi", "10%", "12.5%", "0%", "0.0%", "100%", "100.0%", "0", "1", "101%", "-1%", "1e3", "400m", "5x%"}
	amounts := []any{"500m", "1", "2Gi", "0", "1.5Gi", "100Mi", "1e3", "-1", "0.5"}
	soft := texts(signals, thresholds...)
	grace := map[string]any{}
	for signal := range soft {
		grace[signal] = choose("90s", "1s", "24h", "1h1m1s", "0s", "90")
	}
	fields := []func(spec map[string]any){
		func(spec map[string]any) { spec["maxPods"] = choose(int64(1), int64(250), int64(1000), int64(1001)) },
		func(spec map[string]any) { spec["systemReserved"] = texts(resources, amounts...) },
		func(spec map[string]any) { spec["kubeReserved"] = texts(resources, amounts...) },
		func(spec map[string]any) { spec["evictionHard"] = texts(signals, thresholds...) },
		func(spec map[string]any) { spec["evictionSoft"], spec["evictionSoftGracePeriod"] = soft, grace },
		func(spec map[string]any) {
			spec["evictionMaxPodGracePeriod"] = choose(int64(0), int64(3600), int64(-1))
		},
		func(spec map[string]any) { spec["evictionMinimumReclaim"] = texts(signals, thresholds...) },
		func(spec map[string]any) {
			spec["imageGCHighThresholdPercent"] = choose(int64(1), int64(80), int64(81), int64(100))
		},
		func(spec map[string]any) {
			spec["imageGCLowThresholdPercent"] = choose(int64(1), int64(84), int64(85), int64(99))
		},
		func(spec map[string]any) { spec["maxParallelImagePulls"] = choose(int64(1), int64(100), int64(101)) },
		func(spec map[string]any) { spec["cpuManagerPolicy"] = choose("none", "static", "Static") },
		func(spec map[string]any) {
			spec["memoryManagerPolicy"] = choose("None", "BestEffort", "BestEffort", "Static")
		},
		func(spec map[string]any) {
			spec["memoryManagerPolicy"], spec["reservedMemory"] = "BestEffort", []any{map[string]any{"numaNode": int64(0), "memory": choose("2548Mi", "2Gi", "500Mi", "0", "2671771648", "2671771648000m")}}
		},
		func(spec map[string]any) {
			spec["topologyManagerPolicy"] = choose("none", "best-effort", "restricted", "single-numa-node")
		},
		func(spec map[string]any) {
			spec["topologyManagerPolicy"], spec["topologyManagerScope"] = choose("none", "restricted"), choose("container", "pod")
		},
		func(spec map[string]any) {
			spec["containerLogMaxSize"] = choose("1Mi", "10Gi", "50M", "1048576", "1Ki", "1e7", "1048576500m")
		},
		func(spec map[string]any) { spec["containerLogMaxFiles"] = choose(int64(1), int64(2), int64(100)) },
		func(spec map[string]any) { spec["shutdownGracePeriod"] = choose("1s", "1h", "90s", "0s") },
		func(spec map[string]any) {
			spec["shutdownGracePeriod"], spec["shutdownGracePeriodCriticalPods"] = "30s", choose("1s", "30s", "31s")
		},
	}
	spec := map[string]any{}
	for range 1 + r.IntN(3) {
		fields[r.IntN(len(fields))](spec)
	}
	return spec
}
