package podnetwork

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/apiclient"
	"github.com/windows-machine-config/wmco/internal/node/kubeproxy"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

const (
	// evidenceTimeout limits all queries of one pass, queryInterval is the pause between queries.
	evidenceTimeout = 15 * time.Second
	queryInterval   = 5 * time.Second
	// maxQueried is the maximum number of Services that are queried when more have lost their load balancers.
	maxQueried = 20
	// pageSize is the number of objects in one page, maxPages the maximum number of pages.
	pageSize = 500
	maxPages = 200
)

// queries are sent to the API server and Windows before a repair: WICD's watches may lag behind those of kube-proxy, and Windows may not
// list all of its objects.
type queries struct {
	// lost are load balancers that seem lost, with their Services; onHost are the endpoints from which they were computed.
	lost   map[kubeproxy.Frontend]types.NamespacedName
	onHost kubeproxy.Presence
	// owners requests all addresses of Services and EndpointSlices.
	owners bool
	// readObjects requests each of Windows' objects individually, and these endpoints by ID.
	readObjects bool
	endpoints   []string
}

func (q queries) hasAny() bool { return len(q.lost) > 0 || q.owners }

// evidence has the results of queries.
type evidence struct {
	// lost are the load balancers that kube-proxy must have created; nil if that was not queried.
	lost map[kubeproxy.Frontend]bool
	// first is another Node that has the same loss since an earlier time, or since the same time and has the lower name; empty if there is none.
	first string
	// owned are the addresses of Services and EndpointSlices; nil if that was not queried.
	owned *frontends
	err   error
}

// errNotReported means that this Node does not report its own loss yet, so that other nodes cannot see it.
var errNotReported = errors.New("the Node does not report the loss yet")

// clusterReader queries the API server.
type clusterReader struct {
	client *apiclient.Client
	node   string
	// known is what the watches have delivered.
	known *frontends
}

func (a clusterReader) query(ctx context.Context, q queries) *evidence {
	ctx, cancel := context.WithTimeout(ctx, evidenceTimeout)
	defer cancel()
	e := &evidence{}
	if len(q.lost) > 0 {
		e.lost, e.err = a.confirm(ctx, q.lost, q.onHost)
		if e.err == nil {
			e.first, e.err = a.findPrecedingNode(ctx, q.lost)
		}
	}
	if q.owners && e.err == nil {
		e.owned, e.err = a.listOwned(ctx)
	}
	return e
}

// confirm re-reads the Services, a sample if there are many, and returns which load balancers are required. One whose Service or EndpointSlices
// have other versions than WICD's watches have delivered is not confirmed, because kube-proxy may be ahead of WICD.
func (a clusterReader) confirm(ctx context.Context, lost map[kubeproxy.Frontend]types.NamespacedName, onHost kubeproxy.Presence) (map[kubeproxy.Frontend]bool, error) {
	names := slices.SortedFunc(maps.Values(lost), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	names = slices.Compact(names)
	sample := names[:min(len(names), maxQueried)]
	needed, refuted := map[kubeproxy.Frontend]bool{}, false
	for _, name := range sample {
		balancers, isKnown, err := a.balancersOf(ctx, name, onHost)
		if err != nil {
			return nil, fmt.Errorf("reading Service %s: %w", name, err)
		}
		for front, owner := range lost {
			if owner == name {
				needed[front] = isKnown && slices.ContainsFunc(balancers, func(b kubeproxy.Balancer) bool { return b.Frontend == front && b.Certain })
				refuted = refuted || !needed[front]
			}
		}
	}
	for front := range lost {
		if _, isSampled := needed[front]; !isSampled {
			needed[front] = !refuted
		}
	}
	return needed, nil
}

func (a clusterReader) balancersOf(ctx context.Context, name types.NamespacedName, onHost kubeproxy.Presence) (all []kubeproxy.Balancer, isKnown bool, err error) {
	var services corev1.ServiceList
	namespace := "/namespaces/" + url.PathEscape(name.Namespace)
	query := url.Values{"fieldSelector": {"metadata.name=" + name.Name}}
	if err := a.client.Get(ctx, "/api/v1"+namespace+"/services", query, &services); err != nil || len(services.Items) == 0 {
		return nil, false, err
	}
	var endpoints discoveryv1.EndpointSliceList
	query = url.Values{"labelSelector": {discoveryv1.LabelServiceName + "=" + name.Name}}
	if err := a.client.Get(ctx, "/apis/discovery.k8s.io/v1"+namespace+"/endpointslices", query, &endpoints); err != nil {
		return nil, false, err
	}
	versions := map[string]string{"": services.Items[0].ResourceVersion}
	var read []kubeproxy.EndpointSlice
	for i := range endpoints.Items {
		e := &endpoints.Items[i]
		versions[e.Name] = e.ResourceVersion
		read = append(read, kubeproxy.ReadEndpointSlice(e, a.node))
	}
	return kubeproxy.ReadService(&services.Items[0]).Balancers(read, onHost), a.known.isCurrent(name, versions), nil
}

// findPrecedingNode returns another Windows Node that reports the same loss and has precedence, so that one node at a time tries a restart.
// If that does not help, the cause is shared, and no other node tries.
func (a clusterReader) findPrecedingNode(ctx context.Context, lost map[kubeproxy.Frontend]types.NamespacedName) (string, error) {
	var own *corev1.NodeCondition
	others := map[string]corev1.NodeCondition{}
	query := url.Values{"labelSelector": {corev1.LabelOSStable + "=windows"}}
	err := pages(query, func(query url.Values) (string, error) {
		var nodes corev1.NodeList
		err := a.client.Get(ctx, "/api/v1/nodes", query, &nodes)
		for i := range nodes.Items {
			c := nodestate.Condition(&nodes.Items[i], api.ConditionWindowsNetworkUnavailable)
			switch {
			case c == nil || c.Status != corev1.ConditionTrue || c.Reason != api.ReasonLoadBalancersLost:
			case nodes.Items[i].Name == a.node:
				own = c
			default:
				others[nodes.Items[i].Name] = *c
			}
		}
		return nodes.Continue, err
	})
	if err != nil {
		return "", fmt.Errorf("reading the Nodes: %w", err)
	}
	if own == nil {
		return "", errNotReported
	}
	return precedingNode(a.node, *own, others, lost), nil
}

// precedingNode returns the first other Node that lost load balancers of one of the Services before this one.
func precedingNode(node string, own corev1.NodeCondition, others map[string]corev1.NodeCondition, lost map[kubeproxy.Frontend]types.NamespacedName) string {
	for _, name := range slices.Sorted(maps.Keys(others)) {
		c := others[name]
		isBefore := cmp.Or(c.LastTransitionTime.Compare(own.LastTransitionTime.Time), strings.Compare(name, node)) < 0
		if isBefore && namesOneOf(c.Message, lost) {
			return name
		}
	}
	return ""
}

// omitsSome matches the end of a list that does not name all losses (truncate.List).
var omitsSome = regexp.MustCompile(` and \d+ more`)

// namesOneOf reports whether a message names one of the load balancers. A message that names only some of its losses may mean any.
func namesOneOf(message string, lost map[kubeproxy.Frontend]types.NamespacedName) bool {
	if omitsSome.MatchString(message) {
		return true
	}
	for front, service := range lost {
		if strings.Contains(message, nameOf(front, service)) {
			return true
		}
	}
	return false
}

// listOwned returns the addresses of all Services and EndpointSlices.
func (a clusterReader) listOwned(ctx context.Context) (*frontends, error) {
	f := newFrontends(a.node)
	err := pages(url.Values{}, func(query url.Values) (string, error) {
		var services corev1.ServiceList
		err := a.client.Get(ctx, servicesPath, query, &services)
		for i := range services.Items {
			f.readService(&services.Items[i], time.Time{})
		}
		return services.Continue, err
	})
	if err == nil {
		err = pages(url.Values{}, func(query url.Values) (string, error) {
			var endpoints discoveryv1.EndpointSliceList
			err := a.client.Get(ctx, slicesPath, query, &endpoints)
			for i := range endpoints.Items {
				f.readSlice(&endpoints.Items[i], time.Time{})
			}
			return endpoints.Continue, err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("reading Services and EndpointSlices: %w", err)
	}
	return f, nil
}

// pages reads all pages of a list.
func pages(query url.Values, read func(url.Values) (next string, err error)) error {
	query.Set("limit", strconv.Itoa(pageSize))
	for range maxPages {
		next, err := read(query)
		if err != nil || next == "" {
			return err
		}
		query.Set("continue", next)
	}
	return fmt.Errorf("there are more than %d objects", pageSize*maxPages)
}

// query queries the API server; it returns nil if the last query was less than queryInterval ago.
func (n *reconciliation) query(ctx context.Context, q queries) *evidence {
	if time.Since(n.lastQuery) < queryInterval {
		return nil
	}
	n.mu.Lock()
	client := n.client
	n.mu.Unlock()
	if client == nil {
		return &evidence{err: errNoClient}
	}
	e := clusterReader{client, n.Record.Node, n.frontends}.query(ctx, q)
	if !errors.Is(e.err, errNotReported) {
		n.lastQuery = time.Now()
	}
	return e
}

// errNoClient means that WICD has no certificate for the API server yet.
var errNoClient = errors.New("not connected to the API server")
