package storytest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim/lies"
)

// hostileHost is a host that an attacker controls. Any of its answers may be a lie, and it uses every identity that it obtains.
type hostileHost struct {
	*storyHost
	w      *attackWorld
	n      int
	liar   *lies.Liar // of its kubelet; each connection has its own
	place  string     // its address, or its name in DNS
	tactic string     // what it does at each join; empty for any behavior
	since  time.Time  // when it was announced
	// obtained are the node names for which it has obtained identities since then.
	obtained  map[string]bool
	identity  string // the last of them
	received  []received
	registers int
	requests  []string // the most recent ones
}

// received is what a hostile host receives in a join: a token, and the name and address of its node.
type received struct{ token, node, address string }

func newHostileHost(w *attackWorld, n int) *hostileHost {
	l := &hostileHost{storyHost: newStoryHost(w.story, 100+n), w: w, n: n, obtained: map[string]bool{}}
	l.name, l.address = fmt.Sprintf("evil-%d", n), fmt.Sprintf("10.66.0.%d", n)
	l.liar = lies.New(w.seed<<8|uint64(n), &corev1.Node{}, &certificatesv1.CertificateSigningRequest{})
	l.tactic = []string{"", "", "", "claims", "claims", "claims", "restarts", "is about to restart", "fails"}[w.rand.IntN(9)]
	l.place = l.address
	if w.chance(0.4) {
		l.place = l.name + ".example"
	}
	return l
}

// words returns the values with which a liar may replace true ones. They exclude names of hosts that have not joined yet.
func (l *hostileHost) words() []string {
	words := []string{
		"pool-1", "pool-2", "pool-1", "pool-2", "linux-1", "kubernetes.default.svc", "kubernetes", "localhost", linuxAddress, "10.3.0.5", "10.96.0.1", "10.96.0.10",
		l.w.version, oldVersion, "amd64", "Server Core", "windows", "True", "False", "Unknown", l.address, l.name, api.GroupName + "/version",
	}
	for _, h := range l.w.honest {
		if words = append(words, h.address, h.address+"/24", remote.FormatHostKey(h.key)); h.isReady {
			words = append(words, h.name, strings.ToUpper(h.name), "system:node:"+h.name, api.WICDUserPrefix+h.name)
		}
	}
	for _, h := range l.received {
		words = append(words, h.token)
	}
	return words
}

// claims returns names and addresses that the host tries to obtain.
func (l *hostileHost) claims() (names, addresses []string) {
	names, addresses = []string{"pool-1", "pool-2", l.name, fmt.Sprint("worker-", l.n), fmt.Sprint("master-", l.n)}, []string{linuxAddress, "10.3.0.5", "10.96.0.1"}
	for _, h := range l.w.honest {
		if addresses = append(addresses, h.address); h.isReady {
			names = append(names, h.name)
		}
	}
	return names, addresses
}

// probability scales that of an action; a host with a tactic does little else.
func (l *hostileHost) probability(chance float64) float64 {
	if l.tactic != "" {
		return chance / 5
	}
	return chance
}

// hostileConnection is a connection on which the host lies, with at most one fault.
type hostileConnection struct {
	storyConnection
	l      *hostileHost
	target string
	fault  string
	id     uint64
	liar   *lies.Liar
}

func (l *hostileHost) connection(target string) *hostileConnection {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.w.connections++
	c := &hostileConnection{storyConnection: storyConnection{l.storyHost}, l: l, target: target, liar: lies.New(l.w.seed<<16^l.w.connections, wicdapi.Answers()...)}
	c.liar.Words = l.words()
	faults := []string{"hang", "trickle", "flood", "refuse", "no program", "break"}
	if c.id = l.w.connections; c.liar.Chance(l.probability(0.3)) {
		c.fault = faults[c.liar.IntN(len(faults))]
	}
	return c
}

// Put reads a file and discards it.
func (c *hostileConnection) Put(ctx context.Context, _ string, content io.Reader, _ int64) error {
	if c.fault == "hang" {
		<-ctx.Done()
		return ctx.Err()
	}
	_, err := io.Copy(io.Discard, content)
	return err
}

// Run answers with lies.
func (c *hostileConnection) Run(ctx context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	lost := &remote.Error{Kind: remote.Lost, Host: c.address, Err: errors.New("the connection broke")}
	switch c.fault {
	case "hang":
		<-ctx.Done()
		return lost
	case "trickle":
		for ctx.Err() == nil {
			if _, err := io.WriteString(stdout, "{"); err != nil {
				return lost
			}
			time.Sleep(time.Second)
		}
		return lost
	case "flood":
		line := []byte(strings.Repeat(c.liar.Text("0123456789abcdef"), 50) + "\n")
		for ctx.Err() == nil {
			if _, err := stdout.Write(line); err != nil {
				return lost
			}
			time.Sleep(100 * time.Millisecond)
		}
		return lost
	case "no program":
		_, _ = io.WriteString(stdout, c.liar.Text("is not recognized as an internal or external command")+"\n")
		return errors.New("exit status 1")
	case "break":
		return lost
	}
	if stdout == nil {
		return handleCommand(c, command, stdin, io.Discard)
	}
	out := c.liar.Writer(stdout, c.l.probability(0.35))
	err := handleCommand(c, command, stdin, out)
	return cmp.Or(err, out.Close())
}

func (c *hostileConnection) restart() error { return nil }

// facts returns the host's facts, at random with a claimed name or address.
func (c *hostileConnection) facts() wicdapi.Facts {
	f := c.storyHost.facts()
	if c.l.tactic == "restarts" {
		f.Host.BootID = fmt.Sprint("boot-", c.id)
	}
	names, addresses := c.l.claims()
	claims := map[string]float64{"": 0.2, "claims": 0.5}[c.l.tactic]
	if c.liar.Chance(claims) {
		f.Host.Hostname = names[c.liar.IntN(len(names))]
	}
	if c.liar.Chance(claims) {
		f.Host.Interfaces[0].Addresses = []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(addresses[c.liar.IntN(len(addresses))]), 24)}
	}
	if c.liar.Chance(c.l.probability(0.2)) {
		f.Joined = &wicdapi.Joined{Cluster: controllertest.ClusterID, Node: c.liar.Text(c.name), Version: c.liar.Text(c.story.version), HasCertificate: true}
	}
	return f
}

func (c *hostileConnection) receive(wicdapi.ReceiveRequest) {}

func (c *hostileConnection) reach(wicdapi.ReachRequest) wicdapi.ReachResult {
	return wicdapi.ReachResult{}
}

// join records the token, and may repeat it in later answers.
func (c *hostileConnection) join(r wicdapi.JoinRequest) (wicdapi.JoinResult, error) {
	c.l.w.checkSentToken(c.target, c.name, r.Bootstrap.Token)
	c.l.w.mu.Lock()
	c.l.received = append(c.l.received, received{r.Bootstrap.Token, r.Node, r.NodeIP})
	c.liar.Words = append(c.liar.Words, r.Bootstrap.Token, "Bearer "+r.Bootstrap.Token)
	c.l.w.mu.Unlock()
	switch c.l.tactic {
	case "restarts", "is about to restart":
		return wicdapi.JoinResult{Rebooting: "updates", BootID: c.facts().Host.BootID}, nil
	case "fails", "claims":
		return wicdapi.JoinResult{}, &wicdapi.Error{Code: wicdapi.CodeBusy, Message: "not now"}
	}
	if c.liar.Chance(0.3) {
		return wicdapi.JoinResult{}, &wicdapi.Error{Code: wicdapi.CodeServiceFailed, Message: c.liar.Text("service kubelet does not start") + ": " + r.Bootstrap.Token + c.liar.Text("")}
	}
	if c.liar.Chance(0.1) {
		return wicdapi.JoinResult{Rebooting: "because of " + r.Bootstrap.Token, BootID: c.liar.Text("1")}, nil
	}
	c.cluster, c.version = r.Cluster, r.Desired.Version
	return wicdapi.JoinResult{BootID: "1", Changed: []string{c.liar.Text("a file")}}, nil
}

func (c *hostileConnection) leave(wicdapi.LeaveRequest) (wicdapi.LeaveResult, error) {
	c.cluster, c.version = "", ""
	return wicdapi.LeaveResult{Removed: []string{c.liar.Text("a file")}}, nil
}

// act uses the host's tokens and node identity as an attacker does.
func (l *hostileHost) act() {
	w := l.w
	l.liar.Words = l.words()
	switch {
	case l.since.IsZero():
		if _, leaves := w.cache.objects["WindowsInstance"][controllertest.Key(l.place)]; !leaves && l.liar.Chance(0.1) {
			w.record("%s is announced at %s", l.name, l.place)
			l.since, l.obtained = time.Now(), map[string]bool{}
			w.announceEntry(l.place)
		}
		return
	case l.liar.Chance(0.003): // its user gives up, and retries later
		w.record("%s is no longer announced", l.name)
		delete(w.entries, l.place)
		w.putEntries()
		l.since = time.Time{}
		return
	}
	if len(l.received) > 0 && l.liar.Chance(0.2) {
		l.requestCertificate()
	}
	if l.identity != "" && l.liar.Chance(0.15) {
		l.writeNode()
	}
}

// requestCertificate creates a certificate request as one of the users that the host can authenticate as.
func (l *hostileHost) requestCertificate() {
	last := l.received[len(l.received)-1]
	if l.liar.Chance(0.3) {
		last = l.received[l.liar.IntN(len(l.received))]
	}
	user, node := bootstrapOf(last.token), last.node
	if l.identity != "" && l.liar.Chance(0.5) {
		user, node = []requester{kubeletOf(l.identity), wicdOf(l.identity)}[l.liar.IntN(2)], l.identity
	}
	name, addresses := node, []string{last.address}
	if l.liar.Chance(0.2) {
		node = l.liar.Text(node)
	}
	if l.liar.Chance(0.3) {
		name, addresses = l.liar.Text(name), append(addresses, l.liar.Words[l.liar.IntN(len(l.liar.Words))])
	}
	var wanted certificatesv1.CertificateSigningRequestSpec
	switch l.liar.IntN(4) {
	case 0:
		wanted = clientRequest("system:node:", node)
	case 1:
		wanted = clientRequest(api.WICDUserPrefix, node)
	default:
		wanted = servingRequest(node, name, addresses...)
	}
	if l.liar.Chance(0.3) {
		var lie certificatesv1.CertificateSigningRequestSpec
		if l.liar.Object(wanted, &lie) {
			wanted = lie
		}
	}
	l.requests = append(l.requests, l.w.createRequest(l.name, user, wanted))
	if len(l.requests) > pendingRequests { // as if the cluster had removed older ones
		if old := l.requests[0]; !l.w.isApproved(old) {
			l.w.drop("CertificateSigningRequest", client.ObjectKey{Name: old})
		}
		l.requests = l.requests[1:]
	}
}

// pendingRequests is the number of requests per liar that stay pending and are reconciled repeatedly.
const pendingRequests = 3

// writeNode writes the Node of the host's identity within its kubelet's rights: not the operator's labels, nor fields that affect scheduling.
func (l *hostileHost) writeNode() {
	w := l.w
	w.note("Node/" + l.identity)
	o, found := w.cache.objects["Node"][client.ObjectKey{Name: l.identity}]
	if !found {
		l.registerNode()
		return
	}
	before := o.(*corev1.Node)
	var node corev1.Node
	if !l.liar.Object(before, &node) {
		return
	}
	changed := before.DeepCopy()
	changed.Annotations, changed.Status = node.Annotations, node.Status
	maps.DeleteFunc(changed.Annotations, func(key, _ string) bool { return len(validation.IsQualifiedName(key)) > 0 })
	isOurs := func(key, _ string) bool { return strings.HasPrefix(key, api.GroupName) }
	maps.DeleteFunc(node.Labels, func(key, value string) bool {
		return isOurs(key, "") || len(validation.IsQualifiedName(key))+len(validation.IsValidLabelValue(value)) > 0
	})
	maps.DeleteFunc(changed.Labels, func(key, _ string) bool { return !isOurs(key, "") })
	changed.Labels = kube.Merge(changed.Labels, node.Labels)
	status := changed.Status
	w.must(w.client.Update(w.ctx, changed))
	changed.Status = status
	w.must(w.client.Status().Update(w.ctx, changed))
}

func (l *hostileHost) registerNode() {
	w := l.w
	l.registers++
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: l.identity, UID: types.UID(fmt.Sprintf("of-%s-%d", l.name, l.registers)), CreationTimestamp: metav1.Now(),
		Labels: map[string]string{corev1.LabelOSStable: "windows"}, Annotations: map[string]string{api.AnnotationVersion: w.version},
	}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: l.address}}
	node.Status.NodeInfo.OperatingSystem, node.Status.NodeInfo.BootID = "windows", "1"
	controllertest.SetNodeCondition(node, corev1.NodeReady, corev1.ConditionTrue, "")
	status := node.Status
	w.must(w.client.Create(w.ctx, node))
	node.Status = status
	w.must(w.client.Status().Update(w.ctx, node))
	w.record("%s registers Node %s", l.name, node.Name)
	w.notifyNode(w.node(node.Name), l.name)
}
