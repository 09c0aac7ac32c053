package win

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-ole/go-ole"
	"github.com/go-ole/go-ole/oleutil"
	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// firewallService is the service of the Windows firewall. While it does not run, nothing is filtered, and rules cannot be read.
const firewallService = "MpsSvc"

// firewall is the Windows firewall, accessed by its COM objects: HNetCfg.FwPolicy2 has the rules, HNetCfg.FwRule is a rule (netfw.h,
// https://learn.microsoft.com/windows/win32/api/netfw/).
type firewall struct{}

// Set implements hostapi.Firewall. It adds missing rules before it removes surplus ones.
func (firewall) Set(ctx context.Context, rules []desired.FirewallRule) ([]string, error) {
	if err := hostapi.CheckRules(rules); err != nil {
		return nil, err
	}
	switch runs, err := isRunning(firewallService); {
	case errors.Is(err, hostapi.ErrNotFound) && len(rules) == 0:
		return nil, nil // there never was a rule
	case errors.Is(err, hostapi.ErrNotFound):
		return nil, fmt.Errorf("%w: this Windows has no service %s", hostapi.ErrNoFirewall, firewallService)
	case err != nil:
		return nil, fmt.Errorf("reading the state of service %s: %w", firewallService, err)
	case !runs:
		return nil, fmt.Errorf("%w: service %s is not running", hostapi.ErrNoFirewall, firewallService)
	}
	changed := map[string]bool{}
	err := withPolicy(func(p policy) error {
		err := p.set(ctx, rules, changed)
		if err == nil && len(rules) > 0 {
			err = p.effect()
		}
		return err
	})
	return slices.Sorted(maps.Keys(changed)), err
}

// withPolicy opens the firewall for a function.
func withPolicy(do func(policy) error) error {
	release, err := initializeCOM()
	if err != nil {
		return fmt.Errorf("opening the firewall policy: %w", err)
	}
	defer release()
	p, err := openPolicy()
	if err != nil {
		return fmt.Errorf("opening the firewall policy: %w", err)
	}
	defer p.close()
	return do(p)
}

// comObject is a COM object whose members are called by name.
type comObject struct{ *ole.IDispatch }

func newCOMObject(name string) (comObject, error) {
	unknown, err := oleutil.CreateObject(name)
	if err != nil {
		return comObject{}, fmt.Errorf("creating %s: %w", name, withCode(err))
	}
	defer unknown.Release()
	dispatch, err := unknown.QueryInterface(ole.IID_IDispatch)
	if err != nil {
		return comObject{}, fmt.Errorf("calling %s: %w", name, withCode(err))
	}
	return comObject{dispatch}, nil
}

func (o comObject) get(property string) (any, error) {
	v, err := oleutil.GetProperty(o.IDispatch, property)
	if err != nil {
		return nil, fmt.Errorf("reading property %s: %w", property, withCode(err))
	}
	defer func() { _ = v.Clear() }()
	if v.VT&ole.VT_ARRAY != 0 {
		return "a list", nil
	}
	return v.Value(), nil
}

func (o comObject) put(property string, value any) error {
	v, err := oleutil.PutProperty(o.IDispatch, property, value)
	if err != nil {
		return fmt.Errorf("setting property %s to %v: %w", property, value, withCode(err))
	}
	return v.Clear()
}

func (o comObject) call(method string, argument any) error {
	v, err := oleutil.CallMethod(o.IDispatch, method, argument)
	if err != nil {
		return fmt.Errorf("calling %s: %w", method, withCode(err))
	}
	return v.Clear()
}

// policy is the firewall with its rules.
type policy struct{ whole, rules comObject }

func openPolicy() (policy, error) {
	whole, err := newCOMObject("HNetCfg.FwPolicy2")
	if err != nil {
		return policy{}, err
	}
	rules, err := oleutil.GetProperty(whole.IDispatch, "Rules")
	if err == nil && rules.ToIDispatch() == nil {
		err = errors.New("the property is not an object")
	}
	if err != nil {
		whole.Release()
		return policy{}, fmt.Errorf("reading property Rules: %w", withCode(err))
	}
	return policy{whole, comObject{rules.ToIDispatch()}}, nil
}

func (p policy) close() {
	p.rules.Release()
	p.whole.Release()
}

// set makes the managed rules equal to these, and records the names of changed ones.
func (p policy) set(ctx context.Context, wanted []desired.FirewallRule, changed map[string]bool) error {
	managed, err := p.managed()
	defer func() {
		for _, o := range managed {
			o.Release()
		}
	}()
	if err != nil {
		return fmt.Errorf("listing rules of the firewall: %w", err)
	}
	kept := map[int]bool{}
	for _, r := range wanted {
		at := slices.IndexFunc(managed, func(o comObject) bool { return o.matches(r) })
		if at >= 0 {
			kept[at] = true
			continue
		}
		if err := errors.Join(ctx.Err(), p.add(r)); err != nil {
			return fmt.Errorf("adding rule %q of the firewall: %w", r.Name, err)
		}
		changed[r.Name] = true
	}
	for at, o := range managed {
		if kept[at] {
			continue
		}
		name, err := p.remove(o)
		if err := errors.Join(ctx.Err(), err); err != nil {
			return fmt.Errorf("removing rule %q of the firewall: %w", name, err)
		}
		changed[name] = true
	}
	return nil
}

// managed returns the rules of the operator's group. The caller releases them, even with an error.
func (p policy) managed() (managed []comObject, err error) {
	err = oleutil.ForEach(p.rules.IDispatch, func(v *ole.VARIANT) error {
		defer func() { _ = v.Clear() }()
		dispatch := v.ToIDispatch()
		if dispatch == nil {
			return fmt.Errorf("a rule has type %s and is not an object", v.VT)
		}
		dispatch.AddRef()
		o := comObject{dispatch}
		if group, err := o.get("Grouping"); err != nil || group != hostapi.FirewallGroup {
			o.Release()
			return err
		}
		managed = append(managed, o)
		return nil
	})
	return managed, withCode(err)
}

// property is a property of a rule. Those that are not given have the default value.
type property struct {
	name  string
	value any
	given bool
}

// Values of properties, from icftypes.h.
const (
	inbound     = int32(1)          // NET_FW_RULE_DIR_IN
	allow       = int32(1)          // NET_FW_ACTION_ALLOW
	allProfiles = int32(0x7fffffff) // NET_FW_PROFILE2_ALL
	anything    = "*"
)

// properties returns the properties of a rule that allows exactly the traffic it names, without edge traversal (tunnels past a router). They must be
// set in this order: ports require a protocol.
func properties(r desired.FirewallRule) []property {
	protocol := int32(windows.IPPROTO_TCP)
	if r.Protocol == desired.UDP {
		protocol = windows.IPPROTO_UDP
	}
	var ports []string
	for _, port := range r.Ports {
		ports = append(ports, strconv.Itoa(int(port)))
	}
	local := property{"LocalPorts", anything, false}
	if len(ports) > 0 {
		local = property{"LocalPorts", strings.Join(ports, ","), true}
	}
	from := property{"RemoteAddresses", anything, false}
	if len(r.From) > 0 {
		from = property{"RemoteAddresses", strings.Join(r.From, ","), true}
	}
	return []property{
		{"Name", r.Name, true},
		{"Grouping", hostapi.FirewallGroup, true},
		{"Direction", inbound, true},
		{"Protocol", protocol, true},
		local,
		{"Profiles", allProfiles, true},
		{"Action", allow, true},
		{"Enabled", true, true},
		{"RemotePorts", anything, false},
		{"LocalAddresses", anything, false},
		from,
		{"EdgeTraversal", false, false},
		{"InterfaceTypes", "All", false},
		{"Interfaces", nil, false},
		{"ApplicationName", r.Program, r.Program != ""},
		{"ServiceName", "", false},
	}
}

// matches reports whether a managed rule is as declared. An unreadable property counts as wrong.
func (o comObject) matches(r desired.FirewallRule) bool {
	return !slices.ContainsFunc(properties(r), func(p property) bool {
		current, err := o.get(p.name)
		return err != nil || !p.has(current, r)
	})
}

// has reports whether a property has the wanted value. Windows uses its own form of lists.
func (p property) has(current any, r desired.FirewallRule) bool {
	text, isText := current.(string)
	switch {
	case isText && p.name == "RemoteAddresses" && len(r.From) > 0:
		return hostapi.SameRanges(text, r.From)
	case isText && p.name == "ApplicationName":
		return strings.EqualFold(text, r.Program)
	case isText:
		return strings.ReplaceAll(text, ", ", ",") == p.value
	}
	return current == p.value
}

func (p policy) add(r desired.FirewallRule) error {
	o, err := newCOMObject("HNetCfg.FwRule")
	if err != nil {
		return err
	}
	defer o.Release()
	for _, item := range properties(r) {
		if !item.given {
			continue
		}
		if err := o.put(item.name, item.value); err != nil {
			return err
		}
	}
	return p.rules.call("Add", o.IDispatch)
}

// remove removes a managed rule. Windows removes by name, and a rule of another program can have the same name, so the rule is renamed first.
func (p policy) remove(o comObject) (name string, err error) {
	current, err := o.get("Name")
	name, _ = current.(string)
	if err != nil {
		return name, err
	}
	id, err := windows.GenerateGUID()
	if err != nil {
		return name, err
	}
	own := name + " " + id.String()
	if err := o.put("Name", own); err != nil {
		return name, err
	}
	return name, p.rules.call("Remove", own)
}

// effect returns an error if rules set on this computer have no effect.
func (p policy) effect() error {
	state, err := p.whole.get("LocalPolicyModifyState")
	if err != nil {
		return fmt.Errorf("reading whether the firewall applies local rules: %w", err)
	}
	switch state { // NET_FW_MODIFY_STATE
	case int32(1):
		return fmt.Errorf("%w: a group policy overrides local rules; allow the ports or local rules in that policy", hostapi.ErrNoFirewall)
	case int32(2):
		return fmt.Errorf("%w: all inbound connections are blocked", hostapi.ErrNoFirewall)
	}
	return nil
}
