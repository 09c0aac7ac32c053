package podpolicy

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/apiclient"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/kubeapi"
	"github.com/windows-machine-config/wmco/internal/shared/policyset"
)

const (
	// unusedFor is how long the set of a namespace without pods is kept: the kubelet can create the sandbox of a pod again while the API
	// server is away.
	unusedFor = 10 * time.Minute
	// currentWithin is how long a new pod waits for the API server if the set of its namespace is only known from the disk.
	currentWithin = 2 * time.Second
)

// The name of a set's file is prefix, namespace and suffix: Windows reserves names such as con, even with an extension.
const filePrefix, fileSuffix = "ns-", ".json"

// namespaceName matches the names of namespaces (DNS labels).
var namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// errNoClient means that WICD has no certificate for the API server yet.
var errNoClient = errors.New("WICD is not connected to the API server")

// namespaceSet is what is known of the policies of a namespace.
type namespaceSet struct {
	set policyset.Set
	// known is false until the set was read once, from the API server or the disk. failure is why it was not read.
	known   bool
	failure error
	// invalid is why the set closes all pods: its text is not a valid set.
	invalid error
	// since is when the set was first needed, and arrived when it last changed; zero once that is in force.
	since, arrived time.Time
}

// entry is a namespace whose set is followed.
type entry struct {
	namespaceSet
	namespace string
	hash      [sha256.Size]byte
	// unsaved is the text that could not be written to the disk; nil if none.
	unsaved *string
	// needed is when the host last had a pod in the namespace.
	needed time.Time
	// current is closed once the API server was read in this session.
	current  chan struct{}
	once     sync.Once
	follower kubeapi.Follower[string]
}

// sets are the sets of the namespaces with pods on this host. It is safe for concurrent use.
type sets struct {
	disk hostapi.Disk
	log  *slog.Logger
	// publishedIn is the operator's namespace, and path the collection of the sets in it.
	publishedIn, path string
	// changed is called when a set has changed.
	changed func()
	// added wakes follow.
	added state.Signal

	// files is held during changes of files, so that each has the newest text. It is taken before mu.
	files sync.Mutex
	mu    sync.Mutex
	of    map[string]*entry
	// connected is true while there is a client.
	connected bool
}

func newSets(s state.Session, changed func()) *sets {
	return &sets{
		disk: s.Host.Disk, log: s.Log, changed: changed, added: state.NewSignal(), of: map[string]*entry{},
		publishedIn: s.Record.Namespace,
		path:        "/apis/" + api.GroupName + "/v1alpha1/namespaces/" + url.PathEscape(s.Record.Namespace) + "/windowspolicysets",
	}
}

func fileOf(namespace string) string {
	return state.PolicySets + `\` + filePrefix + namespace + fileSuffix
}

// load reads all stored sets.
func (s *sets) load() error {
	names, err := s.disk.List(state.PolicySets)
	if err != nil {
		return fmt.Errorf("listing %s: %w", state.PolicySets, err)
	}
	for _, name := range names {
		namespace := strings.TrimSuffix(strings.TrimPrefix(name, filePrefix), fileSuffix)
		if namespaceName.MatchString(namespace) && fileOf(namespace) == state.PolicySets+`\`+name {
			s.need(namespace)
		}
	}
	return nil
}

// removeAll removes all stored sets.
func (s *sets) removeAll() error { return s.disk.RemoveAll(state.PolicySets) }

// need returns the entry of a namespace, which begins with the stored set if there is one.
func (s *sets) need(namespace string) *entry {
	s.mu.Lock()
	e := s.of[namespace]
	if e != nil {
		e.needed = time.Now()
	}
	s.mu.Unlock()
	if e != nil {
		return e
	}
	s.files.Lock()
	defer s.files.Unlock()
	text, err := s.disk.ReadAtMost(fileOf(namespace), policyset.MaxSize+1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.of[namespace]; e != nil {
		return e
	}
	now := time.Now()
	e = &entry{namespace: namespace, namespaceSet: namespaceSet{since: now}, needed: now, current: make(chan struct{})}
	e.follower = kubeapi.Follower[string]{
		Path: s.path, Kind: "WindowsPolicySet " + namespace, Name: namespace, Read: readSet, Store: store{s, e}, Log: s.log,
		Failed: func(err error) { s.fail(e, err) },
	}
	if err == nil {
		e.read(string(text))
	}
	s.of[namespace] = e
	s.added.Send()
	return e
}

// readSet returns the text of the set in a WindowsPolicySet; an object without one yields an empty text, which is not a valid set, so that all its pods are denied.
func readSet(object json.RawMessage) (string, error) {
	var o struct {
		Spec struct {
			Set string `json:"set"`
		} `json:"spec"`
	}
	if json.Unmarshal(object, &o) != nil {
		return "", nil
	}
	return o.Spec.Set, nil
}

// read takes over a text, and reports whether it is new.
func (e *entry) read(text string) (isNew bool) {
	hash := sha256.Sum256([]byte(text))
	if e.known && e.hash == hash {
		return false
	}
	e.set, e.invalid = policyset.Decode(e.namespace, []byte(text))
	e.known, e.hash = true, hash
	return true
}

// put stores what the API server says of a namespace: the text of its set, or that it has none, which means that it has no policies.
func (s *sets) put(e *entry, text string, exists bool) {
	if !exists {
		none, err := policyset.Encode(policyset.Set{Namespace: e.namespace})
		if err != nil { // not for a valid name
			s.log.Error("Encoding the set of a namespace without policies failed", "namespace", e.namespace, "error", err.Error())
		}
		text = string(none)
	}
	text = text[:min(len(text), policyset.MaxSize+1)] // a longer text is not a valid set either
	s.files.Lock()
	defer s.files.Unlock()
	s.mu.Lock()
	isCurrent := s.of[e.namespace] == e
	s.mu.Unlock()
	if !isCurrent {
		return
	}
	unsaved := s.save(e, text)
	s.mu.Lock()
	isNew := e.read(text)
	if isNew {
		e.arrived = time.Now()
	}
	e.failure, e.unsaved = nil, unsaved
	s.mu.Unlock()
	e.once.Do(func() { close(e.current) })
	if isNew {
		s.changed()
	}
}

// save writes the file of a namespace. It returns the text if that fails, to be written later: the set is in force regardless.
func (s *sets) save(e *entry, text string) (unsaved *string) {
	if _, err := s.disk.WriteFile(fileOf(e.namespace), text); err != nil {
		s.log.Error("Storing the policies of a namespace failed; they are in force until WICD ends", "namespace", e.namespace, "error", err.Error())
		return &text
	}
	return nil
}

func (s *sets) fail(e *entry, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.failure = err
}

// store passes one namespace's objects on. It implements kubeapi.Store.
type store struct {
	sets  *sets
	entry *entry
}

// Replace implements kubeapi.Store.
func (s store) Replace(all map[types.NamespacedName]string) {
	for key, text := range all {
		if key.Name == s.entry.namespace {
			s.sets.put(s.entry, text, true)
			return
		}
	}
	s.sets.put(s.entry, "", false)
}

// Put implements kubeapi.Store.
func (s store) Put(key types.NamespacedName, text string) {
	if key.Name == s.entry.namespace {
		s.sets.put(s.entry, text, true)
	}
}

// Remove implements kubeapi.Store.
func (s store) Remove(key types.NamespacedName) {
	if key.Name == s.entry.namespace {
		s.sets.put(s.entry, "", false)
	}
}

// keep follows the sets of exactly these namespaces, and of those that had a pod recently. It removes the files of others.
func (s *sets) keep(namespaces map[string]bool) error {
	for namespace := range namespaces {
		s.need(namespace)
	}
	s.files.Lock()
	defer s.files.Unlock()
	var obsolete []string
	unsaved := map[*entry]string{}
	s.mu.Lock()
	for namespace, e := range s.of {
		switch {
		case time.Since(e.needed) > unusedFor:
			obsolete = append(obsolete, namespace)
			delete(s.of, namespace)
		case e.unsaved != nil:
			unsaved[e] = *e.unsaved
		}
	}
	s.mu.Unlock()
	for e, text := range unsaved {
		again := s.save(e, text)
		s.mu.Lock()
		e.unsaved = again
		s.mu.Unlock()
	}
	var errs []error
	for _, namespace := range obsolete {
		errs = append(errs, s.disk.Remove(fileOf(namespace)))
	}
	if len(obsolete) > 0 {
		s.added.Send()
	}
	return errors.Join(errs...)
}

// snapshot returns what is known of each namespace.
func (s *sets) snapshot() map[string]namespaceSet {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]namespaceSet{}
	for namespace, e := range s.of {
		known := e.namespaceSet
		if !e.known && !s.connected {
			known.failure = errNoClient
		}
		all[namespace] = known
	}
	return all
}

// isInForce records that what arrived at a time is in force, and returns how long that took; ok is false if something arrived later.
func (s *sets) isInForce(namespace string, arrived time.Time) (took time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.of[namespace]
	if e == nil || e.arrived.IsZero() || !e.arrived.Equal(arrived) {
		return 0, false
	}
	e.arrived = time.Time{}
	return time.Since(arrived), true
}

// await waits until the set of a namespace was read from the API server. If that takes long or fails, a stored set suffices.
func (s *sets) await(ctx context.Context, namespace string) error {
	e := s.need(namespace)
	known, failure := s.stateOf(e)
	if known && failure != nil {
		return nil
	}
	var late <-chan time.Time
	if known {
		late = time.After(currentWithin)
	}
	select {
	case <-e.current:
		return nil
	case <-late:
		return nil
	case <-ctx.Done():
	}
	if _, failure = s.stateOf(e); failure == nil {
		failure = ctx.Err()
	}
	return fmt.Errorf("the policies of namespace %s are unknown, because WindowsPolicySet %s in namespace %s could not be read: %w",
		namespace, namespace, s.publishedIn, failure)
}

// stateOf returns whether a set was read, and why it cannot be read from the API server at the moment.
func (s *sets) stateOf(e *entry) (known bool, failure error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.connected {
		return e.known, errNoClient
	}
	return e.known, e.failure
}

// follow follows the sets until ctx is done.
func (s *sets) follow(ctx context.Context, client *apiclient.Client) {
	s.setConnected(true)
	defer s.setConnected(false)
	var work sync.WaitGroup
	defer work.Wait()
	running := map[*entry]context.CancelFunc{}
	for ctx.Err() == nil {
		s.mu.Lock()
		wanted := maps.Clone(s.of)
		s.mu.Unlock()
		for e, stop := range running {
			if wanted[e.namespace] != e {
				stop()
				delete(running, e)
			}
		}
		for _, e := range wanted {
			if running[e] != nil {
				continue
			}
			each, stop := context.WithCancel(ctx)
			running[e] = stop
			work.Go(func() { _ = e.follower.Run(each, client.Client) }) // the watch of the Node notices that the certificate is rejected
		}
		select {
		case <-ctx.Done():
		case <-s.added:
		}
	}
	for _, stop := range running {
		stop()
	}
}

func (s *sets) setConnected(connected bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connected = connected
}
