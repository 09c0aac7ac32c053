package desired

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Disruption is what a change costs the pods of a node. Greater ones include the smaller.
type Disruption int

// The disruptions, from the least.
const (
	// None: no process of ours notices.
	None Disruption = iota
	// Restart: services start anew; pods go on.
	Restart
	// Drain: containerd or the kubelet become other programs; pods are to leave before.
	Drain
	// Reboot: Windows starts anew.
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

// Change is one thing in which two Nodes differ, and what it leads to by itself.
type Change struct {
	// What differs, by name: contents may be secret.
	What       string
	Disruption Disruption
	// Services that start anew for it, in the order in which they start.
	Services []string
}

// Difference is what it takes to make one Node of another. Without Changes they are equal.
type Difference struct {
	// Disruption is the greatest of all changes.
	Disruption Disruption
	// Services that start anew, in the order in which they start. Each does so once, whatever the number of changes.
	Services []string
	Changes  []Change
}

// String says it in few words: "none", "restart of containerd, kubelet", "drain", "reboot".
func (d Difference) String() string {
	if d.Disruption == Restart {
		return "restart of " + strings.Join(d.Services, ", ")
	}
	return d.Disruption.String()
}

// Diff says what WICD does on a host that is one Node and is to be another, for which a drain or a reboot may have to be
// allowed first. Both have nothing left open, as On makes them: what a secret or a variable changes is seen only there.
// A test in internal/daemon compares it with what WICD does.
func Diff(old, new Node) Difference {
	c := comparison{old: old, new: new}
	c.features()
	c.programs()
	c.files()
	c.services()
	c.rest()
	return c.sum()
}

// comparison gathers the changes between two Nodes.
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

// withDependants adds the services that must stop when others do, and sorts them. Only what was there starts anew.
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
		if _, there := find(c.old.Services, s.Name); there && stops[s.Name] {
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

// features that are new may need a restart of Windows; it says so only when asked to enable them. Hyper-V waits for a restart of its own
// on a node. Others stay.
func (c *comparison) features() {
	for _, f := range c.new.Features {
		switch {
		case slices.Contains(c.old.Features, f):
		case f == HyperVFeature:
			c.add("feature "+f+" of Windows, which takes effect with a later restart", None)
		default:
			c.add("feature "+f+" of Windows", Reboot)
		}
	}
	for _, f := range c.old.Features {
		if !slices.Contains(c.new.Features, f) {
			c.add("feature "+f+" of Windows is wanted no more, and stays", None)
		}
	}
}

// programs that change under a name restart the services that run them by that name. Services run them from the folder of
// their version, so that it is their declarations that change; see services.
func (c *comparison) programs() {
	was := map[string]PayloadFile{}
	for _, f := range c.old.Payload {
		was[f.Path] = f
	}
	for _, f := range c.new.Payload {
		before, there := was[f.Path]
		delete(was, f.Path)
		switch {
		case !there:
			c.add("program "+f.Path+" is new", None)
		case before.SHA256 != f.SHA256:
			names := []string{Root + `\` + f.Path}
			if c.old.Digest == c.new.Digest {
				names = append(names, VersionFolder(c.new.Digest)+`\`+f.Path)
			}
			c.add("program "+f.Path, disruptionOf(f.Path), c.users(names...)...)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(was)) {
		c.add("program "+path+" is wanted no more", None)
	}
}

// disruptionOf a program that is replaced. Pods live in containerd, its shims, and the kubelet.
func disruptionOf(path string) Disruption {
	if path == "kubelet.exe" || strings.HasPrefix(path, `containerd\`) {
		return Drain
	}
	return None
}

// users are the services whose command line names one of the files. Windows' names ignore case.
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
	was := map[string]File{}
	for _, f := range c.old.Files {
		was[f.Path] = f
	}
	for _, f := range c.new.Files {
		before, there := was[f.Path]
		delete(was, f.Path)
		switch {
		case !there:
			c.add("file "+f.Path+" is new", None, c.users(f.Path)...)
		case before.Content != f.Content:
			c.add("file "+f.Path, None, c.users(f.Path)...)
		case before.Secret != f.Secret:
			c.add("rights of file "+f.Path, None)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(was)) {
		c.add("file "+path+" is wanted no more", None, c.users(path)...)
	}
}

func (c *comparison) services() {
	for _, s := range c.new.Services {
		before, there := find(c.old.Services, s.Name)
		switch {
		case !there:
			c.add("service "+s.Name+" is new", None)
		case !SameDeclaration(before, s):
			c.add("service "+s.Name, None, s.Name)
		case !reflect.DeepEqual(before, s):
			c.add("service "+s.Name+", in what its process does not mind", None)
		}
	}
	for _, s := range c.old.Services {
		if _, there := find(c.new.Services, s.Name); !there {
			c.add("service "+s.Name+" is wanted no more", None)
		}
	}
}

// SameDeclaration tells whether a process that was started by one declaration is what the other wants: they are of one
// description, command line and environment, and of the same dependencies in whatever order. One that is not is stopped,
// declared anew and started.
func SameDeclaration(a, b Service) bool {
	return a.Description == b.Description && a.Command == b.Command &&
		slices.Equal(sortedNames(a.DependsOn), sortedNames(b.DependsOn)) && maps.Equal(a.Environment, b.Environment)
}

// sortedNames are names of services in an order of their own. Windows ignores their case.
func sortedNames(names []string) []string {
	var lower []string
	for _, name := range names {
		lower = append(lower, strings.ToLower(name))
	}
	slices.Sort(lower)
	return lower
}

// rest is what no process of ours reads when it starts.
func (c *comparison) rest() {
	for _, part := range []struct {
		what string
		same bool
	}{
		{"version", c.old.Version == c.new.Version},
		{"payload", c.old.Digest == c.new.Digest},
		{"folders", slices.Equal(c.old.Directories, c.new.Directories)},
		{"pod network", reflect.DeepEqual(c.old.CNI, c.new.CNI) && reflect.DeepEqual(c.old.Network, c.new.Network) && reflect.DeepEqual(c.old.UserNetwork, c.new.UserNetwork)},
		{"environment of the machine", maps.Equal(c.old.Environment, c.new.Environment)},
		{"variables that are the operator's", slices.Equal(c.old.WatchedEnvironment, c.new.WatchedEnvironment)},
		{"trusted certificates", c.old.Certificates == c.new.Certificates},
		{"SSH keys", slices.Equal(c.old.AuthorizedKeys, c.new.AuthorizedKeys) && slices.Equal(c.old.RetiredKeys, c.new.RetiredKeys)},
		{"key of what is published", c.old.SigningKey == c.new.SigningKey},
		{"taint", c.old.TaintValue == c.new.TaintValue},
		{"sandbox image", c.old.SandboxImage == c.new.SandboxImage},
		{"routes", slices.Equal(c.old.Routes, c.new.Routes)},
		{"firewall", reflect.DeepEqual(c.old.Firewall, c.new.Firewall)},
		{"exclusions of Defender", reflect.DeepEqual(c.old.Exclusions, c.new.Exclusions)},
		{"mirrors of registries", reflect.DeepEqual(c.old.Registries, c.new.Registries)},
		{"limits of logs", c.old.Logs == c.new.Logs},
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
