// Package hns simulates Windows' Host Network Service: networks, endpoints, namespaces and load balancers of a host, in a
// journal that all processes of the host share. It stores objects, rejects what Windows rejects, and moves no packets; the host's
// reaper assigns the addresses of endpoints to the host. computenetwork.dll and vmcompute.dll use it for the calls of Windows'
// two APIs (see package hostcompute).
//
// Tests can make it fail: see Fault, and Serve for the Windows service.
package hns

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Kind is a kind of object, with its name in the calls of Windows' API.
type Kind string

// The kinds.
const (
	Network      Kind = "Network"
	Endpoint     Kind = "Endpoint"
	Namespace    Kind = "Namespace"
	LoadBalancer Kind = "LoadBalancer"
	fault        Kind = "Fault"
)

// Code is an HRESULT other than success.
type Code uint32

// Codes that callers distinguish. Other errors have the generic ones.
const (
	NetworkNotFound  Code = 0x803B0001
	EndpointNotFound Code = 0x803B0002
	AdapterNotFound  Code = 0x803B0006 // none has the name, or it has a switch already
	InvalidPolicy    Code = 0x803B000D
	InvalidRemote    Code = 0x803B000F // the operation needs a local endpoint
	NetworkExists    Code = 0x803B0010
	PortExists       Code = 0x803B0013 // another load balancer has the address and port
	AlreadyAttached  Code = 0x803B0014
	Unsupported      Code = 0x803B0015
	InvalidJSON      Code = 0x803B001B
	InvalidIP        Code = 0x803B001E
	NotFound         Code = 0x80070490
	Exists           Code = 0x800700B7
	ObjectExists     Code = 0x80071392 // another endpoint has the address
	AccessDenied     Code = 0x80070005
	Unavailable      Code = 0x800706BA // the service is stopped: "The RPC server is unavailable"
	Fail             Code = 0x80004005
)

// Error returns the name of a code, if it has one.
func (c Code) Error() string {
	texts := map[Code]string{
		NetworkNotFound: "the network was not found", EndpointNotFound: "the endpoint was not found",
		AdapterNotFound: "an adapter was not found", InvalidPolicy: "the policy is invalid or lacks parameters",
		InvalidRemote: "the operation is invalid for a remote endpoint", NetworkExists: "the network exists", PortExists: "the specified port already exists",
		AlreadyAttached: "the endpoint is attached already", Unsupported: "the request is not supported",
		InvalidJSON: "the document is not valid", InvalidIP: "the address is invalid or of no subnet",
		NotFound: "element not found", Exists: "cannot create a file when that file already exists",
		ObjectExists: "the object already exists", AccessDenied: "access is denied", Unavailable: "the RPC server is unavailable",
	}
	if text, known := texts[c]; known {
		return fmt.Sprintf("%s (%#x)", text, uint32(c))
	}
	return fmt.Sprintf("result %#x", uint32(c))
}

// CodeOf returns the code of an error, or 0 if it has none.
func CodeOf(err error) Code {
	var c Code
	switch {
	case err == nil:
		return 0
	case errors.As(err, &c):
		return c
	}
	return Fail
}

// missing returns Windows' code for a missing object of the kind.
func (k Kind) missing() Code {
	switch k {
	case Network:
		return NetworkNotFound
	case Endpoint:
		return EndpointNotFound
	}
	return NotFound
}

// Object is the JSON of an object. It has an "ID".
type Object map[string]any

func parse(document []byte) (Object, error) {
	var o Object
	if err := json.Unmarshal(document, &o); err != nil || o == nil {
		return nil, fmt.Errorf("%w: %w", InvalidJSON, err)
	}
	return o, nil
}

func (o Object) id() string { return o.text("ID") }

func (o Object) text(field string) string {
	text, _ := o[field].(string)
	return text
}

func (o Object) number(field string) int {
	number, _ := o[field].(float64)
	return int(number)
}

// Into decodes some fields of an object. Fields that it does not have stay unchanged.
func (o Object) Into(fields any) error {
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, fields)
}

// clone returns a copy that may be changed.
func (o Object) clone() Object {
	var copied Object
	_ = o.Into(&copied)
	return copied
}

func (o Object) matches(filter map[string]any) bool {
	for field, want := range filter {
		if field == "VirtualNetwork" { // its name in the first generation, and in hcsshim's filter
			field = "HostComputeNetwork"
		}
		if !strings.EqualFold(fmt.Sprint(o[field]), fmt.Sprint(want)) {
			return false
		}
	}
	return true
}

func parseFilter(query string) (map[string]any, error) {
	var q struct{ Filter string }
	if query == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(query), &q); err != nil {
		return nil, fmt.Errorf("reading the query: %w: %w", InvalidJSON, err)
	}
	if q.Filter == "" {
		return nil, nil
	}
	var filter map[string]any
	if err := json.Unmarshal([]byte(q.Filter), &filter); err != nil {
		return nil, fmt.Errorf("reading the query's filter: %w: %w", InvalidJSON, err)
	}
	return filter, nil
}
