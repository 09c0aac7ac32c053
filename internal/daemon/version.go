package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/daemon/store"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
	"github.com/windows-machine-config/wmco/payload"
)

// guardEvery is how often we look whether the guard is still there.
const guardEvery = 10 * time.Second

// keepVersion makes the host another version when its Node is to have one, until ctx is done. What cannot be begun yet is
// tried again, more and more seldom: whoever brings the content changes the Node after it.
func (l *life) keepVersion(ctx context.Context, client *apiClient) {
	newRetry := func() *backoff.Backoff { return backoff.Between(2*time.Second, 15*time.Minute) }
	retry, again := newRetry(), (<-chan time.Time)(nil)
	for wasUnderWay := false; ; {
		err := l.beginUpdate(ctx, client, l.getAsked())
		isUnderWay := errors.Is(err, errUnderWay)
		if wasUnderWay && !isUnderWay {
			l.poke() // it came to nothing, or we would not be there any more: the Node is to be told
		}
		wasUnderWay = isUnderWay
		switch again = nil; {
		case isUnderWay:
			again = time.After(guardEvery)
		case err != nil && ctx.Err() == nil:
			l.log.Warn("Another version cannot be begun", "error", err.Error())
			again = time.After(retry.Next())
		}
		select {
		case <-ctx.Done():
			return
		case <-l.askedAnew:
			retry = newRetry()
		case <-again:
		}
	}
}

// errUnderWay means that the guard has the host.
var errUnderWay = errors.New("an update is under way")

// beginUpdate hands over to the guard if the host is to have another version. From there on, that is the guard's business:
// we only see to it that it is there.
func (l *life) beginUpdate(ctx context.Context, client *apiClient, version string) error {
	var u update
	there, err := state.ReadJSON(l.host.Disk, updateFile, &u)
	if err == nil && there {
		err = cmp.Or(l.keepGuard(ctx, u), errUnderWay)
	}
	if err != nil {
		return err
	}
	own := l.record.Desired.Version
	no, err := l.refused()
	if err != nil {
		return err
	}
	switch {
	case version == own:
		return l.forgive(no)
	case version == "" || version == no.Version || !l.record.Complete:
		return nil
	}
	u, err = l.plan(ctx, client, version)
	if err != nil {
		return fmt.Errorf("from version %s to %s: %w", own, version, err)
	}
	release, err := state.Begin(ctx, l.host)
	if err != nil {
		return err
	}
	defer release()
	if !l.record.IsCurrent(l.host.Disk) {
		return nil // a join was faster; the next life looks again
	}
	if err := u.write(l.host.Disk); err != nil {
		return err
	}
	l.did("update from version %s to %s begins", own, version)
	return cmp.Or(l.startGuard(ctx, u), errUnderWay)
}

// forgive forgets a refusal: the Node is to have the version it has, and may be asked for the other one again.
func (l *life) forgive(no refusal) error {
	if no.Version == "" {
		return nil
	}
	defer l.poke() // the Node is to be told
	return l.host.Disk.Remove(refusalFile)
}

// plan reads what the version consists of, and makes sure that all of it is there.
func (l *life) plan(ctx context.Context, client *apiClient, version string) (update, error) {
	data, err := client.services(ctx, l.record.Namespace, version)
	if err != nil {
		return update{}, err
	}
	serial, err := l.verify(servicesConfigMap(version), data)
	if err != nil {
		l.distrust(servicesConfigMap(version), err)
		return update{}, fmt.Errorf("ConfigMap %s is not followed: %w", servicesConfigMap(version), err)
	}
	outline, err := desired.Outline(data)
	if err != nil {
		return update{}, fmt.Errorf("ConfigMap %s: %w", servicesConfigMap(version), err)
	}
	if outline.Version != version || !store.IsHash(outline.Digest) {
		return update{}, fmt.Errorf("ConfigMap %s is about version %q", servicesConfigMap(version), outline.Version)
	}
	if err := l.checkStore(ctx, outline.Payload); err != nil {
		return update{}, err
	}
	request := l.record.JoinRequest
	request.Desired, request.Published, request.Serial = outline, data, serial
	if request.Secrets, err = l.secretsOf(ctx, client, outline); err != nil {
		return update{}, err
	}
	request.MayReboot = false
	return update{
		Request: request, Former: l.record,
		Within: metav1.Duration{Duration: cmp.Or(l.options.UpdateWithin, updateWithin)},
		Steady: metav1.Duration{Duration: cmp.Or(l.options.UpdateSteady, updateSteady)},
	}, nil
}

// checkStore reads all contents of a version: each must be there and have its hash.
func (l *life) checkStore(ctx context.Context, files []desired.PayloadFile) error {
	var list []agent.Content
	for _, f := range files {
		list = append(list, agent.Content{SHA256: f.SHA256, Size: f.Size})
	}
	have, altered, err := store.New(l.host.Disk).Verify(ctx, list)
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
		return fmt.Errorf("%d of %d files are not there, %d of them because they were altered; the operator sends them", missing, len(files), len(altered))
	}
	return nil
}

// keepGuard sees to it that the guard is there, unless somebody else changes services, or the host leaves.
func (l *life) keepGuard(ctx context.Context, u update) error {
	release, err := l.host.System.Lock(state.ServicesLock)
	if errors.Is(err, host.ErrLocked) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer release()
	if r, err := state.Read(l.host.Disk); err != nil || r.Leaving {
		return state.IgnoreAbsent(err)
	}
	return l.startGuard(ctx, u)
}

// startGuard starts the service that does the update, which is of the version that the host goes back to.
func (l *life) startGuard(ctx context.Context, u update) error {
	if err := l.linkWICD(u); err != nil {
		return err
	}
	err := keeper{host: l.host, did: l.did}.declare(ctx, desired.Service{
		Name:        api.WICDUpdateService,
		Description: desired.ServiceDescription(api.WICDUpdateService),
		Command:     wicdOf(u.Former.Desired.Digest) + " update --windows-service --log-file " + updateLog,
	})
	if err != nil {
		return err
	}
	return l.host.Services.Start(ctx, api.WICDUpdateService)
}

// linkWICD gives the new WICD its name. All other files get theirs in the join.
func (l *life) linkWICD(u update) error {
	name, files := wicdOf(u.Request.Desired.Digest), u.Request.Desired.Payload
	i := slices.IndexFunc(files, func(f desired.PayloadFile) bool { return f.Path == payload.WICD })
	if i < 0 {
		return fmt.Errorf("version %s has no %s", u.version(), name)
	}
	if _, err := l.host.Disk.MakeFolder(host.Parent(name)); err != nil {
		return err
	}
	_, err := l.host.Disk.Link(store.New(l.host.Disk).Path(files[i].SHA256), name)
	return err
}

// confirm tells the guard of an update whether the version is reported and the Node Ready.
func (l *life) confirm(works bool) error {
	if !l.host.Disk.Exists(updateFile) {
		return nil
	}
	if !works {
		return l.host.Disk.Remove(confirmFile)
	}
	_, err := l.host.Disk.WriteFile(confirmFile, l.record.Desired.Version)
	return err
}

// refused is the version that the host went back from, with an empty Version when there is none.
func (l *life) refused() (no refusal, err error) {
	_, err = state.ReadJSON(l.host.Disk, refusalFile, &no)
	return no, err
}

// ask remembers which version the Node is to have.
func (l *life) ask(node *corev1.Node) {
	version := node.Annotations[api.AnnotationDesiredVersion]
	l.mu.Lock()
	changed := l.asked != version
	l.asked = version
	l.mu.Unlock()
	if !changed {
		return
	}
	select {
	case l.askedAnew <- struct{}{}:
	default: // there is one already
	}
}

func (l *life) getAsked() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}
