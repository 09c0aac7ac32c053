// Package story contains recordings of OVN-Kubernetes' own programs, as actions and results that tests replay with the stand-in
// and with the programs.
package story

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/windows-machine-config/wmco/lab/cluster/ovn"
)

//go:embed testdata/*.json
var testdata embed.FS

// Names returns the recordings of Nodes and a cluster manager.
func Names() []string {
	return []string{
		"01-openshift", "02-openshift-port-9898", "03-host-prefix-written", "04-plain-flags", "05-openshift-off-and-on", "06-two-ranges",
		"07-exhausted", "08-dual-stack", "09-starts", "10-subnet-there-already", "11-linux-annotations", "13-upstream-node",
	}
}

// Steps returns the steps of a recording.
func Steps(name string) (steps []*Step, err error) { return steps, read(name, &steps) }

func read(name string, into any) error {
	text, err := testdata.ReadFile("testdata/" + name + ".json")
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("reading the recording %s: %w", name, err)
	}
	return nil
}

// A Step has actions, and the annotations of Nodes after them.
type Step struct {
	Do string `json:"do"`
	// Start starts or restarts the cluster manager, Stop stops it.
	Start *Start `json:"start,omitempty"`
	Stop  bool   `json:"stop,omitempty"`
	// Delete deletes Nodes, Register creates Nodes with their initial annotations.
	Delete   []string `json:"delete,omitempty"`
	Register []Node   `json:"register,omitempty"`
	// Label sets label kubernetes.io/os. Annotate writes annotations, or removes those that are null.
	Label    map[string]string             `json:"label,omitempty"`
	Annotate map[string]map[string]*string `json:"annotate,omitempty"`
	// Nodes are the cluster manager's annotations of the Nodes that changed.
	Nodes map[string]map[string]string `json:"nodes,omitempty"`
	// Exit is the exit code of the cluster manager, with the values in its message.
	Exit *Exit `json:"exit,omitempty"`
}

// A Start is the configuration with which the cluster manager starts: lines of ovnkube.conf, or flags.
type Start struct {
	Conf  []string `json:"conf,omitempty"`
	Flags []string `json:"flags,omitempty"`
}

// A Node is a Node that is created.
type Node struct {
	Name        string            `json:"name"`
	OS          string            `json:"os"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// An Exit is the exit of the cluster manager.
type Exit struct {
	Code   int      `json:"code"`
	Values []string `json:"values,omitempty"`
}

// Compare returns how the exit of a cluster manager differs from the recorded one, or "". The message only has to contain the
// same values, because the stand-in's wording differs.
func (e *Exit) Compare(ended error) string {
	var got *ovn.ExitError
	if !errors.As(ended, &got) || got.Code != e.Code {
		return fmt.Sprintf("got exit %v, want the recorded %+v", ended, *e)
	}
	text := strings.ReplaceAll(got.Text, "dual-stack", "IPv4 and IPv6") // the wording of the programs
	for _, v := range e.Values {
		if !strings.Contains(text, v) {
			return fmt.Sprintf("got message %q, want one with %s", got.Text, v)
		}
	}
	return ""
}

// Managed returns the annotations that the cluster manager writes.
func Managed() []string {
	return []string{ovn.SubnetAnnotation, ovn.NodeSubnetsAnnotation, ovn.NodeIDAnnotation, ovn.TransitAnnotation}
}

// OnlyManaged returns the annotations that the cluster manager writes.
func OnlyManaged(annotations map[string]string) map[string]string {
	own := map[string]string{}
	for _, key := range Managed() {
		if value, ok := annotations[key]; ok {
			own[key] = value
		}
	}
	return own
}

// A CertificateCase is a certificate request with the verdict of the approver.
type CertificateCase struct {
	Note         string                    `json:"note"`
	User         string                    `json:"user"`
	Groups       []string                  `json:"groups"`
	Organization []string                  `json:"organization,omitempty"`
	CommonName   string                    `json:"commonName"`
	Signer       string                    `json:"signer"`
	Usages       []certificatesv1.KeyUsage `json:"usages"`
	Expiration   *int32                    `json:"expiration,omitempty"`
	Verdict      ovn.Verdict               `json:"verdict"`
}

// Certificates returns the requests of recording 12-approver.
func Certificates() (cases []CertificateCase, err error) { return cases, read("12-approver", &cases) }

// A WriteCase is a write through nodes/status. Admitted is whether each of Guards admitted it.
type WriteCase struct {
	Node     string            `json:"node"`
	OS       string            `json:"os"`
	Before   map[string]string `json:"before"`
	User     string            `json:"user"`
	Groups   []string          `json:"groups"`
	Patch    map[string]any    `json:"patch"`
	Admitted [3]bool           `json:"admitted"`
}

// Writes returns the writes of recording 12-webhook.
func Writes() (cases []WriteCase, err error) { return cases, read("12-webhook", &cases) }

// Guards returns the configurations of the webhook in the order of the recording.
func Guards() [3]ovn.Guard {
	return [3]ovn.Guard{{HybridOverlay: true}, {}, {HybridOverlay: true, Users: []string{"system:serviceaccount:ovn-kubernetes:ovnkube-cluster-manager"}}}
}
