package network

import "strings"

// hnsService is the name of the Host Network Service.
const hnsService = "hns"

// needed returns services without which the Host Network Service responds that a service is not active: Dnscache (microsoft/SDN#509), and others that
// Windows hardening guides disable.
func needed() []string {
	return []string{"Dnscache", "SharedAccess", "BFE", "mpssvc", "nsi", "vmcompute"}
}

// needs describes which of them do not run while the Host Network Service does; if it is stopped itself, that alone explains the response. stopped
// returns why a service does not run; empty if it does.
func needs(stopped func(name string) string) string {
	if stopped(hnsService) != "" {
		return ""
	}
	var all []string
	for _, name := range needed() {
		if reason := stopped(name); reason != "" {
			all = append(all, name+" "+reason)
		}
	}
	if len(all) == 0 {
		return "; service hns is running, and so are the services that it is known to need"
	}
	return "; service hns is running, and of the services that it needs: " + strings.Join(all, ", ")
}
