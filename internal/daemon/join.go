package daemon

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
func (a *applying) joinSteps() []applyStep {
	return []applyStep{
		{"taking over from the original operator", a.takeOver},
		{"naming the host", a.rename},
		{"enabling features", a.enableFeatures},
		{"restarting the host", a.restartHost},
		{"making folders", a.makeFolders},
		{"authorizing keys", a.tryKeys},
		{"linking programs", a.linkPrograms},
		{"leaving the former cluster", a.leaveFormerCluster},
		{"forgetting networks of others", a.forgetNetworks},
		{"writing configuration", a.writeFiles},
		{"setting the environment", a.setEnvironment},
		{"trusting certificates", a.trustCertificates},
		{"opening the firewall", a.openFirewall},
		{"handing over the bootstrap token", a.writeBootstrap},
		{"remembering the request", a.remember},
		{"starting services", a.startServices},
		{"removing what the original operator left", a.removeOriginals},
		{"removing old versions", a.removeOldVersions},
		{"completing", a.complete},
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
	return joinHost(ctx, h, request, func(step agent.Step) { _ = s.Step(step) }) // the join goes on when nobody listens
}

func joinHost(ctx context.Context, h host.Host, request agent.JoinRequest, tell func(agent.Step)) (agent.JoinResult, error) {
	a, err := newApplying(h, request)
	if err != nil {
		return agent.JoinResult{}, err
	}
	a.tell = tell
	if request.Register {
		a.restart["kubelet"] = "the cluster has no Node of this host"
	}
	facts, err := h.System.Facts(ctx)
	if err != nil {
		return agent.JoinResult{}, fmt.Errorf("reading the facts of the host: %w", err)
	}
	a.facts = facts
	if err := a.checkServices(ctx); err != nil { // before anything changes
		return agent.JoinResult{}, err
	}
	release, err := state.Begin(ctx, h)
	if err != nil {
		return agent.JoinResult{}, err
	}
	defer release()
	err = a.run(ctx, a.joinSteps())
	result := agent.JoinResult{BootID: facts.BootID, Changed: a.changed}
	if errors.Is(err, errRebooting) {
		result.Rebooting, err = strings.Join(a.rebooting, "; "), nil
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

func (a *applying) enableFeatures(ctx context.Context) error {
	for _, name := range a.request.Desired.Features {
		is := a.facts.Features[name]
		if is == agent.FeatureEnabled {
			continue
		}
		if is == agent.FeatureUnknown {
			state.Note(a.Disk, agent.JournalEntry{Time: a.began.UTC(), Step: a.step, Change: "none: this Windows does not know feature " + name})
			continue
		}
		reboot, err := a.System.EnableFeature(ctx, name)
		if err != nil {
			return fmt.Errorf("enabling feature %s: %w", name, err)
		}
		if is != agent.FeaturePending {
			a.did(featureEnabled, name)
		}
		if reboot {
			a.rebooting = append(a.rebooting, "feature "+name+" takes effect after a restart")
		}
	}
	return nil
}

// restartHost restarts Windows once for all that takes effect only then. The join is repeated after it.
func (a *applying) restartHost(ctx context.Context) error {
	if len(a.rebooting) == 0 {
		return nil
	}
	why := strings.Join(a.rebooting, "; ")
	if !a.request.MayReboot {
		return &agent.Error{Code: agent.CodeRebootNeeded, Message: why + "; restart the host, or allow it"}
	}
	if err := a.System.Reboot(ctx, why, rebootDelay); err != nil {
		return fmt.Errorf("restarting the host: %w", err)
	}
	a.did("restarting: %s", why)
	return errRebooting
}

// rebootDelay leaves time to answer.
const rebootDelay = 5 * time.Second

// makeFolders makes the declared folders and those of versions, and claims what C:\k does not protect.
func (a *applying) makeFolders(context.Context) error {
	if err := a.claimFolders(); err != nil {
		return err
	}
	for _, folder := range append([]string{desired.Store, desired.Versions, desired.WICDCertificates}, a.request.Desired.Directories...) {
		existed := a.Disk.Exists(folder)
		if err := a.makeFolder(folder); err != nil {
			return err
		}
		if !existed {
			a.did("folder %s made", folder)
		}
	}
	return nil
}

// makeFolder makes a folder that nobody else can use.
func (a *applying) makeFolder(folder string) error {
	if strings.HasPrefix(folder, desired.Root+`\`) {
		if _, err := a.Disk.MakeFolder(folder); err != nil {
			return fmt.Errorf("making %s: %w", folder, err)
		}
		return nil
	}
	if err := a.claimPath(host.Parent(folder)); err != nil {
		return err
	}
	changes, err := state.Claim(a.Host, folder)
	for _, change := range changes {
		a.did("%s", change)
	}
	return err
}
