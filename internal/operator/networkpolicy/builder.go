package networkpolicy

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/windows-machine-config/wmco/internal/shared/policyset"
)

// Minimum sizes in the encoding, in bytes: of an element of an address list, of a rule, and of a policy's index in a pod.
const (
	minPrefix = len(`"1.1.1.1/8",`)
	minRule   = len(`{"peers":0,"anyPort":true},`)
	minIndex  = len(`1,`)
)

// builder collects the policies of a namespace in a set. It stores nothing more when the set is certainly too large, so that memory is
// bounded.
type builder struct {
	stock *inventory
	set   policyset.Set
	pods  map[int]*policyset.Pod
	lists map[string]int // indexes in set.Addresses, by content
	size  int            // lower bound of the size of the encoding, in bytes
}

func newBuilder(stock *inventory, namespace string) *builder {
	b := &builder{stock: stock, set: policyset.Set{Namespace: namespace}, pods: map[int]*policyset.Pod{}, lists: map[string]int{}}
	for i := stock.spans[namespace].first; i < stock.spans[namespace].end; i++ {
		if p := stock.pods[i]; p.isListed {
			b.pods[i] = &policyset.Pod{Name: p.name, UID: p.uid}
		}
	}
	return b
}

func (b *builder) isFull() bool { return b.size > policyset.MaxSize }

// add adds a policy, unless it selects no pod on a Windows node, and returns its problems.
func (b *builder) add(p *networkingv1.NetworkPolicy) []Problem {
	t := &translator{stock: b.stock, policy: p}
	isolates := t.isolates()
	b.set.Unlisted.Ingress = b.set.Unlisted.Ingress || isolates.Ingress
	b.set.Unlisted.Egress = b.set.Unlisted.Egress || isolates.Egress
	selects, ok := t.selects()
	var selected []int
	for i := range selects.all() {
		if b.pods[i] != nil {
			selected = append(selected, i)
		}
	}
	t.skip = func() bool { return len(selected) == 0 || b.isFull() }
	policy := policyset.Policy{Name: p.Name, Isolates: isolates}
	if ok && isolates.Ingress {
		t.emit = b.into(&policy.Ingress)
		t.ingress()
	}
	if ok && isolates.Egress {
		t.emit = b.into(&policy.Egress)
		t.egress()
	}
	b.store(policy, selected)
	return t.problems()
}

// into returns a function that adds rules to a list.
func (b *builder) into(rules *[]policyset.Rule) func(rule) {
	return func(r rule) {
		if b.isFull() {
			return
		}
		added := policyset.Rule{AnyPeer: r.anyPeer, AnyPort: r.anyPort, Ports: r.ports}
		if !r.anyPeer {
			added.Peers = new(b.list(r.peers))
		}
		*rules = append(*rules, added)
		b.size += minRule
	}
}

// list returns the index of an address list. Rules with the same addresses share one.
func (b *builder) list(ranges []policyset.Range) int {
	var key []byte
	for _, r := range ranges {
		key = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(key, r.First), r.Last)
	}
	i, known := b.lists[string(key)]
	if !known {
		i = len(b.set.Addresses)
		b.lists[string(key)] = i
		b.set.Addresses = append(b.set.Addresses, policyset.Prefixes(ranges))
		b.size += len(b.set.Addresses[i]) * minPrefix
	}
	return i
}

func (b *builder) store(policy policyset.Policy, selected []int) {
	if len(selected) == 0 || b.isFull() {
		return
	}
	for _, rules := range []*[]policyset.Rule{&policy.Ingress, &policy.Egress} {
		slices.SortFunc(*rules, b.compareRules)
		*rules = slices.CompactFunc(*rules, func(x, y policyset.Rule) bool { return b.compareRules(x, y) == 0 })
	}
	referred := map[portName]bool{}
	for _, r := range policy.Ingress {
		for _, port := range r.Ports {
			referred[portName{port.Name, port.Protocol}] = true
		}
	}
	for _, i := range selected {
		pod := b.pods[i]
		pod.Policies = append(pod.Policies, len(b.set.Policies))
		for _, port := range b.stock.pods[i].ports {
			if referred[portName{port.Name, port.Protocol}] && !slices.Contains(pod.Ports, port) {
				pod.Ports = append(pod.Ports, port)
			}
		}
	}
	b.set.Policies = append(b.set.Policies, policy)
	b.size += len(selected) * minIndex
}

// compareRules orders rules by what they allow, independently of the order in which their lists were added.
func (b *builder) compareRules(x, y policyset.Rule) int {
	peers := 0
	switch {
	case x.AnyPeer || y.AnyPeer:
		peers = compareBools(x.AnyPeer, y.AnyPeer)
	case *x.Peers != *y.Peers:
		peers = slices.CompareFunc(b.set.Addresses[*x.Peers], b.set.Addresses[*y.Peers], netip.Prefix.Compare)
	}
	return cmp.Or(peers, compareBools(x.AnyPort, y.AnyPort), slices.CompareFunc(x.Ports, y.Ports, comparePorts))
}

// compareBools orders true before false.
func compareBools(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}

// build returns the set. Its lists are in the order of their use.
func (b *builder) build() policyset.Set {
	if b.isFull() {
		return policyset.Set{Namespace: b.set.Namespace, Unlisted: b.set.Unlisted, Omitted: b.size}
	}
	lists, renumbered := b.set.Addresses, map[int]int{}
	b.set.Addresses = nil
	for _, p := range b.set.Policies {
		for _, r := range slices.Concat(p.Ingress, p.Egress) {
			if r.Peers == nil {
				continue
			}
			i, known := renumbered[*r.Peers]
			if !known {
				i = len(b.set.Addresses)
				renumbered[*r.Peers] = i
				b.set.Addresses = append(b.set.Addresses, lists[*r.Peers])
			}
			*r.Peers = i
		}
	}
	for i := b.stock.spans[b.set.Namespace].first; i < b.stock.spans[b.set.Namespace].end; i++ {
		if p := b.pods[i]; p != nil {
			slices.SortFunc(p.Ports, policyset.NamedPort.Compare)
			b.set.Pods = append(b.set.Pods, *p)
		}
	}
	return b.set
}
