package configure

import (
	"context"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/host"
)

// pullSteps are how a node becomes what the cluster wants now, in order: those of a join that concern what is the same
// for all nodes. A join that was cut goes on where these end, and the other way round.
func pullSteps(p parts) []step {
	return []step{
		{"making folders", p.folders.make},
		{"authorizing keys", p.keys.try},
		{"linking programs", p.programs.link},
		{"writing mirrors of registries", p.registries.write},
		{"writing configuration", p.files.write},
		{"setting the environment", p.environment.set},
		{"trusting certificates", p.certificates.trust},
		{"opening the firewall", p.firewall.open},
		{"setting exclusions of Microsoft Defender", p.exclusions.try},
		{"remembering the request", p.record.remember},
		{"starting services", p.services.startOthers},
		{"removing old versions", p.programs.removeOldVersions},
		{"completing", p.record.complete},
	}
}

// Pull makes the host what the cluster wants now.
type Pull struct {
	host   host.Host
	target target
}

// NewPull refuses what could not become a node, as a join does. It changes nothing yet.
func NewPull(h host.Host, request agent.JoinRequest) (Pull, error) {
	t, err := newTarget(request)
	return Pull{h, t}, err
}

// Run takes the steps of a pull. The caller holds the lock of commands.
func (p Pull) Run(ctx context.Context) (err error) {
	if p.target.former, err = readFormer(p.host.Disk); err != nil {
		return err
	}
	w := newWork(p.host, func(agent.Step) {})
	all := newParts(w, p.target)
	all.record.pulls = true
	return w.run(ctx, pullSteps(all))
}
