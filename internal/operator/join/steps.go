package join

import (
	"context"
	"fmt"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

func (j *Job) check(ctx context.Context) error {
	needed := []string{wicdapi.FactHostname, wicdapi.FactDomain, wicdapi.FactInterfaces, wicdapi.FactServices}
	if j.facts.Joined == nil { // a host that has joined already has its content
		needed = append(needed, wicdapi.FactFreeBytes)
	}
	if err := j.facts.Host.Must(needed...); err != nil {
		return err
	}
	if err := checkCloudName(j.facts); err != nil {
		return err
	}
	known, err := j.Cluster.Identify(ctx, j.facts)
	if err != nil {
		return err
	}
	j.unregistered = known.Unregistered
	if u := Check(j.facts, CheckInput{Now: j.Now(), NameTakenBy: known.TakenBy, NamePattern: known.NamePattern, Interface: j.Interface, VXLANPort: j.known.Network.VXLANPort,
		Ports: desired.Ports(j.Content)}); u != nil {
		return u
	}
	if err := j.reach(ctx); err != nil {
		return err
	}
	return j.Cluster.Accept(ctx, j.facts)
}

func (j *Job) configure(ctx context.Context) error {
	want, err := j.Cluster.Desired(ctx)
	if err != nil {
		return err
	}
	if err := checkNotServer(j.facts, want.Cluster.Server); err != nil {
		return err
	}
	token, err := j.Cluster.Token(ctx)
	if err != nil {
		return fmt.Errorf("creating a token for bootstrapping: %w", err)
	}
	request := wicdapi.JoinRequest{
		Cluster:   want.Cluster.ID,
		Namespace: j.Namespace,
		Local:     j.local(),
		Desired:   want.Node,
		Secrets:   want.Secrets,
		Serial:    want.Serial,
		Bootstrap: wicdapi.Bootstrap{Server: want.Cluster.Server, CA: want.Cluster.CA, Token: token},
		Register:  j.unregistered,
		Hostname:  j.Hostname,
		Retried:   j.Retried,
		MayReboot: j.unregistered, // without a Node, no workload runs on the host that a restart could hurt
	}
	var result wicdapi.JoinResult
	if err := j.callWith(ctx, j.program(wicdapi.CommandJoin), request, &result, StepConfigure); err != nil {
		return err
	}
	if result.Rebooting != "" {
		return &Rebooting{Reason: result.Rebooting, BootID: result.BootID}
	}
	return nil
}

func (j *Job) local() desired.Local {
	return desired.Local{
		Node: NodeName(j.facts), NodeIP: NodeIP(j.facts, j.Interface), Adapter: Adapter(j.facts, j.Interface), Taints: j.Taints,
	}
}
