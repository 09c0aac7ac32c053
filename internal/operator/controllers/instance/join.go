package instance

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// slotGrace is how long a host keeps its join slot while the operator connects: a dead host must not occupy a slot.
const slotGrace = 500 * time.Millisecond

const tokenSeconds = 15 * 60

// The cache observes a write within milliseconds, or within seconds if the API server is busy.
const (
	cachePoll    = 20 * time.Millisecond
	cacheTimeout = 10 * time.Second
)

// errDeleted ends the join of an instance that is deleted during the join: its host leaves and gets no token.
var errDeleted = errors.New("the WindowsInstance is being deleted")

// join runs one join attempt and keeps the status up to date.
func (c *Controller) join(ctx context.Context, v *view, status *statusWriter) error {
	a := &attempt{Controller: c, view: v, status: status}
	status.setWriteInterval(progressPause(c.Slots.Taken()))
	status.silent = isSilent(v.Instance)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	status.deleted = func() { cancel(errDeleted) }
	id := client.ObjectKeyFromObject(v.Instance)
	c.running.Store(id, status.deleted)
	defer c.running.Delete(id)
	join.Begin(status.want(), v.Instance.Generation)
	job := join.Job{
		Visit: join.Visit{
			Host: a, Payload: c.Payload, Content: desired.Content(v.release.Content, v.config.Network.Provider), Hostname: v.Instance.Spec.Hostname,
			Observer: joinObserver{a, ctx}, Now: time.Now,
		},
		Transfer:  join.Transfer{TakeSlot: a.takeSlot},
		Cluster:   a,
		Namespace: c.Namespace,
		Taints:    join.Taints(v.Instance.Spec.NodeTaints, v.config.Images),
		Interface: v.Instance.Spec.Network,
		Retried:   retriedAt(v.Instance),
	}
	rebootedFrom := join.RebootedFrom(v.Instance, time.Now())
	defer status.settle()
	err := job.Run(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errDeleted) {
		return errDeleted // whichever step was interrupted
	}
	if rebootedFrom != "" && status.want().BootID == rebootedFrom {
		err = join.Restarting(err, rebootedFrom)
	}
	return err
}

// attempt gives a join access to the cluster and the host. It implements join.Cluster and join.Connector.
type attempt struct {
	*Controller
	view   *view
	status *statusWriter
	host   *connection
	// connected is when the operator began to connect to the host.
	connected time.Time
	// unregistered means that no Node has the host's name.
	unregistered bool
	// registered is the existing Node of the host; nil if there is none or it has not been read.
	registered *corev1.Node
}

type joinObserver struct {
	*attempt
	ctx context.Context // of the join
}

// Progress implements join.Observer.
func (o joinObserver) Progress(p join.Progress) { o.status.progress(o.ctx, p) }

// Connect connects and, at first contact, pins the host's key before anything else happens on the connection.
func (a *attempt) Connect(ctx context.Context) (join.Host, error) {
	late := time.AfterFunc(slotGrace, func() { _ = a.view.admission.Close() })
	a.connected = time.Now()
	host, err := a.dial(ctx, a.view.Instance, a.view.key, a.view.config.Trust)
	if !late.Stop() {
		a.view.slot = nil // a host that answers late takes another slot
	}
	if err != nil {
		return nil, err
	}
	a.host = host
	st := a.status.want()
	key := remote.FormatHostKey(host.HostKey())
	if st.HostKey != key {
		st.HostKey, st.HostKeyFingerprint = key, ssh.FingerprintSHA256(host.HostKey())
		if err := a.status.write(ctx); err != nil {
			return host, err
		}
		a.Events.Emit(kube.Event{Object: a.view.Instance, Type: corev1.EventTypeNormal, Reason: api.EventHostKeyPinned, Action: "Pin"},
			"pinned SSH host key %[2]s of host %[1]s", a.view.Instance.Spec.Address, st.HostKeyFingerprint)
	}
	if other := a.sharesKeyWith(ctx, key); other != "" {
		a.Events.Emit(kube.Event{Object: a.view.Instance, Type: corev1.EventTypeWarning, Reason: api.EventHostKeyShared, Action: "Compare"},
			"the host has the same SSH host key %s as WindowsInstance %s, so each can impersonate the other; on one of them, "+
				`delete C:\ProgramData\ssh\ssh_host_*, restart sshd, and set spec.hostKey to the new key; do the same after each copy of an image`, st.HostKeyFingerprint, other)
	}
	return host, nil
}

// Accept records the host's facts and fixes its node's name. The facts are written with the next progress, at the latest before the host gets a token.
func (a *attempt) Accept(ctx context.Context, f wicdapi.Facts) error {
	if err := a.addFinalizer(ctx); err != nil {
		return err
	}
	st := a.status.want()
	name := join.NodeName(f)
	if u := join.CheckRenamed(a.view.Instance, name); u != nil {
		return u
	}
	if st.Hostname != name {
		if err := a.deleteFormerNode(ctx, st.Hostname, join.NodeIP(f, a.view.Instance.Spec.Network)); err != nil {
			return err
		}
		st.Hostname, st.HostnameFixed, st.IdentitySince, st.NodeRef, st.NodeConflict = name, false, nil, nil, nil
	}
	if a.registered != nil {
		st.NodeRef, st.NodeConflict = nodestate.ReferenceTo(a.registered), nil
	}
	st.NodeIP = join.NodeIP(f, a.view.Instance.Spec.Network)
	st.OSBuild = fmt.Sprintf("10.0.%d.%d", f.Host.Build, f.Host.UBR)
	st.BootID = f.Host.BootID
	if a.occupied(f) {
		return join.ErrOccupied
	}
	return nil
}

// addFinalizer keeps the instance until its host has left the cluster. It runs before anything on the host is changed.
func (a *attempt) addFinalizer(ctx context.Context) error {
	instance := a.view.Instance.DeepCopy()
	if instance.DeletionTimestamp != nil || !controllerutil.AddFinalizer(instance, api.Finalizer) {
		return nil
	}
	if err := a.Client.Patch(ctx, instance, client.MergeFrom(a.view.Instance)); err != nil {
		return fmt.Errorf("adding finalizer to WindowsInstance %s: %w", instance.Name, err)
	}
	a.view.Instance.Finalizers = instance.Finalizers
	return nil
}

// occupied reports whether the join must wait until the plan allows it and the node is drained: the host is a node of another operator, or of another
// version, which the join would replace.
func (a *attempt) occupied(f wicdapi.Facts) bool {
	if a.view.drained || a.status.want().Maintenance != nil {
		return false
	}
	isForeign := f.Joined == nil && !a.wasInterrupted() && slices.ContainsFunc(f.Services, func(s wicdapi.ServiceFacts) bool { return s.Ours })
	return isForeign && !a.unregistered || a.registered != nil && join.HasOtherVersion(a.registered, a.view.Version)
}

// wasInterrupted reports whether the host's Node comes from an interrupted join of this operator, for example after a power failure: the Node was created
// after the token with which the host still joins, so no pod has run there for long.
func (a *attempt) wasInterrupted() bool {
	st := a.status.want()
	return st.BootstrapCredentialID != "" && st.IdentitySince != nil && a.registered != nil && !a.registered.CreationTimestamp.Before(st.IdentitySince)
}

func (a *attempt) takeSlot() (io.Closer, error) {
	if a.view.slot != nil {
		return io.NopCloser(nil), nil // released at the end of the pass
	}
	slot, ok := a.Slots.Take(joins(a.view.config))
	if !ok {
		return nil, join.ErrNoSlot
	}
	return slot, nil
}

// Known returns what every node must know about the cluster. If the network is unsupported or unknown, it returns an error, and no host is contacted.
func (a *attempt) Known(ctx context.Context) (desired.Cluster, error) {
	if known, isKnown := a.Renderer.Cluster.Get(a.view.config); isKnown {
		return known, nil
	}
	known, _, err := a.Renderer.Render(ctx, a.view.config)
	if err != nil && !errors.Is(err, desired.ErrNetwork) {
		err = fmt.Errorf("%w: %w", join.ErrCluster, err)
	}
	return known, err
}

// Desired returns what is published for all nodes, so that a joining host and a joined one get the same.
func (a *attempt) Desired(ctx context.Context) (join.Want, error) {
	want, err := a.readings.Do(ctx, a.view.config, batchDelay(a.Slots.Taken()), a.wanted)
	if errors.Is(err, desired.ErrNetwork) {
		return join.Want{}, err
	}
	if err == nil {
		err = a.announceVersion(ctx)
	}
	if err != nil {
		return join.Want{}, fmt.Errorf("%w: %w", join.ErrCluster, err)
	}
	return want, nil
}

// wanted reads the published settings. Existing nodes keep them when the settings become invalid. A joining host waits for valid settings, because the
// published ones may be the cause of the problem.
func (a *attempt) wanted(ctx context.Context) (want join.Want, err error) {
	known, _, err := a.Renderer.Render(ctx, a.view.config)
	if err != nil {
		return join.Want{}, err
	}
	want, err = a.Store.Read(ctx, a.view.Version, known.ID)
	want.Cluster = known
	return want, err
}

// Altered implements join.Observer.
func (a *attempt) Altered(paths []string) {
	a.Events.Emit(kube.Event{Object: a.view.Instance, Type: corev1.EventTypeWarning, Reason: api.ReasonContentAltered, Action: "Replace"},
		"files on the host were modified and have been replaced: %s", strings.Join(paths, ", "))
}

// Token requests the bootstrap token of this join and records its ID before returning it: only requests made with it are approved for this host.
func (a *attempt) Token(ctx context.Context) (string, error) {
	finding, err := a.Policies.Check(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: %w", join.ErrCluster, err)
	}
	if finding != "" {
		return "", join.PoliciesAltered(finding)
	}
	if err := a.checkClaims(ctx); err != nil {
		return "", err
	}
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: api.BootstrapServiceAccount}}
	if err := a.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("requesting a token for ServiceAccount %s: %w", api.BootstrapServiceAccount, err)
	}
	id, err := credentialID(request.Status.Token)
	if err != nil {
		return "", err
	}
	st, now := a.status.want(), metav1.Now()
	st.BootstrapCredentialID, st.HostnameFixed = id, true
	if st.IdentitySince == nil {
		st.IdentitySince = &now
	}
	if err := a.status.write(ctx); err != nil {
		return "", err
	}
	a.waitForCache(ctx, id)
	return request.Status.Token, context.Cause(ctx)
}

// waitForCache waits until the cache has a token's ID. Certificate requests made with the token are decided from the cache: an earlier request would be
// refused and wait for the next check.
func (a *attempt) waitForCache(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, cacheTimeout)
	defer cancel()
	self := client.ObjectKeyFromObject(a.view.Instance)
	observed := func(ctx context.Context) (bool, error) {
		var i v1alpha1.WindowsInstance
		err := a.Client.Get(ctx, self, &i)
		return i.Status.BootstrapCredentialID == id, err
	}
	if err := wait.PollUntilContextCancel(ctx, cachePoll, true, observed); err != nil {
		log.FromContext(ctx).V(1).Info("Sending bootstrap token before the cache observed its ID", "error", err.Error())
	}
}

// credentialID returns the ID (claim jti, RFC 7519) of a token that the API server has just issued.
func credentialID(token string) (string, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", errors.New("the token is not a JSON Web Token")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", errors.New("the token's claims are not base64")
	}
	var claims struct {
		ID string `json:"jti"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.ID == "" {
		return "", errors.New("the token has no ID (claim jti); Kubernetes 1.30 or later is required")
	}
	return claims.ID, nil
}
