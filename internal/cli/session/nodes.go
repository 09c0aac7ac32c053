package session

import (
	"context"
	"slices"

	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

// AllHosts selects all hosts on a command line.
const AllHosts = "all"

// Nodes returns the names of the hosts' Nodes. Hosts are named as for ReadHost. A name that matches no host, or any name if WindowsInstances
// cannot be read, is used as that of a Node.
func (s *Session) Nodes(ctx context.Context, hosts []string) ([]string, error) {
	in, err := s.Read(ctx)
	if err != nil && slices.Contains(hosts, AllHosts) {
		return nil, err
	}
	fleet := fleetstatus.Fleet{}
	if err == nil {
		fleet = fleetstatus.Of(in)
	}
	var nodes []string
	add := func(node string) {
		if !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
	}
	for _, host := range hosts {
		h, found := fleet.Find(host)
		switch {
		case host == AllHosts:
			for _, h := range fleet.Hosts {
				if h.Node != "" {
					add(h.Node)
				}
			}
		case host == "":
			return nil, failf(CodeUsage, "the name of a host is empty")
		case found && h.Node == "":
			return nil, failf(CodeNotFound, "host %s has no Node yet; run kubectl windows describe %s", host, h.Name)
		case found:
			add(h.Node)
		default:
			add(host)
		}
	}
	if len(nodes) == 0 {
		return nil, failf(CodeNotFound, "no host has a Node yet")
	}
	return nodes, nil
}
