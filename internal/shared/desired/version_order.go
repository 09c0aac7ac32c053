package desired

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// VersionOrder is what the operator signs to have one node go to one version. It uses the key that signs settings, so that the
// right to write annotations of a Node is not enough to forge an order.
type VersionOrder struct {
	// Cluster is the UID of the cluster's namespace kube-system.
	Cluster string
	// Node is the name of the Node, UID its UID: an order for a deleted Node does not apply to a new one of the same name.
	Node, UID string
	Version   string
}

// maxVersionOrder is the maximum length of the annotation: serial, dot, signature.
const maxVersionOrder = 19 + 1 + 86

// Sign returns the order as the value of annotation version-order. The serial starts at 1 and must grow with each order for a Node,
// because a lower serial marks an older order.
func (o VersionOrder) Sign(serial int64, private ed25519.PrivateKey) string {
	return strconv.FormatInt(serial, 10) + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, o.toSign(serial)))
}

// Verify returns the serial of an annotation if it is this order, signed with the key. Only the canonical encoding is accepted.
func (o VersionOrder) Verify(annotation, key string) (serial int64, err error) {
	public, err := parseKey(key)
	if err != nil {
		return 0, fmt.Errorf("parsing the signing key: %w", err)
	}
	serial, signature, err := parseVersionOrder(annotation)
	if err != nil {
		return 0, err
	}
	if !ed25519.Verify(public, o.toSign(serial), signature) {
		return 0, fmt.Errorf("not signed with key %s for version %.128q and Node %s, UID %.64q", key, o.Version, o.Node, o.UID)
	}
	return serial, nil
}

func parseVersionOrder(annotation string) (serial int64, signature []byte, err error) {
	if len(annotation) > maxVersionOrder {
		return 0, nil, fmt.Errorf("%d characters; an order has at most %d", len(annotation), maxVersionOrder)
	}
	number, rest, _ := strings.Cut(annotation, ".")
	serial, err = strconv.ParseInt(number, 10, 64)
	if err != nil || serial < 1 || strconv.FormatInt(serial, 10) != number {
		return 0, nil, fmt.Errorf("%.128q does not begin with a serial; the format is <serial>.<signature>", annotation)
	}
	signature, err = base64.RawURLEncoding.Strict().DecodeString(rest)
	if err != nil || len(signature) != ed25519.SignatureSize || strings.ContainsAny(rest, "\r\n") {
		return 0, nil, errors.New("invalid signature encoding")
	}
	return serial, signature, nil
}

func (o VersionOrder) toSign(serial int64) []byte {
	return statementOf("which version a Windows node goes to, 1", o.Cluster, o.Node, o.UID, o.Version, strconv.FormatInt(serial, 10))
}
