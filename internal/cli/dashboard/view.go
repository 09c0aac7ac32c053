package dashboard

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/observe/advice"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

const (
	// maxNames limits the named hosts of a group or problem; the others are only counted.
	maxNames = 20
	// maxProblems limits the problems of a fleet that are sent.
	maxProblems = 100
)

type overview struct {
	At        time.Time             `json:"at"`
	Cluster   string                `json:"cluster"`
	Namespace string                `json:"namespace"`
	Loading   bool                  `json:"loading"`
	Lost      *lost                 `json:"lost,omitempty"`
	Operator  fleetstatus.Operator  `json:"operator"`
	Counts    fleetstatus.Counts    `json:"counts"`
	Attention int                   `json:"attention"` // hosts with an error or a warning
	Rollout   rollout               `json:"rollout"`
	Settings  fleetstatus.Settings  `json:"settings"`
	Policies  *fleetstatus.Policies `json:"policies,omitempty"`
	Problems  []problem             `json:"problems"`
	More      int                   `json:"more,omitempty"` // problems that are left out
	Orphans   int                   `json:"orphans,omitempty"`
	Unread    []fleetstatus.Unread  `json:"unread,omitempty"`
}

// lost reports that the API server does not respond.
type lost struct {
	Since time.Time `json:"since"`
	Why   string    `json:"why"`
}

// problem is a problem with the first of its hosts.
type problem struct {
	fleetstatus.Problem
	Total int `json:"total"`
}

// rollout is the progress with the first hosts of each group.
type rollout struct {
	fleetstatus.Rollout
	Out     int     `json:"out"`
	Running []group `json:"running,omitempty"`
	Waiting []group `json:"waiting,omitempty"`
}

type group struct {
	fleetstatus.Group
	Total int `json:"total"`
}

func overviewOf(f fleetstatus.Fleet) overview {
	o := overview{
		At: f.At, Namespace: f.Namespace, Operator: f.Operator, Counts: f.Counts, Settings: f.Settings, Policies: f.Policies, Unread: f.Unread, Orphans: len(f.Orphans),
		Rollout:  rollout{Rollout: f.Rollout, Out: len(f.Rollout.OutOfService), Running: groupsOf(f.Rollout.Running), Waiting: groupsOf(f.Rollout.Waiting)},
		Problems: []problem{}, More: max(0, len(f.Problems)-maxProblems),
	}
	o.Rollout.OutOfService = first(f.Rollout.OutOfService)
	o.Rollout.StoppedBy = first(f.Rollout.StoppedBy)
	for _, p := range f.Problems[:min(len(f.Problems), maxProblems)] {
		limited := problem{Problem: p, Total: len(p.Hosts)}
		limited.Hosts = first(p.Hosts)
		o.Problems = append(o.Problems, limited)
	}
	for i := range f.Hosts {
		if s := f.Hosts[i].Severity; s == advice.Error || s == advice.Warning {
			o.Attention++
		}
	}
	return o
}

func groupsOf(all []fleetstatus.Group) (groups []group) {
	for _, g := range all {
		limited := group{Group: g, Total: len(g.Hosts)}
		limited.Hosts = first(g.Hosts)
		groups = append(groups, limited)
	}
	return groups
}

func first(names []string) []string { return slices.Clone(names[:min(len(names), maxNames)]) }

// row is a host in the table. An array takes half the bytes of an object.
type row [12]any

// rowOf returns the row of a host. assets/fleet.js names the columns.
func rowOf(h *fleetstatus.Host) row {
	action, waits := "", ""
	if h.Plan != nil {
		action, waits = h.Plan.Action, h.Plan.WaitsFor
	}
	if h.Maintenance != nil {
		action, waits = h.Maintenance.Action, h.Maintenance.Step
	}
	since := int64(0)
	if !h.Since.IsZero() {
		since = h.Since.Unix()
	}
	version := cmp.Or(h.Versions.Node, h.Versions.Payload)
	return row{h.Name, h.Node, h.Address, h.State, h.Severity, h.Reason, action, waits, version, h.Versions.SettingsCurrent, h.Cordoned, since}
}

// snapshot is the fleet at one time, in the form that is sent.
type snapshot struct {
	version  uint64
	fleet    fleetstatus.Fleet
	overview json.RawMessage
	rows     map[string]string // by host name, as JSON
}

// update is sent to a page that shows the fleet: the rows that changed since the last update.
type update struct {
	Overview json.RawMessage   `json:"overview"`
	Full     bool              `json:"full,omitempty"`
	Rows     []json.RawMessage `json:"rows,omitempty"`
	Removed  []string          `json:"removed,omitempty"`
}

// updateFrom returns the changes since another snapshot, which may be nil.
func (s *snapshot) updateFrom(before *snapshot) update {
	u := update{Overview: s.overview, Full: before == nil}
	for i := range s.fleet.Hosts {
		name := s.fleet.Hosts[i].Name
		if before == nil || before.rows[name] != s.rows[name] {
			u.Rows = append(u.Rows, json.RawMessage(s.rows[name]))
		}
	}
	if before != nil {
		for name := range before.rows {
			if _, found := s.rows[name]; !found {
				u.Removed = append(u.Removed, name)
			}
		}
		slices.Sort(u.Removed)
	}
	return u
}

// snapshotOf prepares a fleet for sending. decorate adds what the fleet does not contain.
func snapshotOf(f fleetstatus.Fleet, version uint64, decorate func(*overview)) (*snapshot, error) {
	s := &snapshot{version: version, fleet: f, rows: make(map[string]string, len(f.Hosts))}
	o := overviewOf(f)
	decorate(&o)
	var err error
	if s.overview, err = json.Marshal(o); err != nil {
		return nil, err
	}
	for i := range f.Hosts {
		line, err := json.Marshal(rowOf(&f.Hosts[i]))
		if err != nil {
			return nil, err
		}
		s.rows[f.Hosts[i].Name] = string(line)
	}
	return s, nil
}
