//go:build linux

package deploytest

import (
	"context"
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (c *cluster) testWindowsInstance(t *testing.T) {
	all := instances(c.admin, namespace)
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	with := func(change map[string]any) func(context.Context) error {
		spec := map[string]any{"address": "10.0.0.1", "username": "Administrator"}
		maps.Copy(spec, change)
		return func(ctx context.Context) error {
			return drop(all.Create(ctx, object("WindowsInstance", "x", spec), dryRun))
		}
	}
	const notAnAddress = "address must be an IPv4 address or a DNS name"
	try(t, []attempt{
		{"IPv4 address", "", with(nil)},
		{"DNS name", "", with(map[string]any{"address": "Win-1.example.com"})},
		{"host key", "", with(map[string]any{"hostKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHZ8"})},
		{"IPv6 address", "IPv6 addresses are not supported", with(map[string]any{"address": "fd00::1"})},
		{"empty address", "spec.address", with(map[string]any{"address": ""})},
		{"address with spaces", notAnAddress, with(map[string]any{"address": "win 1"})},
		{"address with a port", "spec.address", with(map[string]any{"address": "10.0.0.1:22"})},
		{"empty user name", "spec.username", with(map[string]any{"username": ""})},
		{"port out of range", "spec.port", with(map[string]any{"port": int64(70000)})},
		{"host key that is none", "spec.hostKey", with(map[string]any{"hostKey": "ssh-dss AAAA"})},
	})
	if _, err := all.Create(t.Context(), object("WindowsInstance", "kept", map[string]any{"address": "10.0.0.1", "username": "a"}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := func(raw string) func(context.Context) error {
		return func(ctx context.Context) error {
			return drop(all.Patch(ctx, "kept", types.MergePatchType, []byte(raw), metav1.PatchOptions{}))
		}
	}
	try(t, []attempt{
		{"address changes", "address cannot change", patch(`{"spec":{"address":"10.0.0.2"}}`)},
		{"user name changes", "", patch(`{"spec":{"username":"b"}}`)},
		{"status by way of the object is not taken", "", func(ctx context.Context) error {
			if err := patch(`{"status":{"hostname":"win-1"}}`)(ctx); err != nil {
				return err
			}
			got, err := all.Get(ctx, "kept", metav1.GetOptions{})
			if err == nil && got.Object["status"] != nil {
				t.Errorf("status is %v, want none", got.Object["status"])
			}
			return err
		}},
	})
}

func (c *cluster) testWindowsConfig(t *testing.T) {
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	named := func(name string, spec map[string]any) func(context.Context) error {
		return func(ctx context.Context) error {
			return drop(configs(c.admin).Create(ctx, object("WindowsConfig", name, spec), dryRun))
		}
	}
	set := func(path string, value any) func(context.Context) error {
		spec := value
		parts := strings.Split(path, ".")
		for i := len(parts) - 1; i >= 0; i-- {
			spec = map[string]any{parts[i]: spec}
		}
		return named("cluster", spec.(map[string]any))
	}
	reserved := func(key, value string) func(context.Context) error {
		return set("kubelet.systemReserved", map[string]any{key: value})
	}
	eviction := func(key, value string) func(context.Context) error {
		return set("kubelet.evictionHard", map[string]any{key: value})
	}
	try(t, []attempt{
		{"nothing but its name", "", named("cluster", map[string]any{})},
		{"another name", "its name must be cluster", named("other", map[string]any{})},
		{"joins at once", "", set("rollout.maxConcurrentJoins", int64(100))},
		{"no joins at once", "spec.rollout.maxConcurrentJoins", set("rollout.maxConcurrentJoins", int64(0))},
		{"too many pods", "spec.kubelet.maxPods", set("kubelet.maxPods", int64(5000))},
		{"reserved memory", "", reserved("memory", "2Gi")},
		{"reserved memory that is no quantity", "values must be quantities", reserved("memory", "two")},
		{"reserved something else", "keys must be cpu, memory or ephemeral-storage", reserved("disk", "1Gi")},
		{"eviction by percentage", "", eviction("nodefs.available", "12.5%")},
		{"eviction by quantity", "", eviction("memory.available", "500Mi")},
		{"eviction that is neither", "values must be a quantity or a percentage", eviction("memory.available", "much")},
		{"eviction by something else", "keys must be memory.available", eviction("pid.available", "10%")},
		{"network of the user's own", "", set("network", map[string]any{"provider": "Custom", "custom": map[string]any{"cniConfig": "{}"}})},
		{"network without its settings", "network.custom must be set", set("network.provider", "Custom")},
		{"network nobody knows", "spec.network.provider", set("network.provider", "Other")},
	})
}
