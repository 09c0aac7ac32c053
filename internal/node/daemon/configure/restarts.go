package configure

import (
	"cmp"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// restarts maps services that must restart, if they run, to the reason.
type restarts map[string]string

// mark requests a restart of a service. The first reason is kept.
func (r restarts) mark(name, reason string) { r[name] = cmp.Or(r[name], reason) }

// usersOf marks the services whose command line names a changed file.
func (r restarts) usersOf(all []desired.Service, name string) {
	for _, s := range all {
		if strings.Contains(strings.ToLower(s.Command), strings.ToLower(name)) {
			r.mark(s.Name, name+" changed")
		}
	}
}
