//go:build linux

package testenv

import (
	"context"
	"fmt"
	"log"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/clusterapi"
)

// StartClusterAPI installs Cluster API in the cluster, and starts its controllers and a cloud that initializes all nodes. Its
// machines are hosts of the same kind as the Env's: on Wine or simulated. Everything runs until Close.
func (env *Env) StartClusterAPI(ctx context.Context) (*Machines, error) {
	root, err := Repository(ctx)
	if err != nil {
		return nil, err
	}
	cloud, err := StartCloud(env.Clients)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(env.running, cloud.Stop)
	m := &Machines{env: env, cloud: cloud, machines: map[string]Machine{}}
	for _, h := range env.Hosts() {
		m.register(h.Name, h.Address)
	}
	if m.controllers, err = (clusterapi.Programs{Root: root, Dir: env.folder.Path}).Start(ctx, env.Lab, env.Kubeconfig); err != nil {
		return nil, err
	}
	go clusterapi.NewProvider(env.Client, m, func(err error) { log.Printf("the provider of machines: %v", err) }).Run(env.running)
	return m, nil
}

// A Machine is a host that Machines created.
type Machine struct {
	// Node is the name of its node.
	Node string
	// PowerOff cuts the power.
	PowerOff func()

	address string
}

// Machines creates and deletes hosts for Cluster API, as a cloud does.
type Machines struct {
	env         *Env
	cloud       *Cloud
	controllers *lab.Program

	mu       sync.Mutex
	count    int
	machines map[string]Machine // by the names of their LabMachines
}

// Create implements clusterapi.Cloud. Hosts of the lab have no PowerShell to run user data, so it only applies their relevant
// effect: it authorizes their public keys. A machine that exists is returned.
func (m *Machines) Create(ctx context.Context, name string, userData []byte) (address, providerID string, err error) {
	const prefix = "<powershell>"
	keys, err := authorizedBy(userData)
	if !strings.HasPrefix(string(userData), prefix) || err != nil || len(keys) == 0 {
		return "", "", fmt.Errorf("invalid user data, want prefix %s and a public key (%w):\n%s", prefix, err, userData)
	}
	if existing, found := m.Get(name); found { // the provider could not record it
		return existing.address, m.register(existing.Node, existing.address), nil
	}
	m.mu.Lock()
	m.count++
	host := fmt.Sprintf("vm-%d", m.count)
	m.mu.Unlock()
	machine, err := m.start(ctx, host, keys)
	if err != nil {
		return "", "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.machines[name] = machine
	return machine.address, m.register(host, machine.address), nil
}

// register registers the machine of a node with the cloud.
func (m *Machines) register(node, address string) (providerID string) {
	providerID = "lab:///lab-a/" + node
	m.cloud.Set(node, CloudMachine(providerID, address, corev1.NodeAddress{Type: corev1.NodeHostName, Address: node}))
	return providerID
}

// authorizedBy returns the public keys in a script.
func authorizedBy(userData []byte) (keys []ssh.PublicKey, err error) {
	for _, found := range regexp.MustCompile(`(?m)^ *'(ssh-[^']+)',?\r?$`).FindAllSubmatch(userData, -1) {
		key, _, _, _, err := ssh.ParseAuthorizedKey(found[1])
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// start starts a new host.
func (m *Machines) start(ctx context.Context, name string, keys []ssh.PublicKey) (Machine, error) {
	if m.env.addresses != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		host, at, err := m.env.AddSimulated(sim.Options{Windows: sim.WindowsOptions{Hostname: name}, AuthorizedKeys: keys})
		if err != nil {
			return Machine{}, err
		}
		return Machine{Node: name, PowerOff: host.Close, address: at.Address}, nil
	}
	var authorized []byte
	for _, key := range keys {
		authorized = append(authorized, ssh.MarshalAuthorizedKey(key)...)
	}
	host, err := m.env.Lab.AddHostFor(ctx, name, authorized)
	if err != nil {
		return Machine{}, err
	}
	return Machine{Node: name, PowerOff: host.PowerOff, address: host.Address()}, nil
}

// Delete implements clusterapi.Cloud.
func (m *Machines) Delete(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if machine, found := m.machines[name]; found {
		machine.PowerOff()
		m.cloud.Remove(machine.Node)
		delete(m.machines, name)
	}
	return nil
}

// Get returns the machine of a LabMachine.
func (m *Machines) Get(name string) (machine Machine, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	machine, found = m.machines[name]
	return machine, found
}

// Log returns the end of the log of Cluster API's controllers.
func (m *Machines) Log() string { return m.controllers.Log(20_000) }
