package ovn_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/lab/cluster/ovn"
	"github.com/windows-machine-config/wmco/lab/cluster/ovn/story"
)

// TestManagerMatchesRecordings replays each recording with the stand-in.
func TestManagerMatchesRecordings(t *testing.T) {
	for _, name := range story.Names() {
		t.Run(name, func(t *testing.T) {
			p := &replay{t: t, nodes: map[string]*corev1.Node{}}
			steps, err := story.Steps(name)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]map[string]string{}
			for _, st := range steps {
				ended := p.act(st)
				for _, name := range st.Delete {
					delete(want, name)
				}
				maps.Copy(want, st.Nodes)
				p.compareExit(st, ended)
				p.compareNodes(st, want)
			}
		})
	}
}

type replay struct {
	t       *testing.T
	nodes   map[string]*corev1.Node
	order   []string // names of Nodes in the order of their registration
	uids    int
	manager *ovn.Manager
}

// act performs a step, and returns the error with which the cluster manager exited.
func (p *replay) act(st *story.Step) error {
	for _, name := range st.Delete {
		delete(p.nodes, name)
		p.order = slices.DeleteFunc(p.order, func(other string) bool { return other == name })
	}
	// The cluster manager sees a deletion before the Node is registered again, because the recordings have separate steps for them.
	if err := p.sync(false); err != nil {
		return err
	}
	if st.Stop {
		p.manager = nil
	}
	for name, os := range st.Label {
		p.nodes[name].Labels = map[string]string{corev1.LabelOSStable: os}
	}
	for name, changes := range st.Annotate {
		p.write(name, changes)
	}
	if st.Start != nil {
		p.manager = nil
		c, err := ovn.ParseConfig(strings.Join(st.Start.Conf, "\n"), st.Start.Flags...)
		if err != nil {
			return err
		}
		if p.manager, err = ovn.NewManager(c, p.list()); err != nil {
			return err
		}
		if err := p.sync(false); err != nil {
			return err
		}
	}
	for _, data := range st.Register {
		p.uids++
		n := &corev1.Node{}
		n.Name, n.UID, n.Annotations = data.Name, types.UID(fmt.Sprint(p.uids)), maps.Clone(data.Annotations)
		n.Labels = map[string]string{corev1.LabelOSStable: data.OS}
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		p.nodes[data.Name], p.order = n, append(p.order, data.Name)
	}
	return p.sync(false)
}

func (p *replay) list() (all []corev1.Node) {
	for _, name := range p.order {
		all = append(all, *p.nodes[name].DeepCopy())
	}
	return all
}

func (p *replay) write(name string, changes map[string]*string) {
	for key, value := range changes {
		if value == nil {
			delete(p.nodes[name].Annotations, key)
		} else {
			p.nodes[name].Annotations[key] = *value
		}
	}
}

// sync writes the manager's changes, and checks that it has no further changes.
func (p *replay) sync(retry bool) error {
	if p.manager == nil {
		return nil
	}
	all, err := p.manager.Sync(p.list(), retry)
	for name, changes := range all {
		p.write(name, changes)
	}
	if err != nil {
		p.manager = nil
		return err
	}
	if again, _ := p.manager.Sync(p.list(), false); len(again) > 0 {
		p.t.Errorf("a second Sync returned changes: %v", again)
	}
	return nil
}

func (p *replay) compareExit(st *story.Step, ended error) {
	p.t.Helper()
	if st.Exit == nil || ended == nil {
		if st.Exit != nil || ended != nil {
			p.t.Errorf("%s: got exit %v, want the recorded %+v", st.Do, ended, st.Exit)
		}
		return
	}
	if d := st.Exit.Compare(ended); d != "" {
		p.t.Errorf("%s: %s", st.Do, d)
	}
}

// compareNodes compares the annotations of all Nodes. Whether the cluster manager had already retried when a step was recorded
// is a matter of chance, so a Node that waits for a subnet can have one or not.
func (p *replay) compareNodes(st *story.Step, want map[string]map[string]string) {
	p.t.Helper()
	if p.difference(want) == "" {
		return
	}
	if err := p.sync(true); err != nil {
		p.t.Fatal(err)
	}
	if d := p.difference(want); d != "" {
		p.t.Errorf("%s: %s", st.Do, d)
	}
}

func (p *replay) difference(want map[string]map[string]string) string {
	if got, names := slices.Sorted(maps.Keys(p.nodes)), slices.Sorted(maps.Keys(want)); !slices.Equal(got, names) {
		return fmt.Sprintf("got Nodes %v, want the recorded %v", got, names)
	}
	for name, recorded := range want {
		if got := story.OnlyManaged(p.nodes[name].Annotations); !maps.Equal(got, recorded) {
			return fmt.Sprintf("Node %s: got annotations %v, want the recorded %v", name, got, recorded)
		}
	}
	return ""
}
