package configure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/images"
	"github.com/windows-machine-config/wmco/internal/node/daemon/logrotate"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/daemon/supervisor"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

const (
	// imageTimeout limits the pull of the sandbox image for an image of the host, removalTimeout the removal of the containerd that pulled it.
	imageTimeout   = 20 * time.Minute
	removalTimeout = 2 * time.Minute
)

// imagePull pulls the sandbox image on a host that an image is made from. containerd runs as the service that it would be on a node, with the same files
// and folders, so that a join finds its data as its own would be. Afterwards, only that data is left.
type imagePull struct {
	work
	// wanted declares containerd and the image; it has no service if no image is wanted.
	wanted desired.Node
}

// wantedImage resolves a declaration. It rejects what containerd and its files do not need.
func wantedImage(declared *desired.Node) (desired.Node, error) {
	if declared == nil {
		return desired.Node{}, nil
	}
	wanted, err := declared.On(desired.Local{}, desired.Secrets{})
	if err == nil && (len(wanted.Services) != 1 || wanted.Services[0].Name != desired.ContainerdService || wanted.SandboxImage == "") {
		err = fmt.Errorf("it declares services %q and sandbox image %q; allowed: service %s with an image",
			desired.NamesOf(wanted.Services), wanted.SandboxImage, desired.ContainerdService)
	}
	if err == nil {
		err = checkDeclared("containerd", *declared, wanted)
	}
	if err != nil {
		return desired.Node{}, &wicdapi.Error{Code: wicdapi.CodeRequestInvalid, Message: err.Error()}
	}
	return wanted, nil
}

// steps pull the image. The last one also removes what an interrupted preparation left.
func (p imagePull) steps() []step {
	remove := step{"removing what only the pull of an image needs", p.remove}
	if len(p.wanted.Services) == 0 {
		return []step{remove}
	}
	return []step{
		{"checking for another containerd", services{work: p.work, wanted: p.wanted.Services}.check},
		{"pulling the sandbox image", p.pull},
		remove,
	}
}

// pull runs containerd until it has the image. If that fails, it removes containerd, which the next step does otherwise.
func (p imagePull) pull(ctx context.Context) (err error) {
	defer func() {
		if err != nil { // the log of containerd stays
			cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTimeout)
			defer cancel()
			err = errors.Join(err, p.removeContainerd(cleanup))
		}
	}()
	for _, do := range []func(context.Context) error{
		p.markOwned, p.claim, programs{work: p.work, restarts: restarts{}, wanted: p.wanted}.link,
		files{work: p.work, restarts: restarts{}, wanted: p.wanted}.write, p.start,
	} {
		if err := do(ctx); err != nil {
			return err
		}
	}
	pulling, cancel := context.WithTimeoutCause(ctx, imageTimeout, fmt.Errorf("the pull took longer than %s", imageTimeout))
	defer cancel()
	err = withCause(pulling, images.Fetch(pulling, state.Session{Host: p.Host, Wanted: p.wanted, Log: slog.New(slog.DiscardHandler)}))
	switch {
	case errors.Is(err, images.ErrNoRuntime):
		return &wicdapi.Error{Code: wicdapi.CodeServiceFailed, Message: fmt.Sprintf("%v; its log ends with:\n%s", err, p.logTail())}
	case err != nil:
		return fmt.Errorf("%w; check that the host reaches the registry, through a proxy if it needs one (--proxy), and that the registry requires no "+
			"credentials; or use another image (--sandbox-image), or none (--sandbox-image=): machines then pull it when they join", err)
	}
	p.recordChange("sandbox image %s is on the host", p.wanted.SandboxImage)
	return nil
}

// claim claims the folders of containerd.
func (p imagePull) claim(context.Context) error {
	f := folders{work: p.work}
	for _, folder := range []string{desired.ContainerdRoot, desired.ContainerdState} {
		if err := f.claimPath(folder); err != nil {
			return err
		}
	}
	for _, folder := range p.wanted.Directories {
		if err := f.createOne(folder); err != nil {
			return err
		}
	}
	return f.displace(nil, desired.ContainerdRoot, desired.ContainerdState)
}

// markOwned records that the data of containerd belongs to the operator.
func (p imagePull) markOwned(context.Context) error {
	_, err := p.Disk.WriteFile(desired.PreparedImage, p.wanted.SandboxImage+"\n")
	return err
}

func (p imagePull) start(ctx context.Context) error {
	m := supervisor.Manager{Host: p.Host, Wanted: p.wanted.Services, Changed: p.recordChange}
	found, err := m.List(ctx)
	if err != nil {
		return err
	}
	restart := map[string]string{desired.ContainerdService: "an interrupted preparation left it"}
	if _, err := m.Stop(ctx, found, restart); err != nil {
		return err
	}
	for _, s := range p.wanted.Services {
		if err := m.Declare(ctx, s); err != nil {
			return err
		}
	}
	return m.StartAll(ctx)
}

func (p imagePull) logTail() string {
	return logrotate.Tail(p.Disk, p.wanted.Services[0].Log.Path, logrotate.TailBytes)
}

// remove removes everything but the data of containerd, with what an interrupted preparation left.
func (p imagePull) remove(ctx context.Context) error {
	if !p.Disk.Exists(desired.PreparedImage) {
		return nil // no preparation began to pull
	}
	if err := p.removeContainerd(ctx); err != nil {
		return err
	}
	return p.removeAll(ctx, desired.Logs+`\`+desired.ContainerdService)
}

// removeContainerd removes the service, and its files.
func (p imagePull) removeContainerd(ctx context.Context) error {
	managed, err := operatorServices(ctx, p.Services)
	if err != nil {
		return err
	}
	for _, s := range managed {
		if err := p.Services.Delete(ctx, s.Name); err != nil {
			return fmt.Errorf("removing service %s: %w", s.Name, err)
		}
	}
	return p.removeAll(ctx, desired.ContainerdState, desired.Versions, hostapi.Parent(desired.Registries))
}

func (p imagePull) removeAll(ctx context.Context, folders ...string) error {
	var errs []error
	for _, folder := range folders {
		errs = append(errs, p.Disk.RemoveTree(ctx, folder)...)
	}
	return errors.Join(errs...)
}
