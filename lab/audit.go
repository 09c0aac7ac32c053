//go:build linux

package lab

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// auditPolicy logs the metadata of all requests of the operator, its daemons and cloud-node-managers: a request when it ends, a watch when it begins.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["system:serviceaccount:openshift-windows-machine-config-operator:windows-machine-config-operator"]
- level: Metadata
  userGroups: ["system:wicd-nodes", "system:windows-cloud-node-managers"]
- level: None
`

// APIRequest is an entry of the API server's audit log.
type APIRequest struct {
	Time time.Time
	User string
	// Verb is get, list, watch, create, update, patch or delete; Resource is plural, with a subresource after a slash.
	Verb, Resource, Name string
}

// Writes reports whether the request is to change something.
func (r APIRequest) Writes() bool { return r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" }

// Requests returns the requests of the operator, its daemons and cloud-node-managers since a time, in the order of the answers.
func (cp *ControlPlane) Requests(since time.Time) ([]APIRequest, error) {
	f, err := os.Open(cp.path("audit.log"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var requests []APIRequest
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r, counts, err := readRequest(lines.Bytes())
		if err != nil {
			return nil, err
		}
		if counts && r.Time.After(since) {
			requests = append(requests, r)
		}
	}
	return requests, lines.Err()
}

// readRequest decodes an event (audit.k8s.io/v1). A watch has two; the first one counts.
func readRequest(line []byte) (r APIRequest, counts bool, err error) {
	var event struct {
		Stage string
		Verb  string
		User  struct{ Username string }
		Ref   struct{ Resource, Subresource, Name string } `json:"objectRef"`
		Time  time.Time                                    `json:"requestReceivedTimestamp"`
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return APIRequest{}, false, fmt.Errorf("reading the audit log: %w", err)
	}
	r = APIRequest{Time: event.Time, User: event.User.Username, Verb: event.Verb, Resource: event.Ref.Resource, Name: event.Ref.Name}
	if event.Ref.Subresource != "" {
		r.Resource += "/" + event.Ref.Subresource
	}
	return r, event.Stage == "ResponseStarted" || event.Verb != "watch", nil
}
