package daemontest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

// Paths of the cluster.
const (
	NodePath     = "/api/v1/nodes/win-1"
	RequestsPath = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
)

// Options describe a member.
type Options struct {
	// Windows are the options of its host. WICD runs beside it, unless its service has a program.
	Windows sim.WindowsOptions
	// Heartbeat is the interval of its kubelet.
	Heartbeat time.Duration
	// Payload is the content that it receives; NewPayload("1") if nil.
	Payload *Payload
	// Prepare changes cluster, host and request before the host joins; may be nil.
	Prepare func(*Member)
}

// Member is a host with the service running, and its cluster.
type Member struct {
	Cluster *servers.Cluster
	Windows *sim.Windows
	Request wicdapi.JoinRequest
	// Serial is the serial of the last published settings.
	Serial int64
	// Dial is WICD's network if it differs from the host's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Stop stops the service.
	Stop func()

	mu  sync.Mutex
	log bytes.Buffer
}

// Write implements io.Writer for the log.
func (m *Member) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.Write(p)
}

// Log returns the service's log.
func (m *Member) Log() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.String()
}

// ClearLog forgets the log.
func (m *Member) ClearLog() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log.Reset()
}

// NewMember joins a host to a new cluster, and starts its service. The cluster is for tests with simulated time, too.
func NewMember(t *testing.T, o Options) *Member {
	t.Helper()
	cluster, err := servers.NewIsolatedCluster()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	if o.Payload == nil {
		o.Payload = NewPayload("1")
	}
	m := &Member{Cluster: cluster, Stop: func() {}, Request: NewRequest(o.Payload)}
	m.Request.Bootstrap = wicdapi.Bootstrap{Server: cluster.URL, CA: cluster.CA, Token: cluster.Token}
	programs := map[string]sim.Program{"kubelet": sim.KubeletOptions{Heartbeat: o.Heartbeat}.Program()}
	maps.Copy(programs, o.Windows.Programs)
	o.Windows.Programs, o.Windows.Dial, o.Windows.RestartDelay = programs, cluster.Dial, cmp.Or(o.Windows.RestartDelay, 100*time.Millisecond)
	o.Windows.NoOperator = true
	m.Windows = NewWindows(t, o.Windows)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(m.Log())
		}
	})
	if o.Prepare != nil {
		o.Prepare(m)
	}
	MustSend(t, m.Windows, o.Payload)
	MustJoin(t, m.Windows, m.Request)
	if programs[api.WICDService] == nil {
		m.Start(t)
	}
	return m
}

// NewFollower does the same, and waits until the node has reported its version, and so follows the published settings.
func NewFollower(t *testing.T, o Options) *Member {
	t.Helper()
	m := NewMember(t, o)
	m.AssignPodCIDR(t)
	m.AwaitVersion(t)
	return m
}

// NewIsolated does the same in simulated time. noQuirks is the reason for a Windows without quirks, or empty.
func NewIsolated(t *testing.T, noQuirks string) *Member {
	t.Helper()
	return NewFollower(t, Options{Windows: sim.WindowsOptions{RestartDelay: Never, NoQuirks: noQuirks}, Heartbeat: 5 * time.Minute})
}

// Start runs the service.
func (m *Member) Start(t *testing.T) {
	t.Helper()
	host := m.Windows.Host()
	if m.Dial != nil {
		host.Dial = m.Dial
	}
	m.Stop = start(t, func(ctx context.Context) {
		daemon.Run(ctx, host, daemon.RunOptions{Log: slog.New(slog.NewJSONHandler(m, nil))})
	})
}

// Restart restarts Windows, and waits for a minute.
func (m *Member) Restart(t *testing.T) {
	t.Helper()
	m.Stop()
	m.Windows.Restart()
	m.Start(t)
	time.Sleep(time.Minute)
}

// Node returns the host's Node.
func (m *Member) Node() (n corev1.Node) {
	m.Cluster.Get(NodePath, &n)
	return n
}

// Annotate writes annotations of the Node; nil removes one.
func (m *Member) Annotate(annotations map[string]any) {
	m.Cluster.Patch(NodePath, map[string]any{"metadata": map[string]any{"annotations": annotations}})
}

// AssignPodCIDR waits for the node, and assigns its pod addresses.
func (m *Member) AssignPodCIDR(t *testing.T) {
	t.Helper()
	Await(t, "the node is registered", func() bool { return m.Node().Name != "" })
	m.Cluster.Patch(NodePath, map[string]any{"spec": map[string]any{"podCIDR": "10.132.7.0/24"}})
}

// AwaitVersion waits until the node reports the version of the request.
func (m *Member) AwaitVersion(t *testing.T) {
	t.Helper()
	m.AwaitAnnotation(t, api.AnnotationVersion, m.Request.Desired.Version)
}

// AwaitAnnotation waits until an annotation of the Node has a value.
func (m *Member) AwaitAnnotation(t *testing.T, name, value string) {
	t.Helper()
	Await(t, name+" is "+value, func() bool { return m.Node().Annotations[name] == value })
}

// Condition returns the Node's condition of a type; empty if there is none.
func (m *Member) Condition(kind corev1.NodeConditionType) (c corev1.NodeCondition) {
	node := m.Node()
	if c := nodestate.Condition(&node, kind); c != nil {
		return *c
	}
	return c
}

// Notes returns the notes of the Node's events with a reason.
func (m *Member) Notes(reason string) (notes []string) {
	for _, e := range m.Events() {
		if e.Reason == reason && e.Regarding.Name == "win-1" {
			notes = append(notes, e.Note)
		}
	}
	return notes
}

// Events returns all events of the cluster.
func (m *Member) Events() (events []eventsv1.Event) {
	for _, path := range m.Cluster.Paths() {
		var e eventsv1.Event
		if strings.Contains(path, "/events/") && m.Cluster.Get(path, &e) {
			events = append(events, e)
		}
	}
	return events
}

// AwaitNote waits for an event of the Node with a text in its note.
func (m *Member) AwaitNote(t *testing.T, reason, text string) {
	t.Helper()
	Await(t, fmt.Sprintf("an event %s says %q", reason, text), func() bool {
		return slices.ContainsFunc(m.Notes(reason), func(note string) bool { return strings.Contains(note, text) })
	})
}

// AwaitLog waits until the log contains a text, and clears it.
func (m *Member) AwaitLog(t *testing.T, text string) {
	t.Helper()
	Await(t, "the log says "+text, func() bool { return strings.Contains(m.Log(), text) })
	m.ClearLog()
}
