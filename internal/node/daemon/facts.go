package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/daemon/supervisor"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/platform/metadata"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// Facts returns the host's facts. program is the SHA-256, in hex, of the running WICD. If cloud is a platform that names nodes, its metadata
// service is queried. Facts changes nothing.
func Facts(ctx context.Context, h hostapi.Host, program, cloud string) (wicdapi.Facts, error) {
	host, err := h.System.Facts(ctx)
	if err != nil {
		return wicdapi.Facts{}, fmt.Errorf("reading the facts of the host: %w", err)
	}
	services, err := serviceFacts(ctx, h.Services, desired.Services())
	engines, _ := serviceFacts(ctx, h.Services, desired.Engines()) // they only explain other conflicts
	if err != nil {
		if host.Unread == nil {
			host.Unread = map[string]string{}
		}
		host.Unread[wicdapi.FactServices] = err.Error()
	}
	f := wicdapi.Facts{Program: program, Host: host, Services: services, Engines: engines, Joined: joined(h.Disk)}
	if f.CloudName, err = (metadata.Client{Dial: h.Dial}).NodeName(ctx, cloud); err != nil {
		f.NoCloudName = err.Error() // the other facts are still useful
	}
	return f, nil
}

func serviceFacts(ctx context.Context, s hostapi.Services, names []string) ([]wicdapi.ServiceFacts, error) {
	list, err := s.List(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("listing the services of the host: %w", err)
	}
	var facts []wicdapi.ServiceFacts
	for _, s := range list {
		facts = append(facts, wicdapi.ServiceFacts{
			Name: s.Name, Command: s.Command, State: string(s.State), Ours: supervisor.IsManaged(s),
		})
	}
	return facts, nil
}

// joined describes the last join; nil if there was none or it was interrupted.
func joined(d hostapi.Disk) *wicdapi.Joined {
	r, err := state.Read(d)
	if err != nil || !r.Complete {
		return nil
	}
	_, err = credentials.ReadIdentity(d, r.Node, time.Now())
	return &wicdapi.Joined{
		Cluster: r.Cluster, Node: r.Node, NodeIP: r.NodeIP, Digest: r.Desired.Digest, Version: r.Desired.Version,
		HasCertificate: err == nil,
	}
}
