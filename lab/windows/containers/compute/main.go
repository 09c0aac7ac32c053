//go:build windows

// Command compute sends requests to Windows' container service independently of containerd.
//
//	compute list    prints the IDs of all compute systems
//	compute end ID  ends one
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

func main() {
	if err := run(windows.NewLazySystemDLL("vmcompute.dll"), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "compute:", err)
		os.Exit(1)
	}
}

func run(service *windows.LazyDLL, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "list":
		return list(service)
	case len(args) == 2 && args[0] == "end":
		return end(service, args[1])
	}
	return fmt.Errorf("want list, or end and an ID, got %q", args)
}

func list(service *windows.LazyDLL) error {
	var text, details *uint16
	query := windows.StringToUTF16Ptr(`{"Types":["Container"]}`)
	err := call(service, "HcsEnumerateComputeSystems", uintptr(unsafe.Pointer(query)), uintptr(unsafe.Pointer(&text)), uintptr(unsafe.Pointer(&details)))
	if err != nil {
		return err
	}
	defer windows.CoTaskMemFree(unsafe.Pointer(text))
	var found []struct{ Id string }
	if err := json.Unmarshal([]byte(windows.UTF16PtrToString(text)), &found); err != nil {
		return fmt.Errorf("decoding the list: %w", err)
	}
	for _, one := range found {
		fmt.Println(one.Id)
	}
	return nil
}

func end(service *windows.LazyDLL, id string) error {
	var handle uintptr
	var details *uint16
	name := windows.StringToUTF16Ptr(id)
	err := call(service, "HcsOpenComputeSystem", uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&handle)), uintptr(unsafe.Pointer(&details)))
	if err != nil {
		return err
	}
	return errors.Join(
		call(service, "HcsTerminateComputeSystem", handle, 0, uintptr(unsafe.Pointer(&details))),
		call(service, "HcsCloseComputeSystem", handle))
}

func call(service *windows.LazyDLL, name string, arguments ...uintptr) error {
	result, _, _ := service.NewProc(name).Call(arguments...)
	if int32(result) < 0 {
		return fmt.Errorf("%s: result %08x", name, uint32(result))
	}
	return nil
}
