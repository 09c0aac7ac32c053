package overlay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// object has the fields of a Node that are read, and those of other objects that may be sent instead. All others are skipped, so that the memory use
// does not depend on the size of Nodes.
type object struct {
	Metadata struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
		Labels          struct {
			OS string `json:"kubernetes.io/os"`
		} `json:"labels"`
		Annotations struct {
			Subnet       string `json:"k8s.ovn.org/hybrid-overlay-node-subnet"`
			LinuxSubnets string `json:"k8s.ovn.org/node-subnets"`
			RouterMAC    string `json:"k8s.ovn.org/hybrid-overlay-distributed-router-gateway-mac"`
			// AllKnown is set on the bookmark after the last Node that existed when the watch started.
			AllKnown string `json:"k8s.io/initial-events-end"`
		} `json:"annotations"`
	} `json:"metadata"`
	Status status `json:"status"`
	// Code, Reason and Message are those of a Status, which is sent when a watch fails.
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// status is the status of a Node. In a Status, the field is a string.
type status struct{ internalIPs []string }

// UnmarshalJSON implements json.Unmarshaler.
func (s *status) UnmarshalJSON(b []byte) error {
	*s = status{}
	if !bytes.HasPrefix(b, []byte("{")) {
		return nil
	}
	var current struct {
		Addresses []struct {
			Type    string `json:"type"`
			Address string `json:"address"`
		} `json:"addresses"`
	}
	if err := json.Unmarshal(b, &current); err != nil {
		return err
	}
	for _, a := range current.Addresses {
		if a.Type == "InternalIP" {
			s.internalIPs = append(s.internalIPs, a.Address)
		}
	}
	return nil
}

func (o object) node() Node {
	m := o.Metadata
	return Node{
		Name: m.Name, Windows: m.Labels.OS == "windows", InternalIPs: o.Status.internalIPs,
		Subnet: m.Annotations.Subnet, LinuxSubnets: m.Annotations.LinuxSubnets, RouterMAC: m.Annotations.RouterMAC,
	}
}

// event is one event of a watch.
type event struct {
	Type   string `json:"type"`
	Object object `json:"object"`
}

// readEvents calls each for every event of a watch, until a call fails or the watch ends.
func readEvents(r io.Reader, each func(event) error) error {
	decoder := json.NewDecoder(r)
	for {
		var e event
		if err := decoder.Decode(&e); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("reading an event: %w", err)
		}
		if e.Type == "ERROR" {
			return &apiError{e.Object.Code, e.Object.Reason, e.Object.Message}
		}
		if err := each(e); err != nil {
			return err
		}
	}
}

// page is the metadata of a list.
type page struct {
	ResourceVersion string `json:"resourceVersion"`
	Continue        string `json:"continue"`
}

// readList calls each for every item of a list while it reads the list.
func readList(r io.Reader, each func(object)) (p page, err error) {
	decoder := json.NewDecoder(r)
	if err := expect(decoder, '{'); err != nil {
		return page{}, err
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return page{}, fmt.Errorf("reading a list: %w", err)
		}
		switch key {
		case "metadata":
			err = decoder.Decode(&p)
		case "items":
			err = readItems(decoder, each)
		default:
			var skipped json.RawMessage
			err = decoder.Decode(&skipped)
		}
		if err != nil {
			return page{}, fmt.Errorf("reading %v of a list: %w", key, err)
		}
	}
	return p, expect(decoder, '}')
}

func readItems(decoder *json.Decoder, each func(object)) error {
	first, err := decoder.Token()
	if err != nil || first == nil { // null: no items
		return err
	}
	if first != json.Delim('[') {
		return fmt.Errorf("got %v, want the beginning of a list", first)
	}
	for decoder.More() {
		var o object
		if err := decoder.Decode(&o); err != nil {
			return err
		}
		each(o)
	}
	return expect(decoder, ']')
}

func expect(decoder *json.Decoder, delimiter json.Delim) error {
	token, err := decoder.Token()
	if err != nil {
		return fmt.Errorf("reading a list: %w", err)
	}
	if token != delimiter {
		return fmt.Errorf("reading a list: got %v, want %v", token, delimiter)
	}
	return nil
}
