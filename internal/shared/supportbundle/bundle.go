// Package supportbundle defines the protocol between the operator, WICD and kubectl windows for collecting a node's state: the name of a
// collection, WICD's report on the Node, the path of the archive, and which text in it is masked. It does no I/O.
package supportbundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// maxID is the maximum length of a collection's name, which becomes a file name.
const maxID = 40

// CheckID rejects an invalid name of a collection. The error describes what is allowed.
func CheckID(id string) error {
	if len(id) > maxID || !validID.MatchString(id) {
		return fmt.Errorf("%.64q cannot name a collection; allowed: 1 to %d lower-case letters, digits and hyphens, with no hyphen at either end", id, maxID)
	}
	if device.MatchString(id) {
		return fmt.Errorf("%q cannot name a collection: it is the name of a Windows device; add a digit", id)
	}
	return nil
}

var (
	validID = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	// device matches the names that Windows reserves for devices, whatever the extension.
	device = regexp.MustCompile(`^(con|prn|aux|nul|com[0-9]|lpt[0-9])$`)
)

// Folder is the folder of archives, below the log folder and below the kubelet's /logs/.
const Folder = "collect"

// FileName returns the file name of a collection's archive.
func FileName(id string) string { return id + ".zip" }

// Path returns the path at which the kubelet serves the archive, below /logs/.
func Path(id string) string { return Folder + "/" + FileName(id) }

// Keep is how long WICD keeps an archive.
const Keep = time.Hour

// State is the progress of a collection.
type State string

// States of a collection.
const (
	// Collecting means that WICD is writing the archive.
	Collecting State = "Collecting"
	// Done means that the archive can be downloaded.
	Done State = "Done"
	// Failed means that there is no archive; the message is the reason.
	Failed State = "Failed"
	// Expired means that the archive was removed after Keep.
	Expired State = "Expired"
)

// Status is what WICD reports on the Node.
type Status struct {
	ID    string `json:"id"`
	State State  `json:"state"`
	// Time is when the state began.
	Time time.Time `json:"time"`
	// Bytes and SHA256 describe the finished archive.
	Bytes   int64  `json:"bytes,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
	Message string `json:"message,omitempty"`
}

// maxStatus is the maximum length of the annotation; WICD's admission policy has the same limit. maxStatusMessage leaves room for the other
// fields, even if each character of the message is escaped.
const (
	maxStatus        = 1024
	maxStatusMessage = 120
)

// Annotation returns the value of the Node's annotation.
func (s Status) Annotation() string {
	if len(s.Message) > maxStatusMessage {
		s.Message = strings.ToValidUTF8(s.Message[:maxStatusMessage], "") + "..."
	}
	b, err := json.Marshal(s)
	if err != nil {
		return "" // cannot happen: every field can be encoded
	}
	return string(b)
}

// ParseStatus parses the annotation, which a hostile host may have written.
func ParseStatus(text string) (Status, error) {
	if len(text) > maxStatus {
		return Status{}, fmt.Errorf("the report has %d bytes; at most %d are allowed", len(text), maxStatus)
	}
	var s Status
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Status{}, errors.New("the report is not valid JSON")
	}
	if err := CheckID(s.ID); err != nil {
		return Status{}, err
	}
	switch s.State {
	case Collecting, Done, Failed, Expired:
	default:
		return Status{}, fmt.Errorf("the report has state %.32q; allowed: %s, %s, %s and %s", s.State, Collecting, Done, Failed, Expired)
	}
	if s.Bytes < 0 || s.SHA256 != "" && !isHash(s.SHA256) {
		return Status{}, errors.New("the report has an invalid size or hash")
	}
	s.Message = strings.Join(strings.FieldsFunc(s.Message, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
	return s, nil
}

func isHash(text string) bool {
	return len(text) == 64 && strings.Trim(text, "0123456789abcdef") == ""
}

// Manifest is the content of manifest.json in a node's archive.
type Manifest struct {
	ID   string    `json:"id"`
	Node string    `json:"node"`
	Time time.Time `json:"time"`
	// Version is the version of the node.
	Version string `json:"version"`
	Files   []Item `json:"files"`
	// LeftOut lists what is never collected.
	LeftOut []string `json:"leftOut"`
}

// Item is a file in an archive.
type Item struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	// Cut means that only the end of a file was collected.
	Cut bool `json:"cut,omitempty"`
	// Error is why the file is missing or incomplete.
	Error string `json:"error,omitempty"`
}

// ManifestName is the name of the manifest in each archive.
const ManifestName = "manifest.json"
