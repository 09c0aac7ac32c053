package storytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/instance"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/sshkey"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// attackedHost is a host that follows the protocol and must become a node despite the attackers.
type attackedHost struct {
	*storyHost
	w          *attackWorld
	how        string // it is announced: entry, name, machine or instance
	isKnown    bool   // its key is listed as known
	announceAt time.Time
	announced  bool
	isReady    bool // or was once
	missedAt   time.Time
	// request is the pending certificate request; requestToken is the token used to request the identity.
	request, requestToken string
	isServing             bool
}

func newAttackedHost(w *attackWorld, n int) *attackedHost {
	h := &attackedHost{storyHost: newStoryHost(w.story, n), w: w, how: []string{"entry", "name", "machine", "instance"}[w.rand.IntN(4)]}
	key, err := ssh.ParsePrivateKey(controllertest.SSHKey(w.t, 0))
	w.must(err)
	h.keys, h.kubeletSilent = []string{sshkey.AuthorizedLine(key)}, true
	h.isKnown = h.how != "machine" && w.chance(0.5)
	w.hosts = append(w.hosts, h.storyHost)
	return h
}

// place returns the address or DNS name at which the instance is reached.
func (h *attackedHost) place() string {
	if h.how == "name" {
		return h.name + ".example"
	}
	return h.address
}

func (h *attackedHost) instanceName() string {
	if h.how == "entry" || h.how == "name" {
		return h.place()
	}
	return h.name
}

func (h *attackedHost) announceHonestly() {
	w := h.w
	h.announced = true
	w.record("%s is announced by %s, its key is known: %v", h.name, h.how, h.isKnown)
	switch h.how {
	case "machine":
		w.put(machineOf(machinesNamespace, h.name, ownCluster, h.address))
	case "instance":
		i := controllertest.Instance(h.name, "", "", h.address)
		i.Finalizers, i.Generation = nil, 1
		if h.isKnown {
			i.Spec.HostKey = remote.FormatHostKey(h.key)
		}
		w.must(w.client.Create(w.ctx, i))
	default:
		if h.isKnown {
			w.keys = append(w.keys, h.place()+" "+remote.FormatHostKey(h.key))
		}
		w.announceEntry(h.place())
	}
}

// announceEntry adds an entry to ConfigMap windows-instances.
func (w *attackWorld) announceEntry(place string) {
	w.entries[place] = "username=Administrator"
	w.putEntries()
}

func (w *attackWorld) putEntries() {
	object := func(name string, data map[string]string) *corev1.ConfigMap {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid-of-a-list"}, Data: map[string]string{}}
		for key, value := range data {
			cm.Data[key] = value
		}
		return cm
	}
	if len(w.keys) > 0 {
		w.put(object(api.KnownHostsConfigMap, map[string]string{api.KnownHostsKey: strings.Join(w.keys, "\n") + "\n"}))
	}
	w.put(object(api.InstancesConfigMap, w.entries))
}

// advanceHonestHost advances the host by one tick.
func (h *attackedHost) advanceHonestHost() {
	switch {
	case !h.announced && !time.Now().Before(h.announceAt):
		h.announceHonestly()
	case h.version == "":
	case h.kubeletSilent: // no identity yet
		if h.token != h.requestToken {
			h.request, h.requestToken = h.w.createRequest(h.name, bootstrapOf(h.token), clientRequest("system:node:", h.name)), h.token
		}
		h.kubeletSilent = !h.w.isApproved(h.request)
	}
	former := h.registrations
	h.storyHost.advance()
	if h.registrations > former {
		h.w.notifyNode(h.w.node(h.name), h.name)
		h.request = h.w.createRequest(h.name, kubeletOf(h.name), servingRequest(h.name, h.name, h.address))
	}
	if h.registrations > 0 && !h.isServing {
		h.isServing = h.w.isApproved(h.request)
	}
}

// lacks returns what the host lacks to be a node in service, or "".
func (h *attackedHost) lacks() string {
	o, found := h.w.cache.objects["WindowsInstance"][controllertest.Key(h.instanceName())]
	if !found {
		return h.name + " has no instance"
	}
	i := o.(*v1alpha1.WindowsInstance)
	if ready := meta.FindStatusCondition(i.Status.Conditions, api.ConditionReady); ready == nil || ready.Status != metav1.ConditionTrue {
		return fmt.Sprintf("%s: %+v", h.name, ready)
	}
	n, found := h.w.cache.objects["Node"][client.ObjectKey{Name: h.name}]
	if !found || !nodestate.IsReady(n.(*corev1.Node)) || n.(*corev1.Node).Spec.Unschedulable || !h.isServing {
		return fmt.Sprintf("%s: there is a Node: %v, it has a serving certificate: %v", h.name, found, h.isServing)
	}
	return ""
}

// waiting returns what some honest host still lacks, or "" if all are in service.
func (w *attackWorld) waiting() string {
	for _, h := range w.honest {
		if late := h.lacks(); late != "" {
			return late
		}
	}
	return ""
}

// attackedConnection is a connection to an honest host, dialed for target.
type attackedConnection struct {
	storyConnection
	h      *attackedHost
	target string
}

// Run executes the command.
func (c attackedConnection) Run(_ context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	return handleCommand(quirkyHost{attackedCommands(c), c.h.storyHost}, command, stdin, stdout)
}

type attackedCommands attackedConnection

func (c attackedCommands) join(r wicdapi.JoinRequest) (wicdapi.JoinResult, error) {
	c.h.w.checkSentToken(c.target, c.h.name, r.Bootstrap.Token)
	return c.storyConnection.join(r)
}

// dialAny behaves like remote.Dial for honest and lying hosts.
func (w *attackWorld) dialAny(ctx context.Context, t remote.Target, o remote.Options) (instance.SSHHost, error) {
	place := t.Address
	if _, err := netip.ParseAddr(place); err != nil {
		ips, err := o.Lookup(ctx, "ip4", place)
		if err != nil {
			return nil, &remote.Error{Kind: remote.Unresolvable, Host: place, Err: err}
		}
		t.Address = ips[0].String()
	}
	w.checkDialed(place, t.Address, t.HostKey != nil)
	key, connection := w.answering(t.Address, place)
	fail := func(kind remote.Kind, text string) (instance.SSHHost, error) {
		return nil, &remote.Error{Kind: kind, Host: t.Address, HostKey: key, Err: errors.New(text)}
	}
	switch {
	case connection == nil:
		return fail(remote.Timeout, "no answer")
	case t.HostKey != nil && !bytes.Equal(t.HostKey.Marshal(), key.Marshal()):
		return fail(remote.HostKeyChanged, "another host")
	case t.HostKey == nil && t.KnownOnly:
		return fail(remote.HostKeyUnknown, "an unknown host")
	}
	if c, isHonest := connection.(attackedConnection); isHonest && !slices.Contains(c.h.keys, sshkey.AuthorizedLine(t.Key)) {
		return fail(remote.Authentication, "no key fits")
	}
	if c, isHostile := connection.(*hostileConnection); isHostile && c.fault == "refuse" {
		return fail(remote.Protocol, "\x1b[2J"+strings.Repeat("no SSH ", 1000))
	}
	return connection, nil
}

// answering returns the host key and the connection at an address, or nil if no host has it.
func (w *attackWorld) answering(address, target string) (ssh.PublicKey, instance.SSHHost) {
	for _, h := range w.honest {
		if h.address == address {
			return h.key, attackedConnection{storyConnection{h.storyHost}, h, target}
		}
	}
	for _, l := range w.hostileHosts {
		if l.address == address {
			return l.key, l.connection(target)
		}
	}
	return nil, nil
}
