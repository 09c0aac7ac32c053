package podnetwork

import (
	"context"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Intervals at which the container runtime's network is checked: loadedSoon applies while it has none.
const (
	loadedInterval = time.Minute
	loadedSoon     = 2 * time.Second
)

// reloadFile is created and removed to make the runtime reload the folder. It is not a configuration: those end in conf, conflist or json.
const reloadFile = `\wicd.reload`

// Loading makes sure that the container runtime has loaded the configuration of the pod network. containerd loads it when Windows notifies it of
// a change in its folder, and does not retry if it could not open a file at that moment, for example because the file was still open for a rename
// or a virus scanner had it open (syncLoop in internal/cri/server/cni_conf_syncer.go of containerd 2.3). The node would then not be Ready until
// containerd is restarted.
//
// The folder may be the user's. It is the only one that containerd watches, so the file is created there, too, but only while there is a
// configuration that containerd can load and has not. The alternative would be to restart containerd and the kubelet.
type Loading struct{ CNI }

// Run keeps the configuration loaded until ctx is done.
func (l Loading) Run(ctx context.Context) {
	folder := l.Wanted.UserNetwork.CNIFolder()
	if l.Record.Desired.CNI == nil && l.Wanted.Network == nil && folder == desired.CNIFolder {
		return
	}
	pauses := backoff.Between(loadedSoon, loadedInterval)
	for wait := loadedSoon; backoff.Sleep(ctx, wait) == nil; {
		if !l.IsConfigured() {
			wait = loadedSoon
			continue
		}
		isReady, err := l.Host.Runtime.NetworkReady(ctx)
		if err != nil || isReady { // the supervisor handles a runtime that does not answer
			pauses, wait = backoff.Between(loadedSoon, loadedInterval), loadedInterval
			continue
		}
		l.Log.Warn("containerd has not loaded the CNI configuration; triggering a reload", "folder", folder)
		if err := l.reload(folder); err != nil {
			l.Log.Error("Reloading the CNI configuration failed", "error", err.Error())
		}
		wait = pauses.Next()
	}
}

// reload changes the folder twice, by creating and removing a file.
func (l Loading) reload(folder string) error {
	if _, err := l.Host.Disk.WriteFile(folder+reloadFile, ""); err != nil {
		return err
	}
	return l.Host.Disk.Remove(folder + reloadFile)
}
