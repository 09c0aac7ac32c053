package desired

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Disruption is the effect of a change on the pods of a node. Greater values include the smaller.
type Disruption int

// Disruptions, from least to greatest.
const (
	// None: no managed process notices.
	None Disruption = iota
	// Restart: services restart; pods keep running.
	Restart
	// Drain: containerd or the kubelet is replaced; pods must leave first.
	Drain
	// Reboot: Windows restarts.
	Reboot
)

// String implements fmt.Stringer.
func (d Disruption) String() string {
	switch d {
	case None:
		return "none"
	case Restart:
		return "restart"
	case Drain:
		return "drain"
	case Reboot:
		return "reboot"
	}
	return fmt.Sprintf("Disruption(%d)", int(d))
}

// Change is one difference between two Nodes and its effect on its own.
type Change struct {
	// What differs, by name only: contents may be secret.
	What       string
	Disruption Disruption
	// Services to restart, in the order in which they start.
	Services []string
}

// Difference is what it takes to turn one Node into another. Without Changes they are equal.
type Difference struct {
	// Disruption is the greatest of all changes.
	Disruption Disruption
	// Services to restart, in the order in which they start. Each restarts once, however many changes affect it.
	Services []string
	Changes  []Change
}

// String returns a summary: "none", "restart of containerd, kubelet", "drain", "reboot".
func (d Difference) String() string {
	if d.Disruption == Restart {
		return "restart of " + strings.Join(d.Services, ", ")
	}
	return d.Disruption.String()
}

// Diff returns what WICD does to turn a host that is Node old into Node new, which may need permission for a drain or a reboot first.
// Both must come from On: changes by secrets and variables are visible only there. A test in internal/node/daemon compares the result with
// what WICD does.
func Diff(old, new Node) Difference {
	c := comparison{old: old, new: new}
	c.features()
	c.programs()
	c.files()
	c.services()
	c.rest()
	return c.sum()
}

// comparison collects the changes between two Nodes.
type comparison struct {
	old, new Node
	changes  []Change
}

func (c *comparison) add(what string, least Disruption, services ...string) {
	services = c.withDependants(services)
	if len(services) > 0 {
		least = max(least, Restart)
	}
	c.changes = append(c.changes, Change{What: what, Disruption: least, Services: services})
}

// withDependants adds the services that must stop when others do, and sorts them. Only services that existed before restart.
func (c *comparison) withDependants(names []string) []string {
	stops := map[string]bool{}
	for _, name := range names {
		stops[name] = true
	}
	for grown := true; grown; {
		grown = false
		for _, s := range c.old.Services {
			needsStopped := slices.ContainsFunc(s.DependsOn, func(on string) bool { return stops[on] })
			if needsStopped && !stops[s.Name] {
				stops[s.Name], grown = true, true
			}
		}
	}
	var sorted []string
	for _, s := range c.new.Services {
		if _, found := find(c.old.Services, s.Name); found && stops[s.Name] {
			sorted = append(sorted, s.Name)
		}
	}
	return sorted
}

func find(services []Service, name string) (Service, bool) {
	i := slices.IndexFunc(services, func(s Service) bool { return s.Name == name })
	if i < 0 {
		return Service{}, false
	}
	return services[i], true
}

// features records the changes of features. Enabling one may require a restart of Windows, which Windows reports only when it is
// enabled. Hyper-V waits for a later restart of a node. Features that are no longer wanted stay.
func (c *comparison) features() {
	for _, f := range c.new.Features {
		switch {
		case slices.Contains(c.old.Features, f):
		case f == HyperVFeature:
			c.add("Windows feature "+f+", which takes effect when Windows restarts", None)
		default:
			c.add("Windows feature "+f, Reboot)
		}
	}
	for _, f := range c.old.Features {
		if !slices.Contains(c.new.Features, f) {
			c.add("Windows feature "+f+" is no longer needed and stays enabled", None)
		}
	}
}

// programs records the changes of programs and restarts the services that run them by that path. Services run programs from their
// version's folder, so that usually their declarations change; see services.
func (c *comparison) programs() {
	previous := map[string]PayloadFile{}
	for _, f := range c.old.Payload {
		previous[f.Path] = f
	}
	for _, f := range c.new.Payload {
		before, found := previous[f.Path]
		delete(previous, f.Path)
		switch {
		case !found:
			c.add("program "+f.Path+" added", None)
		case before.SHA256 != f.SHA256:
			names := []string{Root + `\` + f.Path}
			if c.old.Digest == c.new.Digest {
				names = append(names, VersionFolder(c.new.Digest)+`\`+f.Path)
			}
			c.add("program "+f.Path, disruptionOf(f.Path), c.users(names...)...)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(previous)) {
		c.add("program "+path+" removed", None)
	}
}

// disruptionOf returns the disruption of replacing a program. Pods depend on containerd, its shims, and the kubelet.
func disruptionOf(path string) Disruption {
	if path == "kubelet.exe" || strings.HasPrefix(path, `containerd\`) {
		return Drain
	}
	return None
}

// users returns the services whose command line names one of the files, ignoring case as Windows does.
func (c *comparison) users(names ...string) []string {
	var users []string
	for _, s := range c.new.Services {
		isUser := func(name string) bool { return strings.Contains(strings.ToLower(s.Command), strings.ToLower(name)) }
		if slices.ContainsFunc(names, isUser) {
			users = append(users, s.Name)
		}
	}
	return users
}

func (c *comparison) files() {
	previous := map[string]File{}
	for _, f := range c.old.Files {
		previous[f.Path] = f
	}
	for _, f := range c.new.Files {
		before, found := previous[f.Path]
		delete(previous, f.Path)
		switch {
		case !found:
			c.add("file "+f.Path+" added", None, c.users(f.Path)...)
		case before.Content != f.Content:
			c.add("file "+f.Path, None, c.users(f.Path)...)
		case before.Secret != f.Secret:
			c.add("access rights of file "+f.Path, None)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(previous)) {
		c.add("file "+path+" removed", None, c.users(path)...)
	}
}

func (c *comparison) services() {
	for _, s := range c.new.Services {
		before, found := find(c.old.Services, s.Name)
		switch {
		case !found:
			c.add("service "+s.Name+" added", None)
		case !SameDeclaration(before, s):
			c.add("service "+s.Name, None, s.Name)
		case !reflect.DeepEqual(before, s):
			c.add("service "+s.Name+", in settings that do not affect its process", None)
		}
	}
	for _, s := range c.old.Services {
		if _, found := find(c.new.Services, s.Name); !found {
			c.add("service "+s.Name+" removed", None)
		}
	}
}

// SameDeclaration reports whether a process that was started from one declaration also satisfies the other: description, command line,
// environment and dependencies, in any order, are equal. Otherwise the service is stopped, redeclared and started.
func SameDeclaration(a, b Service) bool {
	return a.Description == b.Description && a.Command == b.Command &&
		slices.Equal(sortedNames(a.DependsOn), sortedNames(b.DependsOn)) && maps.Equal(a.Environment, b.Environment)
}

// sortedNames returns names of services in a canonical order and in lower case, because Windows ignores case.
func sortedNames(names []string) []string {
	var lower []string
	for _, name := range names {
		lower = append(lower, strings.ToLower(name))
	}
	slices.Sort(lower)
	return lower
}

// rest records the changes that no managed process reads when it starts.
func (c *comparison) rest() {
	for _, part := range []struct {
		what string
		same bool
	}{
		{"version", c.old.Version == c.new.Version},
		{"payload", c.old.Digest == c.new.Digest},
		{"folders", slices.Equal(c.old.Directories, c.new.Directories)},
		{"pod network", reflect.DeepEqual(c.old.CNI, c.new.CNI) && reflect.DeepEqual(c.old.Network, c.new.Network) && reflect.DeepEqual(c.old.UserNetwork, c.new.UserNetwork)},
		{"system environment variables", maps.Equal(c.old.Environment, c.new.Environment)},
		{"managed environment variables", slices.Equal(c.old.WatchedEnvironment, c.new.WatchedEnvironment)},
		{"trusted certificates", c.old.Certificates == c.new.Certificates},
		{"SSH keys", slices.Equal(c.old.AuthorizedKeys, c.new.AuthorizedKeys) && slices.Equal(c.old.RetiredKeys, c.new.RetiredKeys)},
		{"signing key", c.old.SigningKey == c.new.SigningKey},
		{"taint", c.old.TaintValue == c.new.TaintValue},
		{"sandbox image", c.old.SandboxImage == c.new.SandboxImage},
		{"routes", slices.Equal(c.old.Routes, c.new.Routes)},
		{"firewall", reflect.DeepEqual(c.old.Firewall, c.new.Firewall)},
		{"Defender exclusions", reflect.DeepEqual(c.old.Exclusions, c.new.Exclusions)},
		{"registry mirrors", reflect.DeepEqual(c.old.Registries, c.new.Registries)},
		{"log limits", c.old.Logs == c.new.Logs},
		{"secrets", c.old.SecretsVersion == c.new.SecretsVersion},
	} {
		if !part.same {
			c.add(part.what, None)
		}
	}
}

func (c *comparison) sum() Difference {
	d := Difference{Changes: c.changes}
	var services []string
	for _, change := range c.changes {
		d.Disruption = max(d.Disruption, change.Disruption)
		services = append(services, change.Services...)
	}
	d.Services = c.withDependants(services)
	return d
}
