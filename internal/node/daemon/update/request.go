package update

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/apiclient"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodesettings"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/daemon/store"
	"github.com/windows-machine-config/wmco/internal/node/daemon/supervisor"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/payload"
)

// updaterInterval is how often the presence of the updater is checked.
const updaterInterval = 10 * time.Second

// Requester starts the updater when the Node requests another version.
type Requester struct {
	state.Session
	verifier *nodesettings.Verifier
	wake     state.Signal
	limits   Limits
	// refusal reports that a version is refused.
	refusal *nodestatus.Refusal
	// announcementChanged is sent when the Node's announcement changes.
	announcementChanged state.Signal

	mu sync.Mutex
	// announced is the Node's announcement; its version is empty if there is none.
	announced announcement
}

// Limits are the time limits of an update. Within is how long another version may take until it works, before the host rolls back; default 10 minutes.
// Steady is how long it must keep working; default one minute.
type Limits struct{ Within, Steady time.Duration }

// NewRequester returns a Requester, which sends wake when there is something to report.
func NewRequester(s state.Session, v *nodesettings.Verifier, wake state.Signal, limits Limits) *Requester {
	return &Requester{
		Session: s, verifier: v, wake: wake, limits: limits, announcementChanged: state.NewSignal(), refusal: nodestatus.NewRefusal(api.EventVersionRefused, wake),
	}
}

// Run starts an update when the Node requests another version, until ctx is done. What cannot be started yet is retried with back-off: after the
// operator has sent the content, it updates the Node, which triggers another attempt.
func (r *Requester) Run(ctx context.Context, client *apiclient.Client) {
	newRetry := func() *backoff.Backoff { return backoff.Between(2*time.Second, 15*time.Minute) }
	retry := newRetry()
	wasInProgress := false
	for {
		err := r.beginUpdate(ctx, client, r.requested())
		isInProgress := errors.Is(err, errInProgress)
		if wasInProgress && !isInProgress {
			r.wake.Send() // the update failed, or this process would have been replaced: report it
		}
		wasInProgress = isInProgress
		var again <-chan time.Time
		switch {
		case isInProgress:
			again = time.After(updaterInterval)
		case err != nil && ctx.Err() == nil:
			r.Log.Warn("Starting an update failed", "error", err.Error())
			again = time.After(retry.Next())
		}
		select {
		case <-ctx.Done():
			return
		case <-r.announcementChanged:
			retry = newRetry()
		case <-again:
		}
	}
}

// errInProgress means that the updater is changing the host.
var errInProgress = errors.New("an update is in progress")

// beginUpdate starts the updater if the Node requests another version. The updater then does the rest; WICD only makes sure that it runs.
func (r *Requester) beginUpdate(ctx context.Context, client *apiclient.Client, reported announcement) error {
	var u attempt
	found, err := state.ReadJSON(r.Host.Disk, updateFile, &u)
	if err == nil && found {
		err = cmp.Or(r.remember(u.Order), r.ensureUpdater(ctx, u), errInProgress)
	}
	if err != nil {
		return err
	}
	own := r.Record.Desired.Version
	failed, err := r.refused()
	if err != nil {
		return err
	}
	switch {
	case reported.version == own:
		return errors.Join(r.recordOwn(reported), r.clearFailedUpdate(failed))
	case reported.version == "" || reported.version == failed.Version || !r.Record.Complete:
		return nil
	}
	order, ordered, err := r.checkOrder(reported)
	if err != nil || !ordered {
		return err
	}
	u, err = r.plan(ctx, client, reported.version)
	if err != nil {
		return fmt.Errorf("updating from version %s to %s: %w", own, reported.version, err)
	}
	u.Order = order
	return r.WhileCurrent(ctx, func() error {
		if err := recordSerial(r.Host.Disk, own, r.Record.Serial); err != nil {
			return err
		}
		if err := u.write(r.Host.Disk); err != nil { // first: an order that is stored but not started would never be applied
			return err
		}
		r.RecordChange("update from version %s to %s started", own, reported.version)
		return cmp.Or(r.remember(order), r.startUpdater(ctx, u), errInProgress)
	})
}

// clearFailedUpdate forgets a failed update: the Node wants the host's own version, and may request the other one again later.
func (r *Requester) clearFailedUpdate(failed failedUpdate) error {
	if failed.Version == "" {
		return nil
	}
	defer r.wake.Send() // to report it
	return r.Host.Disk.Remove(failedFile)
}

// plan reads the version's settings, and makes sure that all of its content is present.
func (r *Requester) plan(ctx context.Context, client *apiclient.Client, version string) (attempt, error) {
	data, err := client.Settings(ctx, r.Record.Namespace, version)
	if err != nil {
		return attempt{}, err
	}
	serial, err := r.verifier.Verify(apiclient.ServicesConfigMap(version), data)
	if replayed, failure := isReplayed(r.Host.Disk, version, serial); failure != nil {
		return attempt{}, failure
	} else if err == nil && replayed {
		err = errOlderSettings
	}
	if err != nil {
		r.verifier.Refuse(apiclient.ServicesConfigMap(version), err)
		return attempt{}, fmt.Errorf("ConfigMap %s was rejected: %w", apiclient.ServicesConfigMap(version), err)
	}
	outline, err := desired.Outline(data)
	if err != nil {
		return attempt{}, fmt.Errorf("ConfigMap %s: %w", apiclient.ServicesConfigMap(version), err)
	}
	if err := checkOutline(outline, version); err != nil {
		return attempt{}, fmt.Errorf("ConfigMap %s %w", apiclient.ServicesConfigMap(version), err)
	}
	if err := r.checkStore(ctx, outline.Payload); err != nil {
		return attempt{}, err
	}
	request := r.Record.JoinRequest
	request.Desired, request.Published, request.Serial = outline, data, serial
	if request.Secrets, err = nodesettings.SecretsOf(ctx, client, r.Record, outline); err != nil {
		return attempt{}, err
	}
	request.MayReboot = false
	return attempt{
		Request: request, Former: r.Record,
		Within: metav1.Duration{Duration: cmp.Or(r.limits.Within, updateTimeout)},
		Steady: metav1.Duration{Duration: cmp.Or(r.limits.Steady, updateSteady)},
	}, nil
}

func checkOutline(outline desired.Node, version string) error {
	switch {
	case outline.Version != version:
		return fmt.Errorf("is for version %q, want %q", outline.Version, version)
	case !store.IsHash(outline.Digest):
		return fmt.Errorf("has the digest %.80q; 64 lower-case hexadecimal digits are needed", outline.Digest)
	}
	return nil
}

// checkStore reads all contents of a version: each must be present and match its hash.
func (r *Requester) checkStore(ctx context.Context, files []desired.PayloadFile) error {
	var list []wicdapi.Content
	for _, f := range files {
		list = append(list, wicdapi.Content{SHA256: f.SHA256, Size: f.Size})
	}
	have, altered, err := store.New(r.Host.Disk).Verify(ctx, list)
	if err != nil {
		return err
	}
	missing := 0
	for _, f := range files {
		if !have[f.SHA256] {
			missing++
		}
	}
	if missing > 0 {
		return fmt.Errorf("%d of %d files are missing, %d of them because they were modified; the operator sends them", missing, len(files), len(altered))
	}
	return nil
}

// ensureUpdater makes sure that the updater runs, unless another process changes services, or the host is leaving.
func (r *Requester) ensureUpdater(ctx context.Context, u attempt) error {
	release, err := r.Host.System.Lock(state.ServicesLock)
	if state.IsHeld(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer release()
	if current, err := state.Read(r.Host.Disk); err != nil || current.Leaving {
		return state.IgnoreAbsent(err)
	}
	return r.startUpdater(ctx, u)
}

// startUpdater starts the update service, which runs the host's current version, the target of a rollback.
func (r *Requester) startUpdater(ctx context.Context, u attempt) error {
	if err := r.linkWICD(u); err != nil {
		return err
	}
	err := supervisor.Manager{Host: r.Host, Changed: r.RecordChange}.Declare(ctx, desired.Service{
		Name:        api.WICDUpdateService,
		Description: desired.ServiceDescription(api.WICDUpdateService),
		Command:     wicdOf(u.Former.Desired.Digest) + " update --windows-service --log-file " + updateLog,
	})
	if err != nil {
		return err
	}
	return r.Host.Services.Start(ctx, api.WICDUpdateService)
}

// linkWICD links the new WICD to its path. The join links all other files.
func (r *Requester) linkWICD(a attempt) error {
	name, files := wicdOf(a.Request.Desired.Digest), a.Request.Desired.Payload
	i := slices.IndexFunc(files, func(f desired.PayloadFile) bool { return f.Path == payload.WICD })
	if i < 0 {
		return fmt.Errorf("version %s has no %s", a.version(), name)
	}
	if _, err := r.Host.Disk.MakeFolder(hostapi.Parent(name)); err != nil {
		return err
	}
	_, err := r.Host.Disk.Link(store.New(r.Host.Disk).Path(files[i].SHA256), name)
	return err
}

// Confirm records for the updater whether the version is reported and the Node Ready.
func (r *Requester) Confirm(works bool) error {
	if !r.Host.Disk.Exists(updateFile) {
		return nil
	}
	if !works {
		return r.Host.Disk.Remove(confirmFile)
	}
	_, err := r.Host.Disk.WriteFile(confirmFile, r.Record.Desired.Version)
	return err
}

// refused returns the version that was rolled back; its Version is empty if there is none.
func (r *Requester) refused() (failed failedUpdate, err error) {
	_, err = state.ReadJSON(r.Host.Disk, failedFile, &failed)
	return failed, err
}

// Request stores the version that the Node requests.
func (r *Requester) Request(node *corev1.Node) {
	reported := announcementOf(node)
	r.mu.Lock()
	changed := r.announced != reported
	r.announced = reported
	r.mu.Unlock()
	if changed {
		r.announcementChanged.Send()
	}
}

func (r *Requester) requested() announcement {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.announced
}

// ReportTo reports to the Node that an update was rolled back, or no longer is, and that a version is refused.
func (r *Requester) ReportTo(ctx context.Context, w *nodestatus.Writer, node *corev1.Node) error {
	if err := r.refusal.ReportTo(ctx, w, node); err != nil {
		return err
	}
	failed, err := r.refused()
	if err != nil {
		return err
	}
	own := r.Record.Desired.Version
	c := corev1.NodeCondition{Type: api.ConditionUpdated, Status: corev1.ConditionTrue, Reason: api.ReasonUpToDate, Message: "the node has version " + own}
	if failed.Version == "" {
		if nodestate.Condition(node, api.ConditionUpdated) == nil { // a Node first gets it when an update is rolled back
			return nil
		}
		return w.SetCondition(ctx, node, c)
	}
	p := nodestatus.Problem{Service: api.WICDUpdateService, Reason: api.ReasonUpdateFailed, Message: failed.message(own), Since: failed.Time}
	c.Status, c.Reason, c.Message = corev1.ConditionFalse, p.Reason, p.Message
	return w.SetCondition(ctx, node, c, p)
}

// message returns the condition's message, limited like those of problems.
func (f failedUpdate) message(own string) string {
	return truncate.Text(fmt.Sprintf("version %s failed on this host, which was rolled back to %s: %s", f.Version, own, f.Reason), truncate.Note)
}
