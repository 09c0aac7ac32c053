package win

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// RemoveNamespace implements daemon.Containers by the documented functions of the Host Compute Network service.
func (c containers) RemoveNamespace(_ context.Context, id string) (removed bool, err error) {
	dll := windows.NewLazySystemDLL("computenetwork.dll")
	if dll.Load() != nil {
		return false, nil
	}
	guid, err := windows.GUIDFromString("{" + id + "}")
	if err != nil {
		return false, fmt.Errorf("%q is no GUID of a namespace: %w", id, err)
	}
	var all []string // opening one that is not there has no error of its own
	err = answerOf(&all, func(query, text, failure unsafe.Pointer) error {
		return ask(dll, "HcnEnumerateNamespaces", uintptr(query), uintptr(text), uintptr(failure))
	})
	if err != nil || !slices.ContainsFunc(all, func(is string) bool { return strings.EqualFold(is, id) }) {
		return false, err
	}
	endpoints, err := endpointsIn(dll, &guid)
	if err != nil {
		return false, fmt.Errorf("asking for namespace %s: %w", id, err)
	}
	for _, e := range endpoints {
		endpoint, err := windows.GUIDFromString("{" + e + "}")
		if err == nil {
			err = deleteObject(dll, "HcnDeleteEndpoint", &endpoint)
		}
		if err != nil {
			return false, fmt.Errorf("removing endpoint %s of namespace %s: %w", e, id, err)
		}
	}
	if err := deleteObject(dll, "HcnDeleteNamespace", &guid); err != nil {
		return false, fmt.Errorf("removing namespace %s: %w", id, err)
	}
	return true, nil
}

// endpointsIn are the GUIDs of the endpoints in a namespace.
func endpointsIn(dll *windows.LazyDLL, id *windows.GUID) ([]string, error) {
	var namespace windows.Handle
	var failure *uint16
	err := ask(dll, "HcnOpenNamespace", uintptr(unsafe.Pointer(id)), uintptr(unsafe.Pointer(&namespace)), uintptr(unsafe.Pointer(&failure)))
	textOf(failure)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ask(dll, "HcnCloseNamespace", uintptr(namespace)) }()
	var properties struct {
		Resources []struct {
			Type string
			Data struct {
				ID string `json:"Id"`
			}
		}
	}
	err = answerOf(&properties, func(query, text, failure unsafe.Pointer) error {
		return ask(dll, "HcnQueryNamespaceProperties", uintptr(namespace), uintptr(query), uintptr(text), uintptr(failure))
	})
	var endpoints []string
	for _, r := range properties.Resources {
		if r.Type == "Endpoint" {
			endpoints = append(endpoints, r.Data.ID)
		}
	}
	return endpoints, err
}

// answerOf calls a function that takes a query and answers with JSON.
func answerOf(into any, call func(query, text, failure unsafe.Pointer) error) error {
	query, err := windows.UTF16PtrFromString(`{"SchemaVersion":{"Major":2,"Minor":0},"Flags":0}`)
	if err != nil {
		return err
	}
	var text, failure *uint16
	err = call(unsafe.Pointer(query), unsafe.Pointer(&text), unsafe.Pointer(&failure))
	answer := textOf(text)
	textOf(failure)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(answer), into); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}

// deleteObject deletes by a function of that name. What is gone is no error.
func deleteObject(dll *windows.LazyDLL, function string, id *windows.GUID) error {
	var failure *uint16
	err := ask(dll, function, uintptr(unsafe.Pointer(id)), uintptr(unsafe.Pointer(&failure)))
	textOf(failure)
	if errors.Is(err, syscall.Errno(windows.HCN_E_ENDPOINT_NOT_FOUND)) || errors.Is(err, windows.ERROR_NOT_FOUND) {
		return nil
	}
	return err
}
