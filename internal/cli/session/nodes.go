package session

import "github.com/windows-machine-config/wmco/internal/observe/fleetstatus"

// NodeOf returns the name of a host's Node. A name that matches no host is used as that of a Node.
func NodeOf(fleet fleetstatus.Fleet, host string) (string, error) {
	h, found := fleet.Find(host)
	switch {
	case host == "":
		return "", Failf(CodeUsage, "the name of a host is empty")
	case !found:
		return host, nil
	case h.Node == "":
		return "", Failf(CodeNotFound, "host %s has no Node yet; run kubectl windows describe %s", host, h.Name)
	}
	return h.Node, nil
}
