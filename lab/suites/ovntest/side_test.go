//go:build linux

// Package ovntest replays recordings of OVN-Kubernetes' own programs on a real API server: with the lab's stand-in and, if the
// environment sets their paths, with the programs.
package ovntest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/ovn"
	"github.com/windows-machine-config/wmco/lab/cluster/ovn/story"
)

// waitTimeout limits the time of a step. The cluster manager finds a released subnet within 45 s.
const waitTimeout = 90 * time.Second

// A cluster has the Linux side of OVN-Kubernetes and Nodes without hosts.
type cluster struct {
	t       *testing.T
	config  *rest.Config
	clients kubernetes.Interface
	side    *ovn.Side
	// nodes are the expected annotations of Nodes.
	nodes map[string]map[string]string
	// swapped maps recorded values, by annotation, to the actual ones: when the cluster manager starts, it is a matter of
	// chance which Node gets which value.
	swapped map[string]map[string]string
	// upcoming are the steps that follow.
	upcoming []*story.Step
}

// must fails the test immediately if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sides runs a test with the stand-in and, if available, with the programs. Each has its own control plane.
func sides(t *testing.T, test func(*testing.T, func() *cluster)) {
	for _, s := range []struct {
		name     string
		programs ovn.Programs
	}{{"stand-in", ovn.Programs{}}, {"programs", ovn.FromEnvironment()}} {
		t.Run(s.name, func(t *testing.T) {
			if s.name == "programs" {
				if err := s.programs.Missing(); err != nil {
					t.Skip("SKIPPED: no programs of OVN-Kubernetes:", err)
				}
			}
			test(t, func() *cluster { return open(t, s.programs) })
		})
	}
}

func open(t *testing.T, programs ovn.Programs) *cluster {
	t.Helper()
	cp, err := lab.StartControlPlane(t.Context(), lab.ControlPlaneOptions{NoPodCIDRs: true, Progress: os.Stderr})
	must(t, err)
	t.Cleanup(cp.Stop)
	c := &cluster{t: t, config: cp.RESTConfig(), nodes: map[string]map[string]string{}, swapped: map[string]map[string]string{}}
	if c.clients, err = kubernetes.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, cp.Kubeconfig(kubeconfig))
	c.side, err = ovn.Open(t.Context(), ovn.Options{
		ControlPlane: cp, Kubeconfig: kubeconfig, Folder: t.TempDir(), Programs: programs, Log: t.Output(), Retry: time.Second,
	})
	must(t, err)
	t.Cleanup(c.side.Close)
	return c
}

func TestSubnetsAreAssignedAsRecorded(t *testing.T) {
	sides(t, func(t *testing.T, open func() *cluster) {
		c := open()
		for _, name := range story.Names() {
			steps, err := story.Steps(name)
			must(t, err)
			t.Run(name, func(t *testing.T) {
				c := c.withT(t)
				c.reset()
				for i, st := range steps {
					c.upcoming = steps[i+1:]
					c.perform(st)
				}
			})
		}
	})
}

func (c *cluster) withT(t *testing.T) *cluster {
	other := *c
	other.t = t
	return &other
}

// reset deletes the Nodes of the previous recording.
func (c *cluster) reset() {
	c.t.Helper()
	clear(c.nodes)
	clear(c.swapped)
	must(c.t, c.clients.CoreV1().Nodes().DeleteCollection(c.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
}

// perform performs a step, and waits until Nodes have the recorded state.
func (c *cluster) perform(st *story.Step) {
	c.t.Helper()
	nodes := c.clients.CoreV1().Nodes()
	for _, name := range st.Delete {
		delete(c.nodes, name)
		must(c.t, nodes.Delete(c.t.Context(), name, metav1.DeleteOptions{}))
	}
	for name, os := range st.Label {
		c.patch(name, map[string]any{"labels": map[string]string{corev1.LabelOSStable: os}})
	}
	if st.Stop {
		c.side.StopManager()
	}
	for name, changes := range st.Annotate {
		c.patch(name, map[string]any{"annotations": changes})
	}
	var ended error
	if st.Start != nil {
		ended = c.side.Configure(c.t.Context(), strings.Join(st.Start.Conf, "\n"), ownFlags(st.Start.Flags)...)
		if exit := (*ovn.ExitError)(nil); ended != nil && !errors.As(ended, &exit) {
			c.t.Fatalf("%s: %v\n%s", st.Do, ended, c.side.Log())
		}
	}
	for _, data := range st.Register {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: data.Name, Labels: map[string]string{corev1.LabelOSStable: data.OS}, Annotations: data.Annotations}}
		if _, err := nodes.Create(c.t.Context(), n, metav1.CreateOptions{}); err != nil {
			c.t.Fatal(err)
		}
		c.await(st, "Node "+data.Name+" is annotated", func() string { return c.difference(st.Nodes, data.Name) })
	}
	maps.Copy(c.nodes, st.Nodes)
	if st.Start != nil && len(st.Register) == 0 {
		c.await(st, "all Nodes are annotated", func() string { return c.swap(st.Nodes) })
	}
	if st.Exit != nil {
		c.await(st, "the cluster manager exits", func() string {
			if ended == nil {
				ended = c.side.Ended()
			}
			return st.Exit.Compare(ended)
		})
	}
	c.await(st, "all Nodes are as recorded", func() string { return c.difference(c.nodes, slices.Collect(maps.Keys(c.nodes))...) })
	if st.Exit == nil && !st.Stop {
		if err := c.side.Ended(); err != nil {
			c.t.Errorf("%s: the cluster manager exited: %v", st.Do, err)
		}
	}
}

// next returns the subnet that a waiting Node gets in the following steps, or "none".
func (c *cluster) next(name string) string {
	for _, st := range c.upcoming {
		if annotations, changes := st.Nodes[name]; changes || slices.Contains(st.Delete, name) {
			return cmp.Or(annotations[ovn.SubnetAnnotation], "none")
		}
	}
	return "none"
}

// swap records which Nodes have values that other Nodes had in the recording.
func (c *cluster) swap(recorded map[string]map[string]string) string {
	for _, key := range story.Managed() {
		values, got := map[string]string{}, []string{}
		for name, annotations := range recorded {
			n, err := c.clients.CoreV1().Nodes().Get(c.t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if want, ok := annotations[key]; ok {
				values[want] = n.Annotations[key]
				got = append(got, n.Annotations[key])
			}
		}
		want := slices.Sorted(maps.Keys(values))
		slices.Sort(got)
		for i, v := range want {
			want[i] = c.expected(key, v)
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			return fmt.Sprintf("got values %v of %s, want the recorded %v", got, key, want)
		}
		if c.swapped[key] == nil {
			c.swapped[key] = map[string]string{}
		}
		maps.Copy(c.swapped[key], values)
	}
	return ""
}

// expected returns the actual value for a recorded one.
func (c *cluster) expected(key, recorded string) string {
	if other, swapped := c.swapped[key][recorded]; swapped {
		return other
	}
	return recorded
}

// ownFlags returns the flags that ovn.Side does not set itself.
func ownFlags(flags []string) (own []string) {
	if i := slices.Index(flags, "--ovn-config-namespace"); i >= 0 {
		return flags[i+2:]
	}
	return nil
}

func (c *cluster) patch(name string, meta map[string]any) {
	c.t.Helper()
	text, err := json.Marshal(map[string]any{"metadata": meta})
	must(c.t, err)
	_, err = c.clients.CoreV1().Nodes().Patch(c.t.Context(), name, types.MergePatchType, text, metav1.PatchOptions{})
	must(c.t, err)
}

// difference returns how the annotations of Nodes differ from the recorded ones, or "".
func (c *cluster) difference(want map[string]map[string]string, names ...string) string {
	for _, name := range names {
		n, err := c.clients.CoreV1().Nodes().Get(c.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if _, ok := want[name][ovn.SubnetAnnotation]; !ok && n.Annotations[ovn.SubnetAnnotation] == c.next(name) {
			continue // it is a matter of chance when the cluster manager retries
		}
		got := story.OnlyManaged(n.Annotations)
		same := func(key, value string) bool { return got[key] == value || got[key] == c.expected(key, value) }
		for key, value := range want[name] {
			if !same(key, value) {
				return fmt.Sprintf("Node %s: got %s=%s, want the recorded %s; swapped values are %v", name, key, got[key], value, c.swapped[key])
			}
		}
		if len(got) != len(want[name]) {
			return fmt.Sprintf("Node %s: got annotations %v, want the recorded %v", name, got, want[name])
		}
	}
	return ""
}

// await waits until problem returns "".
func (c *cluster) await(st *story.Step, what string, problem func() string) {
	c.t.Helper()
	for end := time.Now().Add(lab.Timeout(waitTimeout)); ; time.Sleep(20 * time.Millisecond) {
		p := problem()
		if p == "" {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("%s: timed out waiting until %s: %s\n%s", st.Do, what, p, c.side.Log())
		}
	}
}
