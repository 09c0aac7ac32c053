package hostapi

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Firewall is the Windows firewall. It controls which traffic reaches programs of the host.
type Firewall interface {
	// Set makes these the rules of the operator: each allows the traffic it names, in every profile and on every interface. It adds missing rules,
	// replaces those that were disabled or narrowed, and removes obsolete ones. Rules of others are not changed, whatever their names. Traffic that
	// is allowed before and after is never blocked in between. changed lists the rules that were added, replaced or removed, sorted, even with an
	// error. Rules that CheckRules rejects are an error, and nothing changes. If rules have no effect, the error is ErrNoFirewall.
	Set(ctx context.Context, rules []desired.FirewallRule) (changed []string, err error)
}

// FirewallGroup marks the operator's rules: Windows shows it as their group.
const FirewallGroup = "OpenShift managed"

// ErrNoFirewall is returned by Firewall.Set if rules have no effect: the service is stopped and blocks nothing, or a group policy overrides them.
var ErrNoFirewall = errors.New("rules of the firewall have no effect")

// CheckRules rejects what the Windows firewall cannot store as rules.
func CheckRules(rules []desired.FirewallRule) error {
	seen := map[string]bool{}
	for _, r := range rules {
		key := strings.ToLower(r.Name)
		switch {
		case r.Name == "" || key == "all" || strings.ContainsAny(r.Name, "|\x00"):
			return fmt.Errorf(`%q cannot name a rule: a name must not be empty or "all", or contain a vertical bar or a NUL byte`, r.Name)
		case seen[key]:
			return fmt.Errorf("there are two rules %q: each needs a name of its own", r.Name)
		case r.Protocol != desired.TCP && r.Protocol != desired.UDP:
			return fmt.Errorf("the protocol of rule %q is %q: only %s and %s are known", r.Name, r.Protocol, desired.TCP, desired.UDP)
		case len(r.Ports) == 0 && r.Program == "":
			return fmt.Errorf("rule %q names no port and no program: it would open all", r.Name)
		case r.Program != "" && !isProgram(r.Program):
			return fmt.Errorf(`rule %q has the program %.128q: a full path such as C:\k\x.exe is needed`, r.Name, r.Program)
		}
		for _, port := range r.Ports {
			if port == 0 {
				return fmt.Errorf("rule %q names port 0, which does not exist", r.Name)
			}
		}
		if err := checkRanges(r.From); err != nil {
			return fmt.Errorf("rule %q: %w", r.Name, err)
		}
		seen[key] = true
	}
	return nil
}

// maxPath is the maximum length of a path in every part of Windows (MAX_PATH).
const maxPath = 260

// isProgram reports whether a text is the full path of a program without variables, which the firewall would expand.
func isProgram(path string) bool {
	const drive = `C:\`
	return len(path) < maxPath && strings.HasPrefix(path, drive) && strings.HasSuffix(path, ".exe") && !strings.ContainsAny(path[len(drive):], "%/:*?|\"<>\x00")
}

// Defender is Microsoft Defender Antivirus. Exclusions are case-insensitive.
type Defender interface {
	// Exclusions returns the exclusions in force, regardless of their source: administrators of the host, group policies, or WICD. They are in the
	// spelling in which they were set. Defender's automatic exclusions are not included. It returns ErrNoDefender if nothing scans, and
	// ErrExclusionsHidden if a policy hides exclusions from administrators of the host.
	Exclusions(ctx context.Context) (desired.Exclusions, error)
	// Add adds exclusions to those set on the host. Existing ones are not errors. Even without an error, they may have no effect if a policy overrides
	// them; check Exclusions. It returns ErrNoDefender if nothing scans.
	Add(ctx context.Context, e desired.Exclusions) error
	// Remove removes exclusions from those set on the host. Absent ones are not errors; those of a policy stay in force. It returns ErrNoDefender if
	// nothing scans.
	Remove(ctx context.Context, e desired.Exclusions) error
	// Scans reports whether files are scanned when programs use them: Defender's real-time protection is on. It can be off while another program does
	// that. It returns ErrNoDefender if nothing scans.
	Scans(ctx context.Context) (bool, error)
}

// ErrNoDefender is returned by Defender if it scans nothing: it is not installed, or its service does not run.
var ErrNoDefender = errors.New("Microsoft Defender is not running")

// ErrExclusionsHidden is returned by Defender.Exclusions if a policy hides exclusions from administrators of the host.
var ErrExclusionsHidden = errors.New("a policy hides the exclusions of Microsoft Defender from administrators of the host")

// Adapters are the network interfaces of the host, with the IPv4 settings that its first pod network may remove.
type Adapters interface {
	// Adapters returns all interfaces with their current settings.
	Adapters(ctx context.Context) ([]hostnetwork.Adapter, error)
	// Restore sets what the interface with this address lost. It continues after failures and returns all of them. An address that no interface has is
	// an error.
	Restore(ctx context.Context, address netip.Addr, lost hostnetwork.Loss) error
}

// Routes is the host's IPv4 routing table.
type Routes interface {
	// Ensure adds a route unless its interface already has one to the same destination, with any gateway. It changes nothing else. The route is gone
	// after the next start of Windows. If no interface has the address, the error is ErrNotFound; if Windows cannot add routes, it is
	// errors.ErrUnsupported.
	Ensure(ctx context.Context, r Route) (changed bool, err error)
	// Watch sends a message when routes changed, until ctx is done; then it closes the channel. Several changes may be merged into one message, and
	// there may be messages without a change.
	Watch(ctx context.Context) (<-chan struct{}, error)
}

// Route is one route.
type Route struct {
	// To is the destination. Bits beyond the prefix are zero.
	To netip.Prefix
	// From is an address of the host. The route is on the interface with this address.
	From netip.Addr
	// Gateway is true if the route uses the default gateway of that interface, if any, instead of reaching the destination directly.
	Gateway bool
}
