package configure

import (
	"context"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// pullSteps returns the steps that bring a node to the cluster's current settings, in order: the steps of a join that concern what is the same for
// all nodes. They continue an interrupted join, and conversely.
func pullSteps(p parts) []step {
	return []step{
		{"creating folders", p.folders.make},
		{"authorizing keys", p.keys.try},
		{"linking programs", p.programs.link},
		{"writing mirrors of registries", p.registries.write},
		{"writing configuration", p.files.write},
		{"setting the environment", p.environment.set},
		{"trusting certificates", p.certificates.trust},
		{"opening the firewall", p.firewall.open},
		{"setting exclusions of Microsoft Defender", p.exclusions.try},
		{"storing the request", p.record.remember},
		{"starting services", p.services.startOthers},
		{"removing old versions", p.programs.removeOldVersions},
		{"completing", p.record.complete},
	}
}

// Pull brings the host to the cluster's current settings.
type Pull struct {
	host   hostapi.Host
	target target
}

// NewPull rejects requests that could not make a node, as a join does. It changes nothing yet.
func NewPull(h hostapi.Host, request wicdapi.JoinRequest) (Pull, error) {
	t, err := newTarget(request)
	return Pull{h, t}, err
}

// Run runs the steps of a pull. The caller holds the command lock.
func (p Pull) Run(ctx context.Context) (err error) {
	if p.target.former, err = readFormer(p.host.Disk); err != nil {
		return err
	}
	w := newWork(p.host, func(wicdapi.Step) {})
	all := newParts(w, p.target)
	all.record.pulls = true
	return w.run(ctx, pullSteps(all))
}
