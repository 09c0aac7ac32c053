// Package advice maps each reason that the operator and its daemon report to its severity, the administrator's next step, and a document. It
// does no I/O: tools and pages print what it returns.
package advice

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Severity is how urgent a reason is.
type Severity string

// Severities, most urgent first.
const (
	// Error means that the administrator must act.
	Error Severity = "error"
	// Warning means that something does not work and that the operator repairs or retries it, or that it will need the administrator.
	Warning Severity = "warning"
	// Info means that something is in progress, or waits as configured.
	Info Severity = "info"
	// OK means that nothing is wrong.
	OK Severity = "ok"
)

// Compare orders severities, most urgent first.
func (s Severity) Compare(other Severity) int {
	order := []Severity{Error, Warning, Info, OK}
	return cmp.Compare(slices.Index(order, s), slices.Index(order, other))
}

// Advice is what to do about a reason.
type Advice struct {
	// Severity is how urgent the reason is.
	Severity Severity
	// Remedy is one sentence; empty if no action is needed.
	Remedy string
	// Page is the document, without extension, and the heading that explains the reason, as in
	// "troubleshooting#a-host-does-not-become-ready".
	Page string
}

// baseURL is where the documents are published; extension is their file extension there. They are defined only here.
const (
	baseURL   = "https://github.com/windows-machine-config/wmco/blob/main/docs/"
	extension = ".md"
)

// URL returns the address of the documentation; empty if the advice has no page.
func (a Advice) URL() string {
	if a.Page == "" {
		return ""
	}
	return URL(a.Page)
}

// URL returns the address of a heading, such as "fleet#drain", or of a whole document, such as "fleet".
func URL(page string) string {
	document, heading, found := strings.Cut(page, "#")
	if !found {
		return baseURL + document + extension
	}
	return baseURL + document + extension + "#" + heading
}

// Table maps reasons to advice.
type Table map[string]Advice

// All returns the whole table: the reasons of package api, and those of the kubelet's conditions and of waiting containers that administrators
// of Windows nodes encounter.
func All() Table {
	all := Table{}
	for _, part := range []Table{
		connections(), hostNames(), hosts(), joins(), clusterNetworks(), plans(), drains(), nodes(), windowsReasons(), isolation(), overlays(), kubelets(), images(), settings(), hostEvents(), nodeEvents(), pods(), operators(),
	} {
		maps.Copy(all, part)
	}
	return all
}

// For returns the advice for a reason. A reason that is not in the table gets a Warning that points to the message.
func (t Table) For(reason string) Advice {
	if a, known := t[reason]; known {
		return a
	}
	return Advice{Severity: Warning, Remedy: "See the message.", Page: "troubleshooting"}
}

func good() Advice { return Advice{Severity: OK} }
