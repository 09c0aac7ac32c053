package main

import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/lab/guestapi"
	"github.com/windows-machine-config/wmco/lab/hcs"
	"github.com/windows-machine-config/wmco/lab/hns"
)

func store() hns.Store { return hns.Store{Dir: guestapi.NetworksDir, Changed: addressesChanged} }

// addressesChanged has the host's keeper give the host the addresses of all endpoints; no program can on Wine.
func addressesChanged() error {
	const patience = 10 * time.Second
	keeper := net.JoinHostPort("127.0.0.1", strconv.Itoa(guestapi.AddressesPort))
	conn, err := net.DialTimeout("tcp", keeper, patience)
	if err != nil {
		return fmt.Errorf("telling the host's keeper of addresses: %w", err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	answer, err := io.ReadAll(conn)
	if err == nil && string(answer) != guestapi.AddressesDone {
		err = errors.New(string(answer))
	}
	return err
}

// object is a handle to an object.
type object struct {
	kind hns.Kind
	id   string
}

// failed ends a call of Windows' network service: besides its result there is a description.
func failed(err error, kind hns.Kind, details **uint16, call string) uint32 {
	if err == nil {
		return result(nil, "%s", call)
	}
	missing := map[hns.Kind]windows.Handle{hns.Network: windows.HCN_E_NETWORK_NOT_FOUND, hns.Endpoint: windows.HCN_E_ENDPOINT_NOT_FOUND}
	code := hcs.Fail
	switch number, known := missing[kind]; {
	case errors.Is(err, hcs.InvalidHandle):
		code = hcs.InvalidHandle
	case errors.Is(err, hns.ErrNotFound) && known:
		code = hcs.Result(number)
	case errors.Is(err, hns.ErrNotFound):
		code = hcs.NoElement
	}
	description, _ := json.Marshal(map[string]any{"Success": false, "Error": err.Error(), "ErrorCode": uint32(code)})
	give(details, string(description))
	note("%s: %v", call, err)
	return uint32(code)
}

func enumerate(kind hns.Kind, query *uint16, list, details **uint16) uint32 {
	found, err := store().List(kind, text(query))
	ids := []string{}
	for _, o := range found {
		ids = append(ids, fmt.Sprint(o["ID"]))
	}
	if err == nil {
		raw, _ := json.Marshal(ids)
		give(list, string(raw))
	}
	return failed(err, kind, details, fmt.Sprintf("HcnEnumerate%ss %s", kind, text(query)))
}

func create(kind hns.Kind, id unsafe.Pointer, settings *uint16, handle *uintptr, details **uint16) uint32 {
	own := *(*windows.GUID)(id)
	var err error
	if own == (windows.GUID{}) {
		own, err = windows.GenerateGUID()
	}
	name := guidText(own)
	if err == nil {
		_, err = store().Create(kind, name, []byte(text(settings)))
	}
	if err == nil {
		handles.add(handle, object{kind, name})
	}
	return failed(err, kind, details, fmt.Sprintf("HcnCreate%s %s %s", kind, name, text(settings)))
}

// guidText is a GUID as in the JSON of objects: without braces.
func guidText(id windows.GUID) string { return strings.Trim(id.String(), "{}") }

func guidAt(id unsafe.Pointer) string { return guidText(*(*windows.GUID)(id)) }

func open(kind hns.Kind, id unsafe.Pointer, handle *uintptr, details **uint16) uint32 {
	_, err := store().Get(kind, guidAt(id))
	if err == nil {
		handles.add(handle, object{kind, guidAt(id)})
	}
	return failed(err, kind, details, fmt.Sprintf("HcnOpen%s %s", kind, guidAt(id)))
}

func modify(kind hns.Kind, handle uintptr, request *uint16, details **uint16) uint32 {
	o, err := find[object](handle)
	if err == nil {
		err = store().Modify(kind, o.id, []byte(text(request)))
	}
	return failed(err, kind, details, fmt.Sprintf("HcnModify%s %s %s", kind, o.id, text(request)))
}

func properties(kind hns.Kind, handle uintptr, to, details **uint16) uint32 {
	o, err := find[object](handle)
	var found hns.Object
	if err == nil {
		found, err = store().Get(kind, o.id)
	}
	if err == nil {
		raw, _ := json.Marshal(found)
		give(to, string(raw))
	}
	return failed(err, kind, details, fmt.Sprintf("HcnQuery%sProperties %s", kind, o.id))
}

func remove(kind hns.Kind, id unsafe.Pointer, details **uint16) uint32 {
	err := store().Delete(kind, guidAt(id))
	return failed(err, kind, details, fmt.Sprintf("HcnDelete%s %s", kind, guidAt(id)))
}

func forget(handle uintptr) uint32 {
	handles.remove(handle)
	return 0
}

// HNSCall is the first generation of the network service's API.
//
//export HNSCall
func HNSCall(method, path, body *uint16, answer **uint16) uint32 {
	give(answer, store().Call(text(method), text(path), ownAddress()))
	note("HNSCall %s %s %s", text(method), text(path), text(body))
	return 0
}

// ownAddress is the address from which this host speaks to others. Nothing is sent to find it.
func ownAddress() string {
	conn, err := net.Dial("udp4", "192.0.2.1:9")
	if err != nil {
		return ""
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).IP.String()
}
