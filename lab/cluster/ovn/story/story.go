// Package story has what was recorded of OVN-Kubernetes' own programs, as actions and results that can be replayed: with the stand-in,
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

// Names are the recordings that have Nodes and a cluster manager.
func Names() []string {
	return []string{
		"01-openshift", "02-openshift-port-9898", "03-host-prefix-written", "04-plain-flags", "05-openshift-off-and-on", "06-two-ranges",
		"07-exhausted", "08-dual-stack", "09-starts", "10-subnet-there-already", "11-linux-annotations", "13-upstream-node",
	}
}

// Steps are those of a recording.
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

// A Step has the actions of others, and what Nodes have afterwards.
type Step struct {
	Do string `json:"do"`
	// Start starts the cluster manager, the running one ends. Stop ends it.
	Start *Start `json:"start,omitempty"`
	Stop  bool   `json:"stop,omitempty"`
	// Delete removes Nodes, Register creates some, with annotations that they have from the beginning.
	Delete   []string `json:"delete,omitempty"`
	Register []Node   `json:"register,omitempty"`
	// Label sets kubernetes.io/os; Annotate writes annotations, or removes those that are null.
	Label    map[string]string             `json:"label,omitempty"`
	Annotate map[string]map[string]*string `json:"annotate,omitempty"`
	// Nodes are the cluster manager's annotations of the Nodes that changed.
	Nodes map[string]map[string]string `json:"nodes,omitempty"`
	// Exit is how the cluster manager ended, with the values in its message.
	Exit *Exit `json:"exit,omitempty"`
}

// A Start is the configuration of a start: lines of ovnkube.conf, or flags.
type Start struct {
	Conf  []string `json:"conf,omitempty"`
	Flags []string `json:"flags,omitempty"`
}

// A Node registers.
type Node struct {
	Name        string            `json:"name"`
	OS          string            `json:"os"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// An Exit is the end of the cluster manager.
type Exit struct {
	Code   int      `json:"code"`
	Values []string `json:"values,omitempty"`
}

// Compare returns how the exit of a cluster manager differs from the recorded one. The stand-in's messages differ; the values must be in them.
func (e *Exit) Compare(ended error) string {
	var got *ovn.ExitError
	if !errors.As(ended, &got) || got.Code != e.Code {
		return fmt.Sprintf("it ended with %v, recorded %+v", ended, *e)
	}
	text := strings.ReplaceAll(got.Text, "dual-stack", "IPv4 and IPv6") // as the programs say it
	for _, v := range e.Values {
		if !strings.Contains(text, v) {
			return fmt.Sprintf("the message %q lacks %s", got.Text, v)
		}
	}
	return ""
}

// Managed are the annotations that the cluster manager writes.
func Managed() []string {
	return []string{ovn.SubnetAnnotation, ovn.NodeSubnetsAnnotation, ovn.NodeIDAnnotation, ovn.TransitAnnotation}
}

// OnlyManaged are the cluster manager's annotations of all.
func OnlyManaged(annotations map[string]string) map[string]string {
	own := map[string]string{}
	for _, key := range Managed() {
		if value, ok := annotations[key]; ok {
			own[key] = value
		}
	}
	return own
}

// A CertificateCase is a request and what the approver did with it.
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

// Certificates are the requests of 12-approver.
func Certificates() (cases []CertificateCase, err error) { return cases, read("12-approver", &cases) }

// A WriteCase is a write through nodes/status, and with which of Guards it was admitted.
type WriteCase struct {
	Node     string            `json:"node"`
	OS       string            `json:"os"`
	Before   map[string]string `json:"before"`
	User     string            `json:"user"`
	Groups   []string          `json:"groups"`
	Patch    map[string]any    `json:"patch"`
	Admitted [3]bool           `json:"admitted"`
}

// Writes are those of 12-webhook.
func Writes() (cases []WriteCase, err error) { return cases, read("12-webhook", &cases) }

// Guards are the configurations of the webhook in the order of the recording.
func Guards() [3]ovn.Guard {
	return [3]ovn.Guard{{HybridOverlay: true}, {}, {HybridOverlay: true, Users: []string{"system:serviceaccount:ovn-kubernetes:ovnkube-cluster-manager"}}}
}
