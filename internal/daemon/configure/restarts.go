package configure

import (
	"cmp"
	"strings"

	"github.com/windows-machine-config/wmco/internal/desired"
)

// restarts are services which, when they run, must start again, and why.
type restarts map[string]string

// mark has a service restarted, for the first reason that is given.
func (r restarts) mark(name, why string) { r[name] = cmp.Or(r[name], why) }

// usersOf marks those services whose command line names a file that changed.
func (r restarts) usersOf(all []desired.Service, name string) {
	for _, s := range all {
		if strings.Contains(strings.ToLower(s.Command), strings.ToLower(name)) {
			r[s.Name] = name + " changed"
		}
	}
}
