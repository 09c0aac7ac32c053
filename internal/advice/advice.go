// Package advice knows, for each reason that the operator and its daemon report, how bad it is, what the administrator
// does next, and which document says more. It is pure: tools and pages print what it returns.
package advice

import (
	"maps"
	"strings"
)

// Severity is how urgent a reason is.
type Severity string

// The severities, from the most urgent.
const (
	// Error means that nothing goes on until the administrator acts.
	Error Severity = "error"
	// Warning means that something does not work and that the operator repairs or retries it, or that it will need the
	// administrator.
	Warning Severity = "warning"
	// Info means that something is in progress, or waits as configured.
	Info Severity = "info"
	// OK means that nothing is wrong.
	OK Severity = "ok"
)

// Advice is what to do about a reason.
type Advice struct {
	// Severity is how urgent the reason is.
	Severity Severity
	// Remedy is one sentence; empty when nothing has to be done.
	Remedy string
	// Page is the document, without extension, and the heading that explains the reason, as in
	// "troubleshooting#a-host-does-not-become-ready".
	Page string
}

// baseURL is where the documents are published, and extension what their files end with there. Nothing else names them.
const (
	baseURL   = "https://github.com/windows-machine-config/wmco/blob/main/docs/"
	extension = ".md"
)

// URL is the address of the documentation; empty when the advice names no page.
func (a Advice) URL() string {
	if a.Page == "" {
		return ""
	}
	return URL(a.Page)
}

// URL is the address of a heading, as in "fleet#drain", or of a whole document, as in "fleet".
func URL(page string) string {
	document, heading, found := strings.Cut(page, "#")
	if !found {
		return baseURL + document + extension
	}
	return baseURL + document + extension + "#" + heading
}

// Table is the advice for each reason.
type Table map[string]Advice

// All is the whole table: the reasons of package api, and those of the kubelet's conditions and of waiting containers
// that administrators of Windows nodes see.
func All() Table {
	all := Table{}
	for _, part := range []Table{
		connections(), hostNames(), hosts(), joins(), clusterNetworks(), plans(), drains(), nodes(), ofWindows(), isolation(), overlays(), kubelets(), images(), settings(), hostEvents(), nodeEvents(), pods(), operators(),
	} {
		maps.Copy(all, part)
	}
	return all
}

// For is the advice for a reason. A reason that is not in the table gets a Warning that points to the message.
func (t Table) For(reason string) Advice {
	if a, known := t[reason]; known {
		return a
	}
	return Advice{Severity: Warning, Remedy: "See the message.", Page: "troubleshooting"}
}

// good is the advice for a reason that says that all is well.
func good() Advice { return Advice{Severity: OK} }
