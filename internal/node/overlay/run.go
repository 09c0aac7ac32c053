package overlay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/kubeapi"
)

// Options are the settings of hybrid-overlay-node.
type Options struct {
	// Node is the name of this host's Node.
	Node string
	// BootstrapKubeconfig is a file with the kubelet's identity, which requests the first certificate.
	BootstrapKubeconfig string
	// CertDir is the folder for certificates, CertDuration the requested duration.
	CertDir      string
	CertDuration time.Duration
	// Server and CAFile are the address of the API server and a file with the certificate of its CA. An empty one is read from
	// BootstrapKubeconfig.
	Server, CAFile string
	Settings       Settings
	// StatusFile is the file that reports the problems of the overlay to WICD (package overlaystatus); empty for none.
	StatusFile string
	HNS        HNS
	// Routes accesses the routes of this host, which must move with its address; nil for a host without routes.
	Routes Routes
	// Adapters accesses the network interfaces of this host, whose settings must survive the first network; nil if they need no protection.
	Adapters Adapters
	Log      *slog.Logger
	// Dial connects to the API server; nil means the network of this machine.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Run does the work of hybrid-overlay-node until ctx is done.
func Run(ctx context.Context, o Options) {
	s := newState(o.Node)
	report := newReporter(o.StatusFile, o.Log)
	session := &apiSession{options: o, state: s, report: report, follower: newFollower(s, o.Log), cuts: make(chan struct{}, 1)}
	r := &networkReconciler{
		hns: o.HNS, routes: o.Routes, settings: o.Settings, state: s, log: o.Log, onCut: func() { wake(session.cuts) },
		report: report, holders: readHolders(o.CertDir, o.Log), createdNetworks: readCreated(o.CertDir, o.Log), retry: newRetry(), used: map[string]bool{}, guard: newHostGuard(o, report), began: time.Now(),
	}
	restarted, err := o.HNS.Watch(ctx)
	if err != nil {
		o.Log.Warn("Watching the Host Network Service failed; its restarts are noticed at the next resync", "error", err.Error())
		restarted = nil
	}
	o.Log.Info("Starting", "node", o.Node, "vxlanPort", o.Settings.VXLANPort, "interface", o.Settings.Adapter,
		"clusterSubnets", fmt.Sprint(o.Settings.Ranges.Cluster), "hybridClusterSubnets", fmt.Sprint(o.Settings.Ranges.Hybrid))
	var all sync.WaitGroup
	all.Go(func() { r.run(ctx, restarted) })
	all.Go(func() { session.run(ctx) })
	all.Go(func() { report.run(ctx) })
	all.Wait()
	o.Log.Info("Stopped")
}

func newFollower(s *state, log *slog.Logger) *kubeapi.Follower[Node] {
	return &kubeapi.Follower[Node]{Path: "/api/v1/nodes", Kind: "Nodes", Read: readNode, Store: s, Log: log}
}

// check reports missing flags.
func (o Options) check() (err error) {
	for _, needed := range [][2]string{{"node", o.Node}, {"bootstrap-kubeconfig", o.BootstrapKubeconfig}, {"cert-dir", o.CertDir}} {
		if needed[1] == "" {
			err = errors.Join(err, errors.New("flag --"+needed[0]+" is missing"))
		}
	}
	return err
}
