package network

import (
	"context"
	"encoding/json"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

const (
	// maxDocuments limits how many objects of one kind are read.
	maxDocuments = 1000
	allObjects   = `{"SchemaVersion":{"Major":2,"Minor":0},"Flags":0}`
)

// document is a response of the Host Network Service, or an error.
type document struct {
	Answer json.RawMessage `json:"answer,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// Documents returns all objects of the Host Network Service as JSON, from both generations of its API: "v1" and "v2", then the kind. A kind that
// cannot be read has its error.
func (h *HNS) Documents(ctx context.Context) (json.RawMessage, error) {
	all := map[string]map[string][]document{"v1": {}, "v2": {}}
	err := h.runRead(ctx, "reading the documents of the Host Network Service", func() error {
		for _, kind := range []string{"networks", "endpoints", "policylists", "globals/version"} {
			all["v1"][kind] = []document{firstGeneration("/" + kind)}
		}
		for _, kind := range []string{"Network", "Endpoint", "Namespace", "LoadBalancer"} {
			all["v2"][kind] = secondGeneration(kind)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return mustEncode(all), nil
}

// firstGeneration reads a path of the first API.
func firstGeneration(path string) (d document) {
	call := windows.NewLazySystemDLL("vmcompute.dll").NewProc("HNSCall")
	var answer *uint16
	code, err := callProc(call, uintptr(unsafe.Pointer(wide("GET"))), uintptr(unsafe.Pointer(wide(path))), uintptr(unsafe.Pointer(wide(""))),
		uintptr(unsafe.Pointer(&answer)))
	if err != nil {
		return document{Error: err.Error()}
	}
	return documentFrom(code, answer)
}

// secondGeneration reads all objects of a kind of the second API, one by one.
func secondGeneration(kind string) []document {
	dll := windows.NewLazySystemDLL("computenetwork.dll")
	var list, failure *uint16
	code, err := callProc(dll.NewProc("HcnEnumerate"+kind+"s"),
		uintptr(unsafe.Pointer(wide(allObjects))), uintptr(unsafe.Pointer(&list)), uintptr(unsafe.Pointer(&failure)))
	if err != nil {
		return []document{{Error: err.Error()}}
	}
	release(failure)
	listed := documentFrom(code, list)
	var ids []windows.GUID
	var texts []string
	if listed.Error != "" || json.Unmarshal(listed.Answer, &texts) != nil {
		return []document{listed}
	}
	for _, text := range texts[:min(len(texts), maxDocuments)] {
		if id, err := windows.GUIDFromString("{" + text + "}"); err == nil {
			ids = append(ids, id)
		}
	}
	documents := []document{}
	for _, id := range ids {
		documents = append(documents, properties(dll, kind, id))
	}
	return documents
}

// properties reads one object of the second API.
func properties(dll *windows.LazyDLL, kind string, id windows.GUID) document {
	var handle uintptr
	var failure, text *uint16
	code, err := callProc(dll.NewProc("HcnOpen"+kind),
		uintptr(unsafe.Pointer(&id)), uintptr(unsafe.Pointer(&handle)), uintptr(unsafe.Pointer(&failure)))
	release(failure)
	if err != nil || int32(code) < 0 {
		return document{Error: fmt.Sprintf("opening %s %s: %v: error %#x", kind, id, err, uint32(code))}
	}
	failure = nil
	code, err = callProc(dll.NewProc("HcnQuery"+kind+"Properties"), handle,
		uintptr(unsafe.Pointer(wide(allObjects))), uintptr(unsafe.Pointer(&text)), uintptr(unsafe.Pointer(&failure)))
	release(failure)
	_, _ = callProc(dll.NewProc("HcnClose"+kind), handle)
	if err != nil {
		return document{Error: err.Error()}
	}
	return documentFrom(code, text)
}

// callProc calls a Windows function, which may be missing in older versions. Memory that the arguments point to stays in place meanwhile.
//
//go:uintptrescapes
func callProc(call *windows.LazyProc, arguments ...uintptr) (code uintptr, err error) {
	if err := call.Find(); err != nil {
		return 0, err
	}
	code, _, _ = call.Call(arguments...) // an HRESULT
	return code, nil
}

// documentFrom converts the result of a function, and frees the text.
func documentFrom(code uintptr, text *uint16) document {
	defer release(text)
	var d document
	if text != nil {
		answer := windows.UTF16PtrToString(text)
		if json.Valid([]byte(answer)) {
			d.Answer = json.RawMessage(answer)
		} else {
			d.Answer = mustEncode(answer)
		}
	}
	if int32(code) < 0 || code != 0 && text == nil {
		d.Error = fmt.Sprintf("error %#x: %v", uint32(code), syscall.Errno(uint32(code)))
	}
	return d
}

func release(text *uint16) {
	if text != nil {
		windows.CoTaskMemFree(unsafe.Pointer(text))
	}
}

// wide converts a text for Windows. It must not contain a zero byte.
func wide(text string) *uint16 {
	p, _ := windows.UTF16PtrFromString(text)
	return p
}
