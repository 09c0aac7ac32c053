//go:build linux

// Package vcenter simulates the cloud of package vsphere with VMware's vCenter simulator, and runs hosts of the lab in its
// virtual machines.
package vcenter

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vapi/rest"
	_ "github.com/vmware/govmomi/vapi/simulator" // serves tags
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/windows-machine-config/wmco/lab/cluster/vsphere"
)

// A Server is a simulated vCenter with one datacenter, and a client of it.
type Server struct {
	model  *simulator.Model
	server *simulator.Server
	client *govmomi.Client
	finder *find.Finder
}

// hardware is the hardware version of the template. The Machine API requires vmx-15 or later.
const hardware = "vmx-19"

// Start starts a vCenter on the loopback network. It runs until Close.
func Start(ctx context.Context, tagOfCluster string) (*Server, error) {
	v := &Server{model: simulator.VPX()}
	v.model.Host, v.model.ClusterHost, v.model.Machine, v.model.Autostart = 0, 1, 1, false
	if err := v.model.Create(); err != nil {
		return nil, fmt.Errorf("creating a vCenter: %w", err)
	}
	v.model.Service.RegisterEndpoints = true
	v.model.Service.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	v.model.Service.Listen = &url.URL{User: url.UserPassword(vsphere.User, vsphere.Password), Host: net.JoinHostPort(vsphere.Loopback, "0")}
	v.server = v.model.Service.NewServer()
	if err := v.prepare(ctx, tagOfCluster); err != nil {
		v.Close()
		return nil, fmt.Errorf("preparing a vCenter: %w", err)
	}
	return v, nil
}

// Address returns the address and port at which the vCenter serves HTTPS.
func (v *Server) Address() string { return v.server.URL.Host }

// Close stops the vCenter.
func (v *Server) Close() {
	v.server.Close()
	v.model.Remove()
}

func (v *Server) prepare(ctx context.Context, tagOfCluster string) (err error) {
	if v.client, err = govmomi.NewClient(ctx, v.server.URL, true); err != nil {
		return err
	}
	v.finder = find.NewFinder(v.client.Client, false)
	dc, err := v.finder.Datacenter(ctx, vsphere.Datacenter)
	if err != nil {
		return err
	}
	v.finder.SetDatacenter(dc)
	hypervisors, err := v.finder.ClusterComputeResource(ctx, vsphere.Cluster)
	if err != nil {
		return err
	}
	template, err := v.finder.VirtualMachine(ctx, vsphere.Template)
	if err != nil {
		return err
	}
	windows := types.VirtualMachineConfigSpec{GuestId: string(types.VirtualMachineGuestOsIdentifierWindows2019srvNext_64Guest)}
	for _, begin := range []func() (*object.Task, error){
		func() (*object.Task, error) { return template.Reconfigure(ctx, windows) },
		func() (*object.Task, error) { return template.UpgradeVM(ctx, hardware) },
		func() (*object.Task, error) { return template.CreateSnapshot(ctx, "prepared", "", false, false) }, // for linked clones
	} {
		if err := finish(ctx, begin); err != nil {
			return err
		}
	}
	return v.tag(ctx, map[string]mo.Reference{vsphere.Region: dc, vsphere.Zone: hypervisors}, tagOfCluster)
}

// finish starts a task of the vCenter, and waits until it ends.
func finish(ctx context.Context, begin func() (*object.Task, error)) error {
	task, err := begin()
	if err != nil {
		return err
	}
	return task.Wait(ctx)
}

// tag creates the tags that OpenShift's installer creates: those for region and zone, and one for the objects of a cluster.
func (v *Server) tag(ctx context.Context, at map[string]mo.Reference, tagOfCluster string) error {
	client := rest.NewClient(v.client.Client)
	if err := client.Login(ctx, url.UserPassword(vsphere.User, vsphere.Password)); err != nil {
		return err
	}
	defer func() { _ = client.Logout(context.WithoutCancel(ctx)) }()
	manager := tags.NewManager(client)
	for name, category := range map[string]string{vsphere.Region: vsphere.RegionCategory, vsphere.Zone: vsphere.ZoneCategory, tagOfCluster: "openshift-" + tagOfCluster} {
		if _, err := manager.CreateCategory(ctx, &tags.Category{Name: category, Cardinality: "SINGLE"}); err != nil {
			return err
		}
		id, err := manager.CreateTag(ctx, &tags.Tag{Name: name, CategoryID: category})
		if err != nil {
			return err
		}
		if to, found := at[name]; found {
			if err := manager.AttachTag(ctx, id, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// machine is a virtual machine with the properties that the vCenter reports.
type machine struct {
	name, biosUUID string
	on             bool
	// hostName and address are those that VMware Tools have reported.
	hostName, address string
	vm                *object.VirtualMachine
}

// machines returns all virtual machines except the template.
func (v *Server) machines(ctx context.Context) ([]machine, error) {
	found, err := v.finder.VirtualMachineList(ctx, "*")
	if err != nil {
		return nil, err
	}
	var all []machine
	for _, vm := range found {
		var got mo.VirtualMachine
		if err := vm.Properties(ctx, vm.Reference(), []string{"name", "config.uuid", "runtime.powerState", "guest.hostName", "guest.ipAddress"}, &got); err != nil {
			return nil, err
		}
		if got.Name == vsphere.Template || got.Config == nil {
			continue
		}
		m := machine{name: got.Name, biosUUID: got.Config.Uuid, vm: vm, on: got.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn}
		if got.Guest != nil {
			m.hostName, m.address = got.Guest.HostName, got.Guest.IpAddress
		}
		all = append(all, m)
	}
	return all, nil
}

// report sets the host name and address that VMware Tools report for the guest of a virtual machine.
func (m machine) report(ctx context.Context, hostName, address string) error {
	reported := types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{
		&types.OptionValue{Key: "SET.guest.hostName", Value: hostName}, &types.OptionValue{Key: "SET.guest.ipAddress", Value: address},
	}}
	return finish(ctx, func() (*object.Task, error) { return m.vm.Reconfigure(ctx, reported) })
}

// Clone creates a virtual machine without a Machine, as an administrator does, and turns it on.
func (v *Server) Clone(ctx context.Context, name string) error {
	template, err := v.finder.VirtualMachine(ctx, vsphere.Template)
	if err != nil {
		return err
	}
	folder, err := v.finder.DefaultFolder(ctx)
	if err != nil {
		return err
	}
	pool, err := v.finder.DefaultResourcePool(ctx)
	if err != nil {
		return err
	}
	spec := types.VirtualMachineCloneSpec{Location: types.VirtualMachineRelocateSpec{Pool: types.NewReference(pool.Reference())}}
	if err := finish(ctx, func() (*object.Task, error) { return template.Clone(ctx, folder, name, spec) }); err != nil {
		return err
	}
	clone, err := v.finder.VirtualMachine(ctx, name)
	if err != nil {
		return err
	}
	return finish(ctx, func() (*object.Task, error) { return clone.PowerOn(ctx) })
}

// PowerOff turns a virtual machine off, as if its hypervisor had failed.
func (v *Server) PowerOff(ctx context.Context, name string) error {
	vm, err := v.finder.VirtualMachine(ctx, name)
	if err != nil {
		return err
	}
	return finish(ctx, func() (*object.Task, error) { return vm.PowerOff(ctx) })
}

// Names returns the names of all virtual machines except the template.
func (v *Server) Names(ctx context.Context) (names []string, err error) {
	all, err := v.machines(ctx)
	for _, m := range all {
		names = append(names, m.name)
	}
	return names, err
}

// Guest returns the values that VMware Tools have reported for the guest of a virtual machine. They are empty before the first report.
func (v *Server) Guest(ctx context.Context, name string) (hostName, address string, err error) {
	all, err := v.machines(ctx)
	for _, m := range all {
		if m.name == name {
			return m.hostName, m.address, err
		}
	}
	return "", "", err
}
