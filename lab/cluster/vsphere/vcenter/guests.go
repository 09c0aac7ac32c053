//go:build linux

package vcenter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
)

// The registry values with the case-preserving name of a host, and with the UUID of its firmware.
const (
	namesKey, nameValue    = `HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters`, "Hostname"
	hardwareKey, uuidValue = `HKLM\SYSTEM\HardwareConfig`, "LastConfig"
)

// Guests runs the hosts in the virtual machines of a vCenter.
type Guests struct {
	vcenter *Server
	lab     *lab.Lab
	failed  func(error)

	hosts map[string]*lab.Host // by the name of the virtual machine
	count int
}

// NewGuests returns the guests of the virtual machines of a vCenter. Existing hosts are the guests of the virtual machines with their
// names. It calls failed with errors, and retries.
func NewGuests(v *Server, l *lab.Lab, failed func(error)) *Guests {
	g := &Guests{vcenter: v, lab: l, failed: failed, hosts: map[string]*lab.Host{}}
	for _, h := range l.Hosts() {
		g.hosts[h.Name()] = h
	}
	return g
}

// Run reconciles hosts with virtual machines until the context ends: it starts a host for each virtual machine that is turned
// on, reports its name and address to the vCenter like VMware Tools, and turns it off with the virtual machine. A clone of the
// template has a name that Windows Setup chooses: the Machine API passes user data and name in a form that only Ignition reads,
// not Windows.
func (g *Guests) Run(ctx context.Context) {
	const poll = 500 * time.Millisecond
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := g.reconcile(ctx); err != nil && ctx.Err() == nil {
			g.failed(err)
		}
	}, poll)
}

func (g *Guests) reconcile(ctx context.Context) error {
	machines, err := g.vcenter.machines(ctx)
	if err != nil {
		return err
	}
	on := map[string]bool{}
	var failures []error
	for _, m := range machines {
		if !m.on {
			continue
		}
		on[m.name] = true
		if err := g.run(ctx, m); err != nil {
			failures = append(failures, fmt.Errorf("the guest of virtual machine %s: %w", m.name, err))
		}
	}
	for name, host := range g.hosts {
		if !on[name] && isClone(host) {
			host.PowerOff()
			delete(g.hosts, name)
		}
	}
	return errors.Join(failures...)
}

// guestName is the prefix of the names that Windows Setup chooses.
const guestName = "WIN-GUEST"

// isClone reports whether a host was started for a virtual machine, in contrast to the hosts that existed before.
func isClone(host *lab.Host) bool { return strings.HasPrefix(host.Name(), guestName) }

func (g *Guests) run(ctx context.Context, m machine) (err error) {
	host, found := g.hosts[m.name]
	if !found {
		g.count++
		if host, err = g.lab.AddHost(ctx, fmt.Sprintf("%s%d", guestName, g.count)); err != nil {
			return err
		}
		g.hosts[m.name] = host
	}
	if m.hostName == "" { // VMware Tools have reported nothing yet
		firmware := guestapi.RegistryValue{Type: "REG_SZ", Text: "{" + littleEndian(m.biosUUID) + "}"}
		if err := host.WriteRegistry(ctx, hardwareKey, uuidValue, firmware); err != nil {
			return err
		}
	}
	name, found, err := host.ReadRegistry(ctx, namesKey, nameValue)
	if err == nil && found && name.Text != m.hostName {
		return m.report(ctx, name.Text, host.Address())
	}
	return nil // nothing new to report; a host that is restarting reports later
}

// littleEndian converts a UUID of vSphere to the form that Windows reads from the firmware: the bytes of the first three fields
// are reversed.
func littleEndian(uuid string) string {
	fields := strings.Split(uuid, "-")
	for i := range min(3, len(fields)) {
		var reversed strings.Builder
		for at := len(fields[i]) - 2; at >= 0; at -= 2 {
			reversed.WriteString(fields[i][at : at+2])
		}
		fields[i] = reversed.String()
	}
	return strings.Join(fields, "-")
}
