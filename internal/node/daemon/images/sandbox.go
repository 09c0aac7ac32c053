package images

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/cri"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

const (
	// checkInterval is how often the presence of the image is checked.
	checkInterval = 5 * time.Minute
	// A failed pull is retried after firstPause, then with back-off. Changed settings begin a new session, which pulls at once.
	firstPause, longestPause = 5 * time.Second, 2 * time.Minute
	// slowPull is how long a pull may take before it is reported to the Node.
	slowPull = time.Minute
	// startPause is the wait before a runtime that does not answer yet is queried again.
	startPause = time.Second
)

// Applier brings the host to the requested state, and ends the session.
type Applier interface {
	// Apply waits for commands that are running on the host.
	Apply(ctx context.Context, request wicdapi.JoinRequest) error
}

// Sandbox keeps the sandbox image on the host.
type Sandbox struct {
	puller
	wake    state.Signal
	applier Applier

	mu sync.Mutex
	// present is true once the image in use was found in this session.
	present bool
	// last is what was last reported.
	last finding
}

// NewSandbox returns a Sandbox that sends wake when there is something new to report.
func NewSandbox(s state.Session, wake state.Signal, a Applier) *Sandbox {
	return &Sandbox{puller: puller{s}, wake: wake, applier: a}
}

// IsPresent reports whether the image that containerd starts pods from is present. If no image is declared, the operator leaves the choice to
// containerd, and it returns true.
func (r *Sandbox) IsPresent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.present || r.Wanted.SandboxImage == ""
}

// Run keeps the image until ctx is done.
func (r *Sandbox) Run(ctx context.Context) {
	if r.Wanted.SandboxImage == "" {
		return
	}
	retry := backoff.Between(firstPause, longestPause)
	for ctx.Err() == nil {
		err := r.reconcile(ctx)
		wait := checkInterval
		var refused *cri.Error
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			retry = backoff.Between(firstPause, longestPause)
		case errors.As(err, &refused) && !isUnavailable(refused):
			r.Log.Warn("Pulling the sandbox image failed", "image", r.Record.Desired.SandboxImage, "error", withoutSecrets(refused.Error()))
			r.setFinding(classify(time.Now(), r.Record.Desired.SandboxImage, r.Wanted.SandboxImage, r.IsPresent(), refused))
			wait = retry.Next()
		default: // the runtime does not answer, which the supervisor reports
			wait = startPause
		}
		_ = backoff.Sleep(ctx, wait)
	}
}

// isUnavailable reports whether the runtime is starting or stopping.
func isUnavailable(e *cri.Error) bool { return e.Code == cri.Unavailable || e.Code == cri.Canceled }

// reconcile ensures once that the wanted image is present, and checks the one in use. A wanted image that differs replaces the one in use
// after its pull, which ends the session.
func (r *Sandbox) reconcile(ctx context.Context) error {
	wanted, inUse := r.Record.Desired.SandboxImage, r.Wanted.SandboxImage
	if wanted != inUse {
		if _, found, err := r.status(ctx, inUse); err == nil && found {
			r.setPresent(inUse)
		}
	}
	image, found, err := r.status(ctx, wanted)
	if err != nil {
		return err
	}
	if !found {
		if image, err = r.pullWatched(ctx, wanted); err != nil {
			return err
		}
	}
	if wanted != inUse {
		return r.replace(ctx, wanted)
	}
	r.setPresent(inUse)
	if !image.Pinned { // it was pulled before containerd was configured with it
		_, err = r.pullWatched(ctx, wanted)
		if errors.As(err, new(*cri.Error)) {
			r.Log.Warn("Pinning the sandbox image failed", "image", wanted, "error", withoutSecrets(err.Error()))
			return nil // it is present
		}
	}
	return err
}

// pullWatched pulls an image, and reports it if that takes long.
func (r *Sandbox) pullWatched(ctx context.Context, name string) (cri.Image, error) {
	began := time.Now()
	slow := time.AfterFunc(slowPull, func() { r.setFinding(slowPullFinding(began, name, r.Wanted.SandboxImage, r.IsPresent())) })
	defer slow.Stop()
	return r.pull(ctx, name)
}

// replace makes containerd start pods from the wanted image, which is present. containerd and its dependents restart; running pods keep their
// image.
func (r *Sandbox) replace(ctx context.Context, wanted string) error {
	if !r.Record.Complete && !r.Record.Pulled {
		return nil // a join is running, which ends this session
	}
	request := r.Record.JoinRequest
	request.Local.SandboxImage = ""
	if err := r.applier.Apply(ctx, request); err != nil {
		return err
	}
	r.RecordChange("sandbox image %s replaced %s", wanted, r.Wanted.SandboxImage)
	return nil
}

func (r *Sandbox) setPresent(name string) {
	r.mu.Lock()
	isNew := !r.present
	r.present = true
	r.mu.Unlock()
	if name == r.Record.Desired.SandboxImage {
		r.setFinding(finding{known: true, image: name})
	} else if isNew {
		r.wake.Send()
	}
}

// setFinding stores a finding for the Node. The message is kept while the reason stays the same, because each change would be a write.
func (r *Sandbox) setFinding(f finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.known && r.last.reason == f.reason {
		return
	}
	r.last = f
	r.wake.Send()
}
