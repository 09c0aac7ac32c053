package configure

import (
	"context"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// pullSteps returns the steps that bring a node to the cluster's current settings, in order: the steps of a join that apply settings common
// to all nodes. A pull continues an interrupted join, and a join an interrupted pull.
func pullSteps(p parts) []step {
	return []step{
		{"creating folders", p.folders.create},
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

// Pull brings the host to the cluster's current settings. Like a join, it rejects requests that cannot result in a node. The caller holds
// the command lock.
func Pull(ctx context.Context, h hostapi.Host, request wicdapi.JoinRequest) error {
	t, err := newTarget(request)
	if err != nil {
		return err
	}
	if t.former, err = readFormer(h.Disk); err != nil {
		return err
	}
	w := newWork(h, func(wicdapi.Step) {})
	all := newParts(w, t)
	all.record.pulls = true
	return w.run(ctx, pullSteps(all))
}
