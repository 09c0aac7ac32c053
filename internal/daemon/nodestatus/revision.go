package nodestatus

import (
	"context"

	"github.com/windows-machine-config/wmco/internal/windowsbuild"
)

// revision says which update Windows lacks, or which known fault an update fixes. A node without the update stays one: it joined before the
// revision was checked, or somebody removed it. Windows is asked each time, because there are updates without a restart. A revision that
// cannot be read says nothing.
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
