package acceptance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/testing/controlplane"
)

// The files of a join, in JoinOptions.Files.
const (
	controlPlaneProgram = "controlplane.exe" // lab/cluster/controlplane
	operatorProgram     = "wmco.exe"
	sshProgram          = "sshd.exe" // lab/windows/sshd/cmd
	setupProgram        = "payload/wicd-setup.exe"
)

// joinFolder contains a copy of these files, the certificates, the logs and the data of etcd.
const joinFolder = Root + `\join`

// logTail is how much of a program's log is included in an error when the program ends, in bytes.
const logTail = 1500

// running tracks the programs that a join started. They end with this process.
type running struct {
	mu    sync.Mutex
	ended map[string]error // of those that have ended
}

// path returns the local path of a file of the join.
func (j *joining) path(name string) string {
	return filepath.Join(j.Host.Disk.Local(joinFolder), filepath.FromSlash(name))
}

// takeFiles copies the files of a join to a folder that only administrators can change, and verifies their checksums.
func (j *joining) takeFiles(ctx context.Context) error {
	sums, err := readChecksums(j.options.Files)
	if err != nil {
		return err
	}
	if _, err := j.folder(ctx, "join"); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := copyChecked(filepath.Join(j.options.Files, filepath.FromSlash(name)), j.path(name), sums[name]); err != nil {
			return err
		}
	}
	return nil
}

// start starts a program of the join and redirects its output to a file in the folder.
func (j *joining) start(name, program string, arguments ...string) error {
	log, err := os.OpenFile(j.path(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	c := exec.Command(j.path(program), arguments...)
	c.Dir, c.Stdout, c.Stderr = j.path(""), log, log
	if err := c.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		err := c.Wait()
		j.running.mu.Lock()
		defer j.running.mu.Unlock()
		j.running.ended[name] = fmt.Errorf("%s ended: %w", name, errors.Join(err, errors.New("its log ends with:\n"+j.endOfLog(name))))
	}()
	return nil
}

// failure returns an error if a program has ended. None of them exits on its own.
func (j *joining) failure() error {
	j.running.mu.Lock()
	defer j.running.mu.Unlock()
	names := slices.Sorted(maps.Keys(j.running.ended))
	if len(names) == 0 {
		return nil
	}
	return j.running.ended[names[0]]
}

func (j *joining) endOfLog(name string) string {
	return strings.TrimSpace(endOf(j.path(name+".log"), logTail))
}

// kubectl runs kubectl as a cluster administrator. Its default cache would stay in the user's home folder.
func (j *joining) kubectl(ctx context.Context, arguments ...string) error {
	arguments = append([]string{"kubectl", "--kubeconfig=" + j.path("admin.conf"), "--cache-dir=" + j.path("cache")}, arguments...)
	command := exec.CommandContext(ctx, j.path(controlPlaneProgram), arguments...)
	command.Dir = j.path("")
	if output, err := outputOf(command); err != nil {
		return fmt.Errorf("%w: %s", err, tail(output))
	}
	return nil
}

// startControlPlane is a step of the join.
func (j *joining) startControlPlane(ctx context.Context, _ *session) (string, error) {
	if err := j.takeFiles(ctx); err != nil {
		return "", untriedErrorf("%w", err)
	}
	credentials, err := j.config.NewCredentials()
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	for name, content := range credentials.Files {
		if err := os.WriteFile(j.path(name), content, 0o600); err != nil {
			return "", untriedErrorf("%w", err)
		}
	}
	if j.api, err = newAPIServer(j.config.URL(), credentials); err != nil {
		return "", untriedErrorf("%w", err)
	}
	j.credentials = credentials
	began := time.Now()
	served, err := j.startParts(ctx)
	if err != nil {
		return "", err
	}
	// Only the controllers create it.
	if err := j.await(ctx, "the controllers are not running", j.exists("/api/v1/namespaces/default/serviceaccounts/default")); err != nil {
		return "", err
	}
	return fmt.Sprintf("the API server was ready after %.0f s, the controllers after %.0f s", served.Seconds(), time.Since(began).Seconds()), nil
}

// startParts starts the programs of the control plane. It returns how long the API server took to be ready, which the last two need.
func (j *joining) startParts(ctx context.Context) (served time.Duration, err error) {
	began := time.Now()
	for _, name := range []string{controlplane.Etcd, controlplane.APIServer, controlplane.ControllerManager, controlplane.Scheduler} {
		if name == controlplane.ControllerManager {
			if err := j.await(ctx, "the API server is not ready", j.exists("/readyz")); err != nil {
				return 0, err
			}
			served = time.Since(began)
		}
		if err := j.start(name, controlPlaneProgram, append([]string{name}, j.config.Flags(name)...)...); err != nil {
			return 0, err
		}
	}
	return served, nil
}

// await polls like the function await, and fails as soon as a program has ended.
func (j *joining) await(ctx context.Context, problem string, check func(context.Context) (string, error)) error {
	err := await(ctx, problem, func(ctx context.Context) (string, error) {
		if err := j.failure(); err != nil {
			return "", err
		}
		return check(ctx)
	})
	if errors.Is(err, context.Canceled) {
		return untriedErrorf("interrupted")
	}
	return err
}

// exists returns a check for await that waits for an object.
func (j *joining) exists(path string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if err := j.api.get(ctx, path, nil); err != nil {
			return err.Error(), nil
		}
		return "", nil
	}
}

// awaitDeletion waits until an object does not exist. Meanwhile, an instance's condition Ready names what it waits for.
func (j *joining) awaitDeletion(ctx context.Context, problem, path string) error {
	return j.await(ctx, problem, func(ctx context.Context) (string, error) {
		err := j.api.get(ctx, path, nil)
		switch {
		case errors.Is(err, errAbsent):
			return "", nil
		case err != nil:
			return err.Error(), nil
		case strings.HasPrefix(path, ofInstances):
			return j.missing(ctx, api.ConditionReady)
		}
		return "it still exists", nil
	})
}
