package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/daemon/logrotate"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
	"github.com/windows-machine-config/wmco/payload"
)

// An update is done by three: WICD, when its Node is to have another version and the content is there, writes updateFile and
// starts a service of the version that runs, the guard. The guard lets the new version's WICD join the host as the operator
// would, over a pipe instead of SSH. The new WICD's service writes confirmFile once it has reported the version. Until
// then the guard can still go back, whatever happens to the others; and it is there again after a restart of the host.
const (
	updateFile  = desired.State + `\update.json`
	confirmFile = desired.State + `\update-confirmed`
	// refusalFile has the version to which the host went in vain, until it is to have another one, or is joined anew.
	refusalFile = desired.State + `\update-refused.json`
	updateLog   = desired.Logs + `\wicd\update.log`
)

// How long a version may take until it works, and how long it must go on working to count as good.
const (
	updateWithin = 10 * time.Minute
	updateSteady = time.Minute // longer than the cluster takes to see that a kubelet is silent
	updateLook   = 2 * time.Second
	// maxBeginnings is how often an update may begin: a host that goes down with it each time goes back.
	maxBeginnings = 3
)

// update is the content of updateFile.
type update struct {
	// Request is what the host is to become; Former is what it was.
	Request agent.JoinRequest `json:"request"`
	Former  state.Record      `json:"former"`
	// Within and Steady bound the attempt.
	Within metav1.Duration `json:"within"`
	Steady metav1.Duration `json:"steady"`
	// Beginnings counts how often the guard began.
	Beginnings int `json:"beginnings,omitempty"`
	// Failure is why the host goes back; empty while it goes forward.
	Failure string `json:"failure,omitempty"`
}

func (u update) version() string { return u.Request.Desired.Version }

func (u update) write(d host.Disk) error { return state.WriteJSON(d, updateFile, u) }

// refusal is the content of refusalFile.
type refusal struct {
	Version string    `json:"version"`
	Reason  string    `json:"reason"`
	Time    time.Time `json:"time"`
}

// wicdOf is the WICD of a payload.
func wicdOf(digest string) string { return desired.VersionFolder(digest) + `\` + payload.WICD }

// Update is the guard: it takes an update to its end, forward or back, and then removes its own service. ctx ends it
// without harm: it goes on when it starts again.
func Update(ctx context.Context, h host.Host, log *slog.Logger) error {
	g := &guard{host: h, log: log}
	there, err := state.ReadJSON(h.Disk, updateFile, &g.update)
	if err != nil {
		return err
	}
	if there {
		if err := g.guard(ctx); err != nil {
			return err
		}
	}
	return g.end(ctx)
}

// guard is one start of the guard.
type guard struct {
	host host.Host
	log  *slog.Logger
	update
}

func (g *guard) guard(ctx context.Context) error {
	g.Beginnings++
	if g.Failure == "" && g.Beginnings > maxBeginnings {
		g.Failure = fmt.Sprintf("the host went down, or the update was ended, %d times before it was done", maxBeginnings)
	}
	if err := g.update.write(g.host.Disk); err != nil {
		return err
	}
	if g.Failure == "" {
		err := g.goForward(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, errOvertaken) {
			return ctx.Err()
		}
		g.Failure = err.Error()
		g.did("version %s does not work, going back to %s: %s", g.version(), g.Former.Desired.Version, g.Failure)
		if err := g.update.write(g.host.Disk); err != nil {
			return err
		}
	}
	return g.goBack(ctx)
}

// errOvertaken means that somebody joined the host as something else meanwhile.
var errOvertaken = errors.New("the host was joined as something else")

// overtakenBy tells whether a record is neither of the version that the host leaves nor of the one it goes to, or says that the
// host leaves its cluster.
func (g *guard) overtakenBy(r state.Record) bool {
	return r.Leaving || r.Desired.Version != g.version() && r.Desired.Version != g.Former.Desired.Version
}

// goForward makes the host the new version, and waits until it is sure that it works.
func (g *guard) goForward(ctx context.Context) error {
	if err := g.host.Disk.Remove(confirmFile); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, g.Within.Duration)
	defer cancel()
	if err := g.joinNew(ctx); err != nil {
		return err
	}
	return g.awaitSteady(ctx)
}

// joinNew lets the new WICD join the host. While another command is at work there, it waits.
func (g *guard) joinNew(ctx context.Context) error {
	g.log.Info("Joining", "version", g.version())
	command := wicdOf(g.Request.Desired.Digest) + " " + agent.CommandJoin
	tell := func(s agent.Step) { g.log.Info("Step", "step", s.Name) }
	for {
		if r, err := state.Read(g.host.Disk); err == nil && r.Leaving {
			return errOvertaken
		}
		err := agent.Call(ctx, g.host.Programs, command, g.Request, &agent.JoinResult{}, tell)
		failed := agent.Failed(err)
		if failed == nil || failed.Code != agent.CodeBusy || backoff.Sleep(ctx, updateLook) != nil {
			return err
		}
	}
}

// awaitSteady returns when the version was confirmed and the services have run for long enough, each in one process.
func (g *guard) awaitSteady(ctx context.Context) error {
	var since time.Time
	var before map[string]uint32
	var trouble error // the last that was seen of a service
	for {
		pids, obstacle := g.look(ctx)
		if errors.Is(obstacle, errOvertaken) {
			return obstacle
		}
		if obstacle != nil && !errors.Is(obstacle, errUnreported) && ctx.Err() == nil {
			trouble = obstacle
		}
		if obstacle != nil || !maps.Equal(pids, before) {
			since, before = time.Now(), pids
		} else if time.Since(since) >= g.Steady.Duration {
			g.did("version %s works", g.version())
			return nil
		}
		if backoff.Sleep(ctx, min(updateLook, g.Steady.Duration)) != nil {
			if obstacle == nil {
				obstacle = errors.New("its services were restarted again and again")
			}
			if errors.Is(obstacle, errUnreported) || trouble == nil {
				trouble = errors.Join(obstacle, trouble)
			}
			return fmt.Errorf("it did not work within %v: %w", g.Within.Duration, trouble)
		}
	}
}

// errUnreported means that the version has not been reported yet.
var errUnreported = errors.New("its daemon has not reported the version: the Node is not Ready, or the API server cannot be reached")

// look returns the processes of the services, or what is not as it should be yet.
func (g *guard) look(ctx context.Context) (pids map[string]uint32, obstacle error) {
	r, err := state.Read(g.host.Disk)
	if err != nil {
		return nil, err
	}
	if g.overtakenBy(r) {
		return nil, errOvertaken
	}
	k := keeper{host: g.host, wanted: r.Desired.Services}
	found, err := k.list(ctx)
	if err != nil {
		return nil, err
	}
	pids = map[string]uint32{}
	for _, s := range r.Desired.Services {
		is := found[s.Name]
		if is.State != host.Running {
			return nil, fmt.Errorf("service %s does not run (exit code %d); its log ends with:\n%s", s.Name, is.ExitCode, logrotate.Tail(g.host.Disk, s.Log.Path, logrotate.TailBytes))
		}
		if err := k.probe(ctx, s.Ready); err != nil {
			return nil, fmt.Errorf("service %s runs and does not work: %w; its log ends with:\n%s", s.Name, err, logrotate.Tail(g.host.Disk, s.Log.Path, logrotate.TailBytes))
		}
		pids[s.Name] = is.PID
	}
	confirmed, err := g.host.Disk.Read(confirmFile)
	if err != nil || string(confirmed) != g.version() {
		return nil, errUnreported
	}
	return pids, nil
}

// goBack makes the host again what it was, however long that takes.
func (g *guard) goBack(ctx context.Context) error {
	for retry := backoff.New(); ; {
		if r, err := state.Read(g.host.Disk); err == nil && g.overtakenBy(r) {
			return nil
		}
		_, err := joinHost(ctx, g.host, g.Former.JoinRequest, func(s agent.Step) { g.log.Info("Going back", "step", s.Name) })
		if err == nil {
			break
		}
		g.log.Error("Going back fails", "error", err.Error())
		if err := backoff.Sleep(ctx, retry.Next()); err != nil {
			return err
		}
	}
	return state.WriteJSON(g.host.Disk, refusalFile, refusal{Version: g.version(), Reason: g.Failure, Time: time.Now().UTC()})
}

// end removes what an update needs, and the guard's own service last.
func (g *guard) end(ctx context.Context) error {
	for _, name := range []string{updateFile, confirmFile} {
		if err := g.host.Disk.Remove(name); err != nil {
			return err
		}
	}
	return g.host.Services.Delete(ctx, api.WICDUpdateService)
}

func (g *guard) did(format string, args ...any) {
	change := fmt.Sprintf(format, args...)
	g.log.Info("Changed", "change", change)
	state.Note(g.host.Disk, agent.JournalEntry{Time: time.Now().UTC(), Step: "update", Change: change})
}
