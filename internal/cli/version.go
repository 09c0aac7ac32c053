package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

type versions struct {
	// Client is the version of this program, Operator that of the operator's image.
	Client   string `json:"client"`
	Operator string `json:"operator,omitempty"`
	// Desired is the version that nodes should have.
	Desired string `json:"desired,omitempty"`
	// Nodes, Kubelets and Windows map versions of nodes, of kubelets and of Windows to the names of their nodes.
	Nodes    map[string][]string `json:"nodes,omitempty"`
	Kubelets map[string][]string `json:"kubelets,omitempty"`
	Windows  map[string][]string `json:"windows,omitempty"`
}

func version(s *session.Session) *cobra.Command {
	var o output
	var client bool
	c := &cobra.Command{
		Use:     "version",
		Short:   "Show the versions of this program, the operator and the nodes",
		Example: "  kubectl windows version\n  kubectl windows version --client",
		Args:    rejectArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			v := versions{Client: s.Version}
			if !client {
				f, err := readFleet(c.Context(), s)
				if err != nil {
					return err
				}
				v = versionsOf(s.Version, f)
			}
			return o.show(s, v, func(p *terminal.Printer) { printVersionsOf(p, v) })
		},
	}
	o.add(c, formatJSON, formatYAML)
	c.Flags().BoolVar(&client, "client", false, "Only show the version of this program, without contacting a cluster.")
	return c
}

func versionsOf(client string, f fleetstatus.Fleet) versions {
	v := versions{
		Client: client, Operator: f.Operator.Version, Desired: f.Rollout.Version,
		Nodes: map[string][]string{}, Kubelets: map[string][]string{}, Windows: map[string][]string{},
	}
	for _, h := range f.Hosts {
		if h.Node == "" {
			continue
		}
		for group, current := range map[*map[string][]string]string{&v.Nodes: h.Versions.Node, &v.Kubelets: h.Versions.Kubelet, &v.Windows: h.Versions.Windows} {
			current = cmp.Or(current, "unknown")
			(*group)[current] = append((*group)[current], h.Node)
		}
	}
	return v
}

func printVersionsOf(p *terminal.Printer, v versions) {
	p.Field("Client", v.Client)
	p.Field("Operator", v.Operator)
	p.Field("Desired", v.Desired)
	for _, group := range []struct {
		name string
		of   map[string][]string
	}{{"Nodes", v.Nodes}, {"Kubelets", v.Kubelets}, {"Windows", v.Windows}} {
		for n, current := range slices.Sorted(maps.Keys(group.of)) {
			p.Field(once(n, group.name), fmt.Sprintf("%s: %d (%s)", current, len(group.of[current]), names(group.of[current])))
		}
	}
}
