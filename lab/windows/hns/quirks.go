package hns

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/testing/sim/hnsquirks"
)

// Quirks are behaviors of a real Host Network Service that this one has only on request, except ChoosesAddress, FindsLate and StartsLate.
type Quirks = hnsquirks.Quirks

const (
	// quirks is the kind of the one object that has them, and stale that of removed endpoints that are still listed.
	quirks   Kind = "Quirks"
	stale    Kind = "StaleEndpoint"
	quirksID      = "QUIRKS"
)

// SetQuirks replaces the quirks of the service. They survive boots.
func (s *Store) SetQuirks(q Quirks) error {
	raw, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("encoding the quirks: %w", err)
	}
	return s.change(func(*state) error {
		o, err := parse(raw)
		if err == nil {
			o["ID"] = quirksID
			s.put(quirks, o)
		}
		return err
	})
}

// bind rejects a network whose adapter it cannot use.
func (now *state) bind(n Object) error {
	var bound []string
	for _, other := range now.objects[Network] {
		bound = append(bound, other.adapter())
	}
	if !now.quirks.CanBind(n.adapter(), n.text("Type") == "Overlay", bound) {
		return AdapterNotFound
	}
	return nil
}

// adapterSettings returns the policies that name a network's adapter, with the field for the name.
func adapterSettings() map[string]string {
	return map[string]string{"NetAdapterName": "NetworkAdapterName", "InterfaceConstraint": "InterfaceAlias"}
}

// adapter returns the name of a network's adapter, or "" if it has none.
func (o Object) adapter() string {
	for _, p := range items(o["Policies"]) {
		settings, _ := p["Settings"].(map[string]any)
		if name := text(settings, adapterSettings()[text(p, "Type")]); name != "" {
			return name
		}
	}
	return ""
}

// rejects reports whether a request has a policy that the service does not support.
func (now *state) rejects(k Kind, r request2) bool {
	return now.quirks.RefusesHostRoute && k == Network && r.RequestType == "Add" &&
		slices.ContainsFunc(items(r.Settings.Policies), func(p map[string]any) bool { return text(p, "Type") == "HostRoute" })
}

// echo returns an object as the service returns it, without changing the stored object.
func echo(q Quirks, k Kind, o Object) Object {
	if k != Network || o == nil || !q.OmitsVNI && !q.OmitsVXLANPort && !q.OmitsAdapter && !q.RenamesAdapter {
		return o
	}
	o = o.clone()
	var policies []any
	for _, p := range items(o["Policies"]) {
		field, isAdapter := adapterSettings()[text(p, "Type")]
		settings, _ := p["Settings"].(map[string]any)
		switch name := text(settings, field); {
		case q.OmitsVXLANPort && text(p, "Type") == "VxlanPort", q.OmitsAdapter && isAdapter:
			continue
		case q.RenamesAdapter && name != "":
			settings[field] = "vEthernet (" + name + ")"
		}
		policies = append(policies, p)
	}
	o["Policies"] = policies
	if q.OmitsVNI {
		o.omitVNI()
	}
	return o
}

func (o Object) omitVNI() {
	for _, ipam := range items(o["Ipams"]) {
		for _, subnet := range items(ipam["Subnets"]) {
			policies, _ := subnet["Policies"].([]any)
			subnet["Policies"] = slices.DeleteFunc(policies, func(p any) bool {
				policy, _ := p.(map[string]any)
				return text(policy, "Type") == "VSID"
			})
		}
	}
}

// quirksNow returns the quirks, and whether lists still lack objects.
func (s *Store) quirksNow() (q Quirks, isLate bool, err error) {
	if err := s.view(func(now *state) error { q = now.quirks; return nil }); err != nil || q.ListsLate == 0 {
		return q, false, err
	}
	info, err := os.Stat(filepath.Join(s.Dir, serviceFile))
	if err != nil {
		return q, false, nil // the host does not have the service
	}
	return q, time.Since(info.ModTime()) < q.ListsLate, nil
}

// listed returns the IDs that a list of the second generation contains.
func (s *Store) listed(k Kind, ids []string) ([]string, error) {
	_, isLate, err := s.quirksNow()
	if k == Network && isLate {
		ids = hnsquirks.EverySecond(ids)
	}
	return ids, err
}

// oldEcho returns an object of the first generation as the service returns it.
func oldEcho(q Quirks, o map[string]any) map[string]any {
	if q.OmitsAddresses {
		o = without(o, "IPAddress")
	}
	if policies, _ := o["Policies"].([]any); q.OmitsVIPs && len(policies) > 0 {
		var rest []any
		for _, p := range items(policies) {
			rest = append(rest, without(p, "VIPs"))
		}
		o = maps.Clone(o)
		o["Policies"] = rest
	}
	return o
}

// keepStale records a removed endpoint that is still listed.
func (s *Store) keepStale(now *state, e Object) {
	if !now.quirks.ListsStale || e.remote() {
		return
	}
	o := e.clone()
	o["ID"], o["Flags"] = staleID(e.id()), remoteEndpoint
	delete(o, "HostComputeNamespace")
	s.put(stale, o)
}

// staleID derives another ID from an endpoint's ID.
func staleID(id string) string {
	return "57A1E000" + strings.TrimPrefix(Key(id), Key(id)[:min(8, len(Key(id)))])
}
