package main

import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/hcs"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

// networks is the store of the host. It is global because calls of a C library have no receiver, and it caches the objects.
var networks = hns.Store{Dir: guestapi.NetworksDir, Address: ownAddress, Changed: addressesChanged}

// object is a handle to an object.
type object struct {
	kind hns.Kind
	id   string
}

// failed returns from a call of the network service, whose result also has a description.
func failed(err error, details **uint16, call string) uint32 {
	if err == nil {
		return 0
	}
	code := hns.CodeOf(err)
	if errors.Is(err, hcs.InvalidHandle) {
		code = hns.Code(hcs.InvalidHandle)
	}
	description, _ := json.Marshal(map[string]any{"Success": false, "Error": err.Error(), "ErrorCode": uint32(code)})
	setText(details, string(description))
	logf("%s: %v", call, err)
	return uint32(code)
}

// logResult logs a call also on success, and returns its result code. The many reads of single objects are only logged on failure.
func logResult(err error, details **uint16, call string) uint32 {
	if err == nil {
		logf("%s", call)
	}
	return failed(err, details, call)
}

func enumerate(kind hns.Kind, query *uint16, list, details **uint16) uint32 {
	call := fmt.Sprintf("HcnEnumerate%ss", kind)
	err := networks.Begin(call)
	ids := []string{}
	if err == nil {
		var found []string
		found, err = networks.IDs(kind, text(query))
		ids = append(ids, found...)
	}
	if err == nil {
		raw, _ := json.Marshal(ids)
		setText(list, string(raw))
	}
	return failed(err, details, call+" "+text(query))
}

func create(kind hns.Kind, id unsafe.Pointer, settings string, handle *uintptr, details **uint16) uint32 {
	call := fmt.Sprintf("HcnCreate%s", kind)
	err := networks.Begin(call)
	own := *(*windows.GUID)(id)
	if err == nil && own == (windows.GUID{}) {
		own, err = windows.GenerateGUID()
	}
	var made hns.Object
	if err == nil {
		made, err = networks.Create(kind, guidText(own), []byte(settings))
	}
	if err == nil {
		handles.add(handle, object{kind, fmt.Sprint(made["ID"])})
	}
	return logResult(err, details, fmt.Sprintf("%s %s %s", call, guidText(own), settings))
}

// createEndpoint creates an endpoint on the network of a handle.
func createEndpoint(network uintptr, id unsafe.Pointer, settings *uint16, handle *uintptr, details **uint16) uint32 {
	document := text(settings)
	var e map[string]any
	if parent, err := find[object](network); err == nil && json.Unmarshal([]byte(document), &e) == nil && e["HostComputeNetwork"] == nil {
		e["HostComputeNetwork"] = parent.id
		raw, _ := json.Marshal(e)
		document = string(raw)
	}
	return create(hns.Endpoint, id, document, handle, details)
}

// guidText returns a GUID as the JSON of objects has it: without braces.
func guidText(id windows.GUID) string { return strings.Trim(id.String(), "{}") }

func guidAt(id unsafe.Pointer) string { return guidText(*(*windows.GUID)(id)) }

func open(kind hns.Kind, id unsafe.Pointer, handle *uintptr, details **uint16) uint32 {
	call := fmt.Sprintf("HcnOpen%s", kind)
	err := networks.Begin(call)
	if err == nil {
		err = networks.Exists(kind, guidAt(id))
	}
	if err == nil {
		handles.add(handle, object{kind, guidAt(id)})
	}
	return failed(err, details, call+" "+guidAt(id))
}

func modify(handle uintptr, request string, details **uint16) uint32 {
	o, err := find[object](handle)
	call := fmt.Sprintf("HcnModify%s", o.kind)
	if err == nil {
		err = networks.Begin(call)
	}
	if err == nil {
		err = networks.Modify(o.kind, o.id, []byte(request))
	}
	return logResult(err, details, fmt.Sprintf("%s %s %s", call, o.id, request))
}

func properties(handle uintptr, to, details **uint16) uint32 {
	o, err := find[object](handle)
	call := fmt.Sprintf("HcnQuery%sProperties", o.kind)
	if err == nil {
		err = networks.Begin(call)
	}
	var document string
	if err == nil {
		document, err = networks.Properties(o.kind, o.id)
	}
	if err == nil {
		setText(to, document)
	}
	return failed(err, details, call+" "+o.id)
}

func remove(kind hns.Kind, id unsafe.Pointer, details **uint16) uint32 {
	call := fmt.Sprintf("HcnDelete%s", kind)
	err := networks.Begin(call)
	if err == nil {
		err = networks.Delete(kind, guidAt(id))
	}
	return logResult(err, details, call+" "+guidAt(id))
}

// HNSCall implements the first generation of the network service's API, but only reads.
//
//export HNSCall
func HNSCall(method, path, body *uint16, answer **uint16) uint32 {
	call := fmt.Sprintf("HNSCall %s %s", text(method), text(path))
	err := networks.Begin(call)
	if err == nil {
		var output string
		output, err = networks.Call(text(method), text(path))
		setText(answer, output)
	}
	return failed(err, nil, call+" "+text(body))
}

// ownAddress returns the host's address, which the reaper wrote before Windows booted. Wine reports it only some time after its
// start, on a busy machine after more than 20 seconds.
func ownAddress() string {
	address, err := os.ReadFile(guestapi.AddressFile)
	if err != nil {
		logf("reading the address of this host: %v", err)
	}
	return string(address)
}
