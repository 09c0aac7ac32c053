package policyset

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/strictjson"
)

// version is the version of the format. A node rejects others: what it does not know may restrict pods.
const version = 1

// Lengths of names in the API: of objects (DNS subdomain) and namespaces (DNS label); UIDs are opaque and shorter than this.
const (
	maxName      = 253
	maxNamespace = 63
)

// ErrTooLarge means that a set is larger than MaxSize.
var ErrTooLarge = errors.New("the set is too large")

type encoded struct {
	Version int `json:"version"`
	Set
}

// Encode returns the set as JSON. Equal sets have equal encodings. A set that Decode would reject is an error, ErrTooLarge if it is
// larger than MaxSize; the data is then returned, too, for its size.
func Encode(set Set) ([]byte, error) {
	if err := set.check(); err != nil {
		return nil, fmt.Errorf("encoding the set of namespace %.64q: %w", set.Namespace, err)
	}
	data, err := json.Marshal(encoded{version, set})
	if err != nil {
		return nil, fmt.Errorf("encoding the set of namespace %.64q: %w", set.Namespace, err)
	}
	if len(data) > MaxSize {
		return data, fmt.Errorf("%w: it has %d bytes; at most %d are allowed", ErrTooLarge, len(data), MaxSize)
	}
	return data, nil
}

// Decode returns the set of a namespace. Data that is too large, malformed, of another namespace or version, or that has unknown fields
// is an error, with a set that closes all pods.
func Decode(namespace string, data []byte) (Set, error) {
	set, err := decode(namespace, data)
	if err != nil {
		return Closed(namespace), fmt.Errorf("decoding the set of namespace %.64q: %w", namespace, err)
	}
	return set, nil
}

func decode(namespace string, data []byte) (Set, error) {
	if len(data) > MaxSize {
		return Set{}, fmt.Errorf("%w: it has %d bytes; at most %d are allowed", ErrTooLarge, len(data), MaxSize)
	}
	// The version comes first: a later format may have fields of other types.
	var format struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &format); err != nil {
		return Set{}, err
	}
	if format.Version != version {
		return Set{}, fmt.Errorf("its format has version %d; only version %d is known", format.Version, version)
	}
	var e encoded
	if err := strictjson.Unmarshal(data, &e); err != nil {
		return Set{}, err
	}
	if e.Namespace != namespace {
		return Set{}, fmt.Errorf("it belongs to namespace %.64q", e.Namespace)
	}
	if err := e.check(); err != nil {
		return Set{}, err
	}
	return e.Set, nil
}

// check returns an error if the set is not what the operator compiles: an index without an entry, a rule without peers, an unsorted list.
func (s Set) check() error {
	if !isName(s.Namespace, maxNamespace) {
		return fmt.Errorf("namespace is %.64q; allowed: 1 to %d printable characters", s.Namespace, maxNamespace)
	}
	if s.Omitted < 0 || s.Omitted > 0 && (len(s.Policies)+len(s.Addresses)+len(s.Pods) > 0 || s.Unlisted == Directions{}) {
		return fmt.Errorf("omitted is %d; a set that omits its content has none and closes pods", s.Omitted)
	}
	for i, list := range s.Addresses {
		if err := checkAddresses(list); err != nil {
			return fmt.Errorf("addresses[%d]: %w", i, err)
		}
	}
	for i, p := range s.Policies {
		if i > 0 && s.Policies[i-1].Name >= p.Name {
			return fmt.Errorf("policies[%d]: %.64q is not after %.64q", i, p.Name, s.Policies[i-1].Name)
		}
		if err := s.checkPolicy(p); err != nil {
			return fmt.Errorf("policies[%d]: %w", i, err)
		}
	}
	for i, p := range s.Pods {
		if i > 0 && s.Pods[i-1].Name >= p.Name {
			return fmt.Errorf("pods[%d]: %.64q is not after %.64q", i, p.Name, s.Pods[i-1].Name)
		}
		if err := s.checkPod(p); err != nil {
			return fmt.Errorf("pods[%d]: %w", i, err)
		}
	}
	return nil
}

// checkAddresses requires the form that Prefixes returns, which has one form for each set of addresses.
func checkAddresses(list []netip.Prefix) error {
	if len(list) == 0 {
		return errors.New("the list is empty; a rule without peers is left out")
	}
	for _, p := range list {
		if !p.IsValid() || !p.Addr().Is4() || p != p.Masked() {
			return fmt.Errorf("%s is not an IPv4 prefix", p)
		}
	}
	if !slices.Equal(list, Prefixes(rangesOf(list))) {
		return errors.New("the list is not sorted, or could be shorter")
	}
	return nil
}

func (s Set) checkPolicy(p Policy) error {
	if !isName(p.Name, maxName) {
		return fmt.Errorf("name is %.64q; allowed: 1 to %d printable characters", p.Name, maxName)
	}
	if p.Isolates == (Directions{}) || p.Isolates.Ingress && !s.Unlisted.Ingress || p.Isolates.Egress && !s.Unlisted.Egress {
		return errors.New("it isolates pods in no direction, or in one in which unlisted pods are open")
	}
	if !p.Isolates.Ingress && len(p.Ingress) > 0 || !p.Isolates.Egress && len(p.Egress) > 0 {
		return errors.New("it has rules for a direction in which it does not isolate pods")
	}
	for i, r := range p.Ingress {
		if err := s.checkRule(r, true); err != nil {
			return fmt.Errorf("ingress[%d]: %w", i, err)
		}
	}
	for i, r := range p.Egress {
		if err := s.checkRule(r, false); err != nil {
			return fmt.Errorf("egress[%d]: %w", i, err)
		}
	}
	return nil
}

func (s Set) checkRule(r Rule, mayName bool) error {
	if r.AnyPeer == (r.Peers != nil) || r.Peers != nil && (*r.Peers < 0 || *r.Peers >= len(s.Addresses)) {
		return errors.New("a rule has either any peer or an existing list of addresses")
	}
	if r.AnyPort == (len(r.Ports) > 0) {
		return errors.New("a rule has either any port or a list of ports")
	}
	for _, p := range r.Ports {
		isRange := p.Name == "" && p.First > 0 && p.First <= p.Last
		isNamed := mayName && isName(p.Name, maxName) && p.First == 0 && p.Last == 0
		if !isKnown(p.Protocol) || !isRange && !isNamed {
			return fmt.Errorf("port %.200v is neither a range nor the name of a port, of hns.TCP, hns.UDP or SCTP", p)
		}
	}
	return nil
}

func (s Set) checkPod(p Pod) error {
	if !isName(p.Name, maxName) || !isName(p.UID, maxName) {
		return fmt.Errorf("name is %.64q and UID is %.64q; allowed: 1 to %d printable characters", p.Name, p.UID, maxName)
	}
	for i, policy := range p.Policies {
		if policy < 0 || policy >= len(s.Policies) || i > 0 && p.Policies[i-1] >= policy {
			return fmt.Errorf("policies[%d] is %d; allowed: indexes of policies in order", i, policy)
		}
	}
	for i, port := range p.Ports {
		if !isName(port.Name, maxName) || !isKnown(port.Protocol) || port.Port == 0 || i > 0 && p.Ports[i-1].Compare(port) >= 0 {
			return fmt.Errorf("ports[%d] is %.200v; allowed: ports of hns.TCP, hns.UDP or hns.SCTP in order of their names", i, port)
		}
	}
	return nil
}

func isKnown(p hns.Protocol) bool { return p == hns.TCP || p == hns.UDP || p == hns.SCTP }

// isName reports whether a text is printable ASCII of a length that the API allows.
func isName(text string, limit int) bool {
	return text != "" && len(text) <= limit && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}
