package sandboximage

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/cri"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
)

const (
	// lookEvery is how often it is looked whether the image is still there.
	lookEvery = 5 * time.Minute
	// lookTimeout is how long the runtime has to say what it has, pullTimeout how long for a pull. The smallest Windows image has some
	// hundred megabytes.
	lookTimeout = 30 * time.Second
	pullTimeout = 30 * time.Minute
	// A pull that fails is repeated after firstPause, and then less and less often. Settings that change begin a new session, which pulls at once.
	firstPause, longestPause = 5 * time.Second, 2 * time.Minute
	// slowPull is after how long the Node is told of a pull that goes on.
	slowPull = time.Minute
	// startPause is how soon the runtime is asked again that does not answer yet.
	startPause = time.Second
)

// Applier makes the host what a request says, and ends the session.
type Applier interface {
	// Apply waits for commands that are at work on the host.
	Apply(ctx context.Context, request agent.JoinRequest) error
}

// Reconciler keeps the sandbox image on the host.
type Reconciler struct {
	state.Session
	wake    state.Signal
	applier Applier

	mu sync.Mutex
	// present is true once the image in use was there in this session.
	present bool
	is      finding
}

// New makes a reconciler, which sends wake when there is something to tell.
func New(s state.Session, wake state.Signal, a Applier) *Reconciler {
	return &Reconciler{Session: s, wake: wake, applier: a}
}

// IsPresent tells whether pods can start: the image that containerd starts them from is there. A Node that names none is that of an operator
// that leaves it to containerd.
func (r *Reconciler) IsPresent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.present || r.Wanted.SandboxImage == ""
}

// Run keeps the image until ctx is done.
func (r *Reconciler) Run(ctx context.Context) {
	if r.Wanted.SandboxImage == "" {
		return
	}
	retry := backoff.Between(firstPause, longestPause)
	for ctx.Err() == nil {
		err := r.look(ctx)
		wait := lookEvery
		var refused *cri.Error
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			retry = backoff.Between(firstPause, longestPause)
		case errors.As(err, &refused) && !isAway(refused):
			r.Log.Warn("Pulling the sandbox image failed", "image", r.Record.Desired.SandboxImage, "error", withoutSecrets(refused.Error()))
			r.tell(judge(time.Now(), r.Record.Desired.SandboxImage, r.Wanted.SandboxImage, r.IsPresent(), refused))
			wait = retry.Next()
		default: // the runtime does not answer; that it does not is the supervisor's to tell
			wait = startPause
		}
		_ = backoff.Sleep(ctx, wait)
	}
}

// isAway tells whether the runtime says that it is about to start, or to end.
func isAway(e *cri.Error) bool { return e.Code == cri.Unavailable || e.Code == cri.Canceled }

// look makes sure once that the image is there, and the one in use. Another one that is wanted takes its place when it was pulled, which ends
// the session.
func (r *Reconciler) look(ctx context.Context) error {
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
		if image, err = r.pull(ctx, wanted); err != nil {
			return err
		}
	}
	if wanted != inUse {
		return r.replace(ctx, wanted)
	}
	r.setPresent(inUse)
	if !image.Pinned { // it came before containerd was configured with it
		_, err = r.pull(ctx, wanted)
		if errors.As(err, new(*cri.Error)) {
			r.Log.Warn("Pinning the sandbox image failed", "image", wanted, "error", withoutSecrets(err.Error()))
			return nil // it is there
		}
	}
	return err
}

func (r *Reconciler) status(ctx context.Context, name string) (cri.Image, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return r.Host.Images.Look(ctx, name)
}

// pull pulls an image, and looks whether it is there then.
func (r *Reconciler) pull(ctx context.Context, name string) (cri.Image, error) {
	began := time.Now()
	pulling, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	slow := time.AfterFunc(slowPull, func() { r.tell(goesOn(began, name, r.Wanted.SandboxImage, r.IsPresent())) })
	defer slow.Stop()
	if err := r.Host.Images.Pull(pulling, name, r.login(name)); err != nil {
		if pulling.Err() != nil && ctx.Err() == nil {
			return cri.Image{}, &cri.Error{Code: codeDeadline, Message: "the pull took longer than " + pullTimeout.String()}
		}
		return cri.Image{}, err
	}
	image, found, err := r.status(ctx, name)
	if err == nil && !found {
		return cri.Image{}, &cri.Error{Code: cri.NotFound, Message: "it was pulled, and containerd does not list it"}
	}
	if err == nil {
		r.RecordChange("sandbox image %s pulled in %v", name, time.Since(began).Round(time.Second))
	}
	return image, err
}

// replace has containerd start pods from the image that is wanted and there. containerd and what depends on it restart; pods go on with the
// image that they were started from.
func (r *Reconciler) replace(ctx context.Context, wanted string) error {
	if !r.Record.Complete && !r.Record.Pulled {
		return nil // a join is at work, which ends this session
	}
	request := r.Record.JoinRequest
	request.Local.SandboxImage = ""
	if err := r.applier.Apply(ctx, request); err != nil {
		return err
	}
	r.RecordChange("sandbox image %s took the place of %s", wanted, r.Wanted.SandboxImage)
	return nil
}

func (r *Reconciler) setPresent(name string) {
	r.mu.Lock()
	isNew := !r.present
	r.present = true
	r.mu.Unlock()
	if name == r.Record.Desired.SandboxImage {
		r.tell(finding{known: true, image: name})
	} else if isNew {
		r.wake.Send()
	}
}

// tell keeps what there is to tell to the Node. The message stays the same while the reason does: each change would be a write.
func (r *Reconciler) tell(f finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.is.known && r.is.reason == f.reason {
		return
	}
	r.is = f
	r.wake.Send()
}
