package configure

import (
	"context"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// record manages the host's record of the request.
type record struct {
	work
	request wicdapi.JoinRequest
	former  former
	// pulls is true for a pull by the service, false for a join.
	pulls bool
}

// former is the previous request, and its wanted state of this host; empty on a fresh host.
type former struct {
	state.Record
	wanted desired.Node
}

// readFormer reads the host's record. An unreadable one counts as empty: the host is configured from scratch.
func readFormer(d hostapi.Disk) (former, error) {
	r, err := state.ReadFormer(d)
	return formerOf(r), err
}

// formerOf returns a record with its wanted state; if that cannot be resolved for this host, with what the record declares.
func formerOf(r state.Record) former {
	wanted, err := r.Wanted()
	if err != nil {
		wanted = r.Desired
	}
	return former{r, wanted}
}

// remember writes the request, so that the service on the host and the next join know it.
func (r record) remember(context.Context) error {
	request := r.request
	request.Bootstrap.Token = ""
	requested := state.Record{JoinRequest: request, Complete: true}
	if state.Equal(requested, r.former.Record) {
		return nil
	}
	requested.Complete, requested.Pulled = false, r.pulls
	_, err := requested.Write(r.Disk)
	return err
}

// complete marks the request as completed.
func (r record) complete(context.Context) error {
	changed, err := state.Record{JoinRequest: r.request, Complete: true}.Write(r.Disk)
	if changed {
		r.recordChange("joined as node %s, version %s", r.request.Node, r.request.Desired.Version)
	}
	return err
}
