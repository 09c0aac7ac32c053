package update

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/configure"
	"github.com/windows-machine-config/wmco/internal/node/daemon/logrotate"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/daemon/supervisor"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/payload"
)

// Three processes take part in an update. WICD writes updateFile when its Node requests another version and the content is present, and
// starts the updater, a service of the running version. The updater lets the new version's WICD join the host as the operator would, over a
// pipe instead of SSH. The new WICD's service writes confirmFile once it has reported the version. Until then the updater can still roll
// back, whatever happens to the others; and it starts again after a restart of the host.
const (
	updateFile  = desired.State + `\update.json`
	confirmFile = desired.State + `\update-confirmed`
	// failedFile has the version that was rolled back, until the host gets another version or is joined again.
	failedFile = desired.State + `\update-refused.json`
	updateLog  = desired.Logs + `\wicd\update.log`
)

// How long a version may take until it works, and how long it must keep working to count as good.
const (
	updateTimeout       = 10 * time.Minute
	updateSteady        = time.Minute // longer than the cluster takes to notice a silent kubelet
	updateCheckInterval = 2 * time.Second
	// maxStarts is how often an update may start: if the host goes down each time, the update is rolled back.
	maxStarts = 3
)

// attempt is the content of updateFile.
type attempt struct {
	// Request is the host's new configuration; Former is its previous one.
	Request wicdapi.JoinRequest `json:"request"`
	Former  state.Record        `json:"former"`
	// Order is the order for this update.
	Order appliedOrder `json:"order,omitzero"`
	// Within and Steady limit the attempt.
	Within metav1.Duration `json:"within"`
	Steady metav1.Duration `json:"steady"`
	// Beginnings counts the starts of the updater.
	Beginnings int `json:"beginnings,omitempty"`
	// Failure is why the update is rolled back; empty while it is being installed.
	Failure string `json:"failure,omitempty"`
}

func (a attempt) version() string { return a.Request.Desired.Version }

func (a attempt) write(d hostapi.Disk) error { return state.WriteJSON(d, updateFile, a) }

// failedUpdate is the content of failedFile.
type failedUpdate struct {
	Version string    `json:"version"`
	Reason  string    `json:"reason"`
	Time    time.Time `json:"time"`
}

// wicdOf returns the path of a payload's WICD.
func wicdOf(digest string) string { return desired.VersionFolder(digest) + `\` + payload.WICD }

// Update is the updater: it completes an update or its rollback, and then removes its own service. It can be canceled without harm: it
// continues at the next start.
func Update(ctx context.Context, h hostapi.Host, log *slog.Logger) error {
	u := &updater{host: h, log: log}
	found, err := state.ReadJSON(h.Disk, updateFile, &u.attempt)
	if err != nil {
		return err
	}
	if found {
		if err := u.run(ctx); err != nil {
			return err
		}
	}
	return u.end(ctx)
}

// updater is one run of the updater.
type updater struct {
	host hostapi.Host
	log  *slog.Logger
	attempt
}

func (u *updater) run(ctx context.Context) error {
	u.Beginnings++
	if u.Failure == "" && u.Beginnings > maxStarts {
		u.Failure = fmt.Sprintf("the host restarted or the updater was stopped %d times before the update was complete", maxStarts)
	}
	if err := u.attempt.write(u.host.Disk); err != nil {
		return err
	}
	if u.Failure == "" {
		err := u.install(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, errSuperseded) {
			return ctx.Err()
		}
		u.Failure = err.Error()
		u.recordChange("version %s failed, rolling back to %s: %s", u.version(), u.Former.Desired.Version, u.Failure)
		if err := u.attempt.write(u.host.Disk); err != nil {
			return err
		}
	}
	return u.rollBack(ctx)
}

// errSuperseded means that another join or a removal has replaced the update.
var errSuperseded = errors.New("another join or a removal replaced the update")

// supersededBy reports whether a record is for neither the old nor the new version, or the host is leaving its cluster.
func (u *updater) supersededBy(r state.Record) bool {
	return r.Leaving || r.Desired.Version != u.version() && r.Desired.Version != u.Former.Desired.Version
}

// install takes the host to the new version, and waits until the version has worked for long enough.
func (u *updater) install(ctx context.Context) error {
	if err := u.host.Disk.Remove(confirmFile); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, u.Within.Duration)
	defer cancel()
	if err := u.joinNew(ctx); err != nil {
		return err
	}
	return u.awaitSteady(ctx)
}

// joinNew lets the new WICD join the host. It waits while another command runs on the host.
func (u *updater) joinNew(ctx context.Context) error {
	u.log.Info("Joining", "version", u.version())
	command := wicdOf(u.Request.Desired.Digest) + " " + wicdapi.CommandJoin
	report := func(s wicdapi.Step) { u.log.Info("Join step", "step", s.Name) }
	for {
		if r, err := state.Read(u.host.Disk); err == nil && r.Leaving {
			return errSuperseded
		}
		err := wicdapi.Call(ctx, u.host.Programs, command, u.Request, &wicdapi.JoinResult{}, report)
		failed := wicdapi.Failed(err)
		if failed == nil || failed.Code != wicdapi.CodeBusy || backoff.Sleep(ctx, updateCheckInterval) != nil {
			return err
		}
	}
}

// awaitSteady returns once the version was confirmed and the services have run for long enough, each in one process.
func (u *updater) awaitSteady(ctx context.Context) error {
	var since time.Time
	var before map[string]uint32
	var last error // the last problem of a service
	for {
		pids, problem := u.check(ctx)
		if errors.Is(problem, errSuperseded) {
			return problem
		}
		if problem != nil && !errors.Is(problem, errUnreported) && ctx.Err() == nil {
			last = problem
		}
		if problem != nil || !maps.Equal(pids, before) {
			since, before = time.Now(), pids
		} else if time.Since(since) >= u.Steady.Duration {
			u.recordChange("version %s works", u.version())
			return nil
		}
		if backoff.Sleep(ctx, min(updateCheckInterval, u.Steady.Duration)) != nil {
			if problem == nil {
				problem = errors.New("services keep restarting")
			}
			if errors.Is(problem, errUnreported) || last == nil {
				last = errors.Join(problem, last)
			}
			return fmt.Errorf("not working after %v: %w", u.Within.Duration, last)
		}
	}
}

// errUnreported means that the version has not been reported yet.
var errUnreported = errors.New("WICD has not reported the version: the Node is not Ready, or the API server is unreachable")

// check returns the processes of the services, or the first problem.
func (u *updater) check(ctx context.Context) (pids map[string]uint32, problem error) {
	r, err := state.Read(u.host.Disk)
	if err != nil {
		return nil, err
	}
	if u.supersededBy(r) {
		return nil, errSuperseded
	}
	m := supervisor.Manager{Host: u.host, Wanted: r.Desired.Services}
	found, err := m.List(ctx)
	if err != nil {
		return nil, err
	}
	pids = map[string]uint32{}
	for _, s := range r.Desired.Services {
		current := found[s.Name]
		if current.State != hostapi.Running {
			return nil, fmt.Errorf("service %s is not running (exit code %d); its log ends with:\n%s", s.Name, current.ExitCode, logrotate.Tail(u.host.Disk, s.Log.Path, logrotate.TailBytes))
		}
		if err := m.Probe(ctx, s.Ready); err != nil {
			return nil, fmt.Errorf("service %s is running but not ready: %w; its log ends with:\n%s", s.Name, err, logrotate.Tail(u.host.Disk, s.Log.Path, logrotate.TailBytes))
		}
		pids[s.Name] = current.PID
	}
	confirmed, err := u.host.Disk.Read(confirmFile)
	if err != nil || string(confirmed) != u.version() {
		return nil, errUnreported
	}
	return pids, nil
}

// rollBack restores the former version, and retries until that succeeds.
func (u *updater) rollBack(ctx context.Context) error {
	for retry := backoff.New(); ; {
		if r, err := state.Read(u.host.Disk); err == nil && u.supersededBy(r) {
			return nil
		}
		_, err := configure.Apply(ctx, u.host, u.Former.JoinRequest, func(s wicdapi.Step) { u.log.Info("Rolling back the update", "step", s.Name) })
		if err == nil {
			break
		}
		u.log.Error("Rolling back the update failed", "error", err.Error())
		if err := backoff.Sleep(ctx, retry.Next()); err != nil {
			return err
		}
	}
	return state.WriteJSON(u.host.Disk, failedFile, failedUpdate{Version: u.version(), Reason: u.Failure, Time: time.Now().UTC()})
}

// end removes what an update needs, and the updater's own service last.
func (u *updater) end(ctx context.Context) error {
	for _, name := range []string{updateFile, confirmFile} {
		if err := u.host.Disk.Remove(name); err != nil {
			return err
		}
	}
	return u.host.Services.Delete(ctx, api.WICDUpdateService)
}

func (u *updater) recordChange(format string, args ...any) {
	state.RecordChange(u.host.Disk, u.log, "update", fmt.Sprintf(format, args...))
}
