//go:build linux

package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// Writes reports whether the request changes an object.
func (r APIRequest) Writes() bool { return r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" }

// Requests returns the requests of the operator, its daemons and cloud-node-managers since a time, in the order of the responses.
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
	for events := json.NewDecoder(f); ; {
		var e struct { // audit.k8s.io/v1
			Stage string
			Verb  string
			User  struct{ Username string }
			Ref   struct{ Resource, Subresource, Name string } `json:"objectRef"`
			Time  time.Time                                    `json:"requestReceivedTimestamp"`
		}
		if err := events.Decode(&e); errors.Is(err, io.EOF) {
			return requests, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		if isFirst := e.Stage == "ResponseStarted" || e.Verb != "watch"; !isFirst || !e.Time.After(since) { // a watch has two events
			continue
		}
		r := APIRequest{Time: e.Time, User: e.User.Username, Verb: e.Verb, Resource: e.Ref.Resource, Name: e.Ref.Name}
		if e.Ref.Subresource != "" {
			r.Resource += "/" + e.Ref.Subresource
		}
		requests = append(requests, r)
	}
}
