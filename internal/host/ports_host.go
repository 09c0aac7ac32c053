package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/windows-machine-config/wmco/internal/desired"
)

// Firewall is Windows' own. It decides what reaches programs of the host.
type Firewall interface {
	// Set makes our rules be these: each lets in what it names, in every profile and on every interface. It adds what is missing,
	// also what somebody disabled or narrowed, and removes what is wanted no more. The rules of others stay as they are, whatever
	// their names. Nothing is closed meanwhile that is wanted before and after. changed has the names of the rules that were
	// added, mended or removed, sorted, also with an error. Rules that CheckRules refuses are an error, and nothing changes. That
	// rules have no effect is ErrNoFirewall.
	Set(ctx context.Context, rules []desired.FirewallRule) (changed []string, err error)
}

// FirewallGroup marks our rules: Windows shows it as their group.
const FirewallGroup = "OpenShift managed"

// ErrNoFirewall is what Firewall.Set returns where rules have no effect: the service is stopped and keeps nothing out, or a group
// policy has the last word.
var ErrNoFirewall = errors.New("rules of the firewall have no effect")

// CheckRules refuses what Windows' firewall cannot keep as rules.
func CheckRules(rules []desired.FirewallRule) error {
	seen := map[string]bool{}
	for _, r := range rules {
		key := strings.ToLower(r.Name)
		switch {
		case r.Name == "" || key == "all" || strings.ContainsAny(r.Name, "|\x00"):
			return fmt.Errorf(`%q cannot name a rule: "all", a bar and a zero byte mean something else to Windows`, r.Name)
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
				return fmt.Errorf("rule %q names port 0, which there is not", r.Name)
			}
		}
		if err := checkRanges(r.From); err != nil {
			return fmt.Errorf("rule %q: %w", r.Name, err)
		}
		seen[key] = true
	}
	return nil
}

// maxPath is the length of a path that every part of Windows can use (MAX_PATH).
const maxPath = 260

// isProgram tells whether a text is the full path of a program, without variables, which the firewall would expand.
func isProgram(path string) bool {
	const drive = `C:\`
	return len(path) < maxPath && strings.HasPrefix(path, drive) && strings.HasSuffix(path, ".exe") && !strings.ContainsAny(path[len(drive):], "%/:*?|\"<>\x00")
}

// Defender is Microsoft Defender Antivirus. Exclusions are the same when they differ in case only.
type Defender interface {
	// Exclusions returns the exclusions that are in force, whoever set them: administrators of the host, group policies, or WICD. They are
	// in the spelling in which they were set. What Defender excludes by itself is none of them. Where nothing scans, that is
	// ErrNoDefender, and where a policy hides them from administrators of the host, ErrExclusionsHidden.
	Exclusions(ctx context.Context) (desired.Exclusions, error)
	// Add adds exclusions to those that are set on the host. Existing ones are no error. Without an error, they can still be without
	// effect, where a policy has the last word: Exclusions tells. Where nothing scans, that is ErrNoDefender.
	Add(ctx context.Context, e desired.Exclusions) error
	// Remove removes exclusions from those that are set on the host. Absent ones are no error; those of a policy stay in force. Where
	// nothing scans, that is ErrNoDefender.
	Remove(ctx context.Context, e desired.Exclusions) error
	// Scans tells whether files are scanned when programs use them: Defender's real-time protection is on. It can be off while another
	// program does that. Where nothing scans, that is ErrNoDefender.
	Scans(ctx context.Context) (bool, error)
}

// ErrNoDefender is what Defender returns where it scans nothing: it is not installed, or its service does not run.
var ErrNoDefender = errors.New("Microsoft Defender does not run")

// ErrExclusionsHidden is what Defender.Exclusions returns where a policy hides exclusions from administrators of the host.
var ErrExclusionsHidden = errors.New("a policy hides the exclusions of Microsoft Defender from administrators of the host")

// Routes is the table of the host's IPv4 routes.
type Routes interface {
	// Ensure adds a route unless its interface has one to the same destination already, whatever its gateway. Nothing else changes.
	// It is gone with the next start of Windows. When no interface has the address, that is ErrNotFound; a Windows that can add no
	// routes is errors.ErrUnsupported.
	Ensure(ctx context.Context, r Route) (changed bool, err error)
	// Watch sends whenever routes changed, until ctx is done; then it closes the channel. Several changes may become one message,
	// and there may be messages without a change.
	Watch(ctx context.Context) (<-chan struct{}, error)
}

// Route is one route.
type Route struct {
	// To is the destination, without bits beyond the prefix.
	To netip.Prefix
	// From is an address of the host: the route is on the interface that has it.
	From netip.Addr
	// Gateway is true when it goes through that interface's default gateway, where it has one, and not to the destination directly.
	Gateway bool
}
