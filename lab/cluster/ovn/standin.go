//go:build linux

package ovn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// retryInterval is how often the stand-in retries to find a free subnet. In the recordings, the cluster manager found one within 45 s.
const retryInterval = 30 * time.Second

// A standIn is the backend that simulates the programs in this process.
type standIn struct {
	clients kubernetes.Interface
	out     io.Writer
	retry   time.Duration
	guard   atomic.Pointer[Guard]
	webhook *http.Server
	all     context.Context
	endAll  context.CancelFunc

	mu      sync.Mutex
	end     context.CancelFunc // of the cluster manager
	running *sync.WaitGroup
	failure error
	logged  strings.Builder
}

func newStandIn(clients kubernetes.Interface, server *webhookServer, o Options) *standIn {
	s := &standIn{clients: clients, out: o.Log, retry: cmp.Or(o.Retry, retryInterval), running: &sync.WaitGroup{}}
	s.all, s.endAll = context.WithCancel(context.Background())
	s.guard.Store(&Guard{HybridOverlay: true})
	s.webhook = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.guard.Load().ServeHTTP(w, r) }),
		ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
	}
	pair, err := tls.X509KeyPair(server.cert, server.key)
	if err != nil {
		s.logf("reading the webhook's certificate: %v", err)
	}
	s.webhook.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	go func() {
		if err := s.webhook.ServeTLS(server, "", ""); !errors.Is(err, http.ErrServerClosed) {
			s.logf("the webhook ended: %v", err)
		}
	}()
	go RunApprover(s.all, clients, Decide, func(err error) { s.logf("%v", err) })
	return s
}

func (s *standIn) logf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	fmt.Fprintln(&s.logged, text)
	fmt.Fprintln(s.out, "OVN-Kubernetes:", text)
}

func (s *standIn) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logged.String()
}

func (s *standIn) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

func (s *standIn) stop() {
	s.stopManager()
	s.endAll()
	_ = s.webhook.Close()
}

func (s *standIn) stopManager() {
	s.mu.Lock()
	end := s.end
	s.mu.Unlock()
	if end != nil {
		end()
		s.running.Wait()
	}
}

func (s *standIn) configure(ctx context.Context, conf string, flags []string, hybridOverlay bool) error {
	s.stopManager()
	s.guard.Store(&Guard{HybridOverlay: hybridOverlay})
	err := s.startManager(ctx, conf, flags)
	s.mu.Lock()
	s.failure = err
	s.mu.Unlock()
	return err
}

func (s *standIn) startManager(ctx context.Context, conf string, flags []string) error {
	c, err := ParseConfig(conf, flags...)
	if err != nil {
		return err
	}
	list, err := s.clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	m, err := NewManager(c, list.Items)
	if err != nil {
		return err
	}
	running, end := context.WithCancel(s.all)
	s.mu.Lock()
	s.end = end
	s.mu.Unlock()
	s.running.Go(func() { s.manage(running, m) })
	return nil
}

// manage syncs Nodes until ctx is done or the cluster manager fails.
func (s *standIn) manage(ctx context.Context, m *Manager) {
	err := followNodes(ctx, s.clients, make(signal, 1), s.retry, func(all []*corev1.Node, retry bool) error {
		var nodes []corev1.Node
		for _, n := range all {
			nodes = append(nodes, *n)
		}
		changed, err := m.Sync(nodes, retry)
		for name, changes := range changed {
			if err := annotate(ctx, s.clients, name, changes); err != nil && ctx.Err() == nil {
				s.logf("%v", err) // the next change of the Node leads to a retry
			}
		}
		return err
	})
	if err != nil {
		s.logf("the cluster manager exited: %v", err)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failure = err
	}
}

// RunApprover watches certificate requests until ctx is done, and approves or denies them according to decide. It calls failed
// with errors of the API server.
func RunApprover(
	ctx context.Context, clients kubernetes.Interface, decide func(*certificatesv1.CertificateSigningRequest) (Verdict, string), failed func(error),
) {
	requests := informers.NewSharedInformerFactory(clients, 0).Certificates().V1().CertificateSigningRequests().Informer()
	handle := func(o any) {
		r, ok := o.(*certificatesv1.CertificateSigningRequest)
		if !ok {
			return
		}
		verdict, reason := decide(r)
		condition := certificatesv1.CertificateSigningRequestCondition{Status: corev1.ConditionTrue}
		switch verdict {
		case Approved:
			condition.Type, condition.Reason, condition.Message = certificatesv1.CertificateApproved, "AutoApproved", "requested by the node"
		case Denied:
			condition.Type, condition.Reason, condition.Message = certificatesv1.CertificateDenied, "CSRDenied", reason
		default:
			return
		}
		r = r.DeepCopy()
		r.Status.Conditions = append(r.Status.Conditions, condition)
		_, err := clients.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, r.Name, r, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			failed(fmt.Errorf("updating the approval of certificate request %s: %w", r.Name, err))
		}
	}
	if _, err := requests.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: handle, UpdateFunc: func(_, o any) { handle(o) }}); err != nil {
		failed(err)
		return
	}
	requests.RunWithContext(ctx)
}
