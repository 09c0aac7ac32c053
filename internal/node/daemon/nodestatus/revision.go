package nodestatus

import (
	"context"

	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// revision returns which required update is missing, or which known fault an update fixes. A node without the update keeps running: it joined
// before the revision was checked, or an administrator removed the update. Windows is queried each time, because some updates need no restart.
// An unreadable revision is inconclusive.
func (p *Problems) revision(ctx context.Context, _ bool) (wrong string, isKnown bool) {
	number, revision, err := p.Host.Inventory.Version(ctx)
	if err != nil || revision == 0 {
		return "", false
	}
	build := windowsbuild.Build(number)
	if u, isMissing := windowsbuild.Missing(build, revision); isMissing {
		return u.Without(revision), true
	}
	if f, hasFault := windowsbuild.FaultOf(build, revision); hasFault {
		return f.At(revision), true
	}
	return "", true
}
