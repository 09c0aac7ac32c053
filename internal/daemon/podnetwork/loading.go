package podnetwork

import (
	"context"
	"time"

	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/desired"
)

// How often it is checked whether the container runtime has a network, and how soon while it has none.
const (
	loadedEvery = time.Minute
	loadedSoon  = 2 * time.Second
)

// reloadFile is made and removed to have the runtime read the folder again. It is no configuration: those end with conf, conflist or json.
const reloadFile = `\wicd.reload`

// Loading makes sure that the container runtime has read the configuration of the pod network. containerd reads it when Windows tells of a
// change in its folder, and not again where a file could not be opened in that moment, as when it is still open to be renamed, or a virus
// scanner has it (syncLoop in internal/cri/server/cni_conf_syncer.go of containerd 2.3). Its node would not be Ready until somebody
// restarts containerd.
//
// The folder may be the user's: it is the only one that containerd watches, and so the file is made there, too. That happens only while
// there is a configuration that containerd can load and has not; the other remedy would be to restart containerd and the kubelet.
type Loading struct{ CNI }

// Run keeps the configuration loaded until ctx is done.
func (l Loading) Run(ctx context.Context) {
	folder := l.Wanted.UserNetwork.CNIFolder()
	if l.Record.Desired.CNI == nil && l.Wanted.Network == nil && folder == desired.CNIFolder {
		return
	}
	pauses := backoff.Between(loadedSoon, loadedEvery)
	for wait := loadedSoon; backoff.Sleep(ctx, wait) == nil; {
		if !l.IsConfigured() {
			wait = loadedSoon
			continue
		}
		isReady, err := l.Host.Runtime.NetworkReady(ctx)
		if err != nil || isReady { // the supervisor cares for a runtime that does not answer
			pauses, wait = backoff.Between(loadedSoon, loadedEvery), loadedEvery
			continue
		}
		l.Log.Warn("containerd has not loaded the configuration of the pod network; having it read the folder again", "folder", folder)
		if err := l.reload(folder); err != nil {
			l.Log.Error("Having containerd read the configuration of the pod network failed", "error", err.Error())
		}
		wait = pauses.Next()
	}
}

// reload changes the folder twice, by a file that appears and one that disappears.
func (l Loading) reload(folder string) error {
	if _, err := l.Host.Disk.WriteFile(folder+reloadFile, ""); err != nil {
		return err
	}
	return l.Host.Disk.Remove(folder + reloadFile)
}
