package policypipe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"unicode/utf8"
)

// Name is the named pipe on which WICD listens.
const Name = `\\.\pipe\wicd-policy`

// Bounds of a message in bytes, with its line end. A request with the longest allowed fields fits.
const (
	maxMessage   = 4096
	maxCause     = 1024 // of a refusal
	maxAddresses = 16
)

// Request is a pod whose network exists and whose containers have not started.
type Request struct {
	// Namespace, Name and UID are the pod's.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// ContainerID is the ID of the pod's sandbox.
	ContainerID string `json:"containerID"`
	// Addresses are the pod's, of its endpoint: at least one, at most sixteen.
	Addresses []netip.Addr `json:"addresses"`
}

// response is the answer to a request: exactly one of its fields is set.
type response struct {
	InForce bool   `json:"inForce,omitempty"`
	Refused string `json:"refused,omitempty"`
}

var (
	// namespaces and names are those of Kubernetes (RFC 1123 labels and subdomains, without the limits of each label).
	namespaces = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	names      = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	// uids are also the hashes of static pods.
	uids = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,126}[A-Za-z0-9])?$`)
	// containers are the IDs that the CNI specification allows, of bounded length.
	containers = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)
)

// check returns an error that names the first field with a value that no pod has.
func (r Request) check() error {
	for _, field := range []struct {
		name, value, allowed string
		pattern              *regexp.Regexp
	}{
		{"namespace", r.Namespace, "the name of a namespace", namespaces},
		{"name", r.Name, "the name of a pod", names},
		{"uid", r.UID, "at most 128 letters, digits and dashes", uids},
		{"containerID", r.ContainerID, "the ID of a sandbox, of at most 128 letters, digits and _ . -", containers},
	} {
		if !field.pattern.MatchString(field.value) {
			return fmt.Errorf("%s is %.64q, want %s", field.name, field.value, field.allowed)
		}
	}
	if len(r.Addresses) == 0 || len(r.Addresses) > maxAddresses {
		return fmt.Errorf("addresses has %d entries; 1 to %d are allowed", len(r.Addresses), maxAddresses)
	}
	for _, a := range r.Addresses {
		if !a.IsValid() || a.Zone() != "" || a.Is4In6() || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() {
			return fmt.Errorf("addresses contains %.64q; allowed: addresses that a pod can have", a.String())
		}
	}
	return nil
}

func (r response) check() error {
	if r.InForce == (r.Refused != "") {
		return fmt.Errorf("it has inForce %t and refused %.64q; exactly one must be set", r.InForce, r.Refused)
	}
	return nil
}

// encode returns a message as one line.
func encode(message any) ([]byte, error) {
	line, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	if len(line) >= maxMessage {
		return nil, fmt.Errorf("the message has %d bytes; at most %d are allowed", len(line)+1, maxMessage)
	}
	return append(line, '\n'), nil
}

// decode parses a line. It accepts only what encode returns, so that both sides cannot read one message differently: no unknown or duplicate
// fields, no other spelling.
func decode[T interface{ check() error }](line []byte) (message T, err error) {
	if len(line) > maxMessage || !utf8.Valid(line) {
		return message, fmt.Errorf("the message is not text of at most %d bytes", maxMessage)
	}
	if err := json.Unmarshal(line, &message); err != nil {
		return message, fmt.Errorf("parsing the message: %w", err)
	}
	if canonical, err := encode(message); err != nil || !bytes.Equal(canonical, line) {
		return message, fmt.Errorf("the message has unknown fields or is not in the form that this version writes: is %s of the same version as WICD?", Program)
	}
	return message, message.check()
}
