package configure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/daemon/store"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// joinSteps are how a host becomes a node, in order. Each may be cut at any point and is repeated by the next join.
func (c *configurator) joinSteps() []step {
	return []step{
		{"taking over from the original operator", c.takeOver},
		{"naming the host", c.rename},
		{"enabling features", c.enableFeatures},
		{"restarting the host", c.restartHost},
		{"making folders", c.makeFolders},
		{"authorizing keys", c.tryKeys},
		{"linking programs", c.linkPrograms},
		{"leaving the former cluster", c.leaveFormerCluster},
		{"forgetting networks of others", c.forgetNetworks},
		{"writing configuration", c.writeFiles},
		{"setting the environment", c.setEnvironment},
		{"trusting certificates", c.trustCertificates},
		{"opening the firewall", c.openFirewall},
		{"handing over the bootstrap token", c.writeBootstrap},
		{"remembering the request", c.remember},
		{"starting services", c.startServices},
		{"removing what the original operator left", c.removeOriginals},
		{"removing old versions", c.removeOldVersions},
		{"completing", c.complete},
	}
}

// Join makes the host what the request says. When a step needs a restart, the result says so, and the join is to be
// repeated after it.
func Join(ctx context.Context, s *agent.Session, h host.Host) (agent.JoinResult, error) {
	var request agent.JoinRequest
	if err := s.Request(&request); err != nil {
		return agent.JoinResult{}, err
	}
	if len(request.Published) > 0 {
		var err error
		if request.Desired, err = desired.FromData(request.Published); err != nil {
			return agent.JoinResult{}, &agent.Error{Code: agent.CodeRequestInvalid, Message: err.Error()}
		}
		request.Published = nil
	}
	return Apply(ctx, h, request, func(step agent.Step) { _ = s.Step(step) }) // the join goes on when nobody listens
}

// Apply makes the host what the request says, as Join does; tell hears of each step.
func Apply(ctx context.Context, h host.Host, request agent.JoinRequest, tell func(agent.Step)) (agent.JoinResult, error) {
	c, err := newConfigurator(h, request)
	if err != nil {
		return agent.JoinResult{}, err
	}
	c.tell = tell
	if request.Register {
		c.restart[desired.KubeletService] = "the cluster has no Node of this host"
	}
	facts, err := h.System.Facts(ctx)
	if err != nil {
		return agent.JoinResult{}, fmt.Errorf("reading the facts of the host: %w", err)
	}
	c.facts = facts
	if err := c.checkServices(ctx); err != nil { // before anything changes
		return agent.JoinResult{}, err
	}
	release, err := state.LockCommands(ctx, h)
	if err != nil {
		return agent.JoinResult{}, err
	}
	defer release()
	err = c.run(ctx, c.joinSteps())
	result := agent.JoinResult{BootID: facts.BootID, Changed: c.changed}
	if errors.Is(err, errRebooting) {
		result.Rebooting, err = strings.Join(c.rebooting, "; "), nil
	}
	return result, err
}

// errRebooting ends a join whose host restarts.
var errRebooting = errors.New("the host restarts")

// checkRequest refuses what could not become a node, and what no node may have.
func checkRequest(r agent.JoinRequest, wanted desired.Node) error {
	invalid := func(format string, args ...any) error {
		return &agent.Error{Code: agent.CodeRequestInvalid, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case r.Node == "" || r.Cluster == "":
		return invalid("node is %q and cluster is %q; both are needed", r.Node, r.Cluster)
	case !store.IsHash(r.Desired.Digest):
		return invalid("desired.digest is %q; 64 lower-case hexadecimal digits are needed", r.Desired.Digest)
	}
	if err := host.CheckHostname(r.Hostname); r.Hostname != "" && err != nil {
		return invalid("hostname: %v", err)
	}
	if err := checkKeys(r.Desired.AuthorizedKeys); err != nil {
		return invalid("desired.authorizedKeys%v", err)
	}
	for i, f := range r.Desired.Payload {
		if !store.IsHash(f.SHA256) || !host.IsRelative(f.Path) {
			return invalid(`desired.payload[%d] is %q with sha256 %q; a relative path such as cni\host-local.exe and 64 hexadecimal digits are needed`,
				i, f.Path, f.SHA256)
		}
	}
	if err := wanted.CheckBounds(); err != nil {
		return invalid("desired: %v", err)
	}
	return nil
}

// featureEnabled is what the journal says of a feature that was not enabled before. A leave looks for it.
const featureEnabled = "feature %s enabled"

func (c *configurator) enableFeatures(ctx context.Context) error {
	for _, name := range c.request.Desired.Features {
		is := c.facts.Features[name]
		if is == agent.FeatureEnabled {
			continue
		}
		if is == agent.FeatureUnknown {
			state.Note(c.Disk, agent.JournalEntry{Time: c.began.UTC(), Step: c.step, Change: "none: this Windows does not know feature " + name})
			continue
		}
		reboot, err := c.System.EnableFeature(ctx, name)
		if err != nil {
			return fmt.Errorf("enabling feature %s: %w", name, err)
		}
		if is != agent.FeaturePending {
			c.recordChange(featureEnabled, name)
		}
		if reboot {
			c.rebooting = append(c.rebooting, "feature "+name+" takes effect after a restart")
		}
	}
	return nil
}

// restartHost restarts Windows once for all that takes effect only then. The join is repeated after it.
func (c *configurator) restartHost(ctx context.Context) error {
	if len(c.rebooting) == 0 {
		return nil
	}
	why := strings.Join(c.rebooting, "; ")
	if !c.request.MayReboot {
		return &agent.Error{Code: agent.CodeRebootNeeded, Message: why + "; restart the host, or allow it"}
	}
	if err := c.System.Reboot(ctx, why, rebootDelay); err != nil {
		return fmt.Errorf("restarting the host: %w", err)
	}
	c.recordChange("restarting: %s", why)
	return errRebooting
}

// rebootDelay leaves time to answer.
const rebootDelay = 5 * time.Second

// makeFolders makes the declared folders and those of versions, and claims what C:\k does not protect.
func (c *configurator) makeFolders(context.Context) error {
	if err := c.claimFolders(); err != nil {
		return err
	}
	for _, folder := range append([]string{desired.Store, desired.Versions, desired.WICDCertificates}, c.request.Desired.Directories...) {
		existed := c.Disk.Exists(folder)
		if err := c.makeFolder(folder); err != nil {
			return err
		}
		if !existed {
			c.recordChange("folder %s made", folder)
		}
	}
	return nil
}

// makeFolder makes a folder that nobody else can use.
func (c *configurator) makeFolder(folder string) error {
	if strings.HasPrefix(folder, desired.Root+`\`) {
		if _, err := c.Disk.MakeFolder(folder); err != nil {
			return fmt.Errorf("making %s: %w", folder, err)
		}
		return nil
	}
	if err := c.claimPath(host.Parent(folder)); err != nil {
		return err
	}
	changes, err := state.Claim(c.Host, folder)
	for _, change := range changes {
		c.recordChange("%s", change)
	}
	return err
}
