package win

import (
	"net"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"
)

// mustCreateContainer makes a container without processes, as a shim does.
func mustCreateContainer(t *testing.T, name string) {
	t.Helper()
	id, document := wide(t, name), wide(t, `{"Owner":"`+shimOwner+`","Container":{"Storage":{"Path":"C:\\"}}}`)
	var system windows.Handle
	var failure *uint16
	err := ask(windows.NewLazySystemDLL("vmcompute.dll"), "HcsCreateComputeSystem", uintptr(unsafe.Pointer(id)), uintptr(unsafe.Pointer(document)), 0,
		uintptr(unsafe.Pointer(&system)), uintptr(unsafe.Pointer(&failure)))
	if err != nil {
		t.Fatal(err, textOf(failure))
	}
}

// mustCreateNetwork makes a network, and an endpoint of it in a namespace, as win-overlay and containerd do.
func mustCreateNetwork(t *testing.T) (namespace string) {
	t.Helper()
	keepAddresses(t)
	const schema = `"SchemaVersion":{"Major":2,"Minor":0}`
	network, handle := mustCreate(t, "HcnCreateNetwork", 0,
		`{"Name":"wicd-contract","Type":"Overlay","Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"10.250.0.0/24"}]}],`+schema+`}`)
	t.Cleanup(func() {
		if err := deleteObject(windows.NewLazySystemDLL("computenetwork.dll"), "HcnDeleteNetwork", &network); err != nil {
			t.Error(err)
		}
	})
	endpoint, _ := mustCreate(t, "HcnCreateEndpoint", handle, `{"Name":"wicd-contract","HostComputeNetwork":"`+bare(network)+`",`+schema+`}`)
	id, _ := mustCreate(t, "HcnCreateNamespace", 0, `{"Type":"Host","Resources":[{"Type":"Endpoint","Data":{"Id":"`+bare(endpoint)+`"}}],`+schema+`}`)
	t.Cleanup(func() {
		var endpoints []string
		err := answerOf(&endpoints, func(query, text, failure unsafe.Pointer) error {
			return ask(windows.NewLazySystemDLL("computenetwork.dll"), "HcnEnumerateEndpoints", uintptr(query), uintptr(text), uintptr(failure))
		})
		if all := strings.ToLower(strings.Join(endpoints, " ")); err != nil || strings.Contains(all, bare(endpoint)) {
			t.Errorf("there are endpoints %s, %v: that of the namespace is %s", all, err, bare(endpoint))
		}
	})
	return bare(id)
}

// mustCreate makes an object of the Host Compute Network service, in another one if that is not 0.
func mustCreate(t *testing.T, function string, in uintptr, settings string) (id windows.GUID, handle uintptr) {
	t.Helper()
	id, err := windows.GenerateGUID()
	if err != nil {
		t.Fatal(err)
	}
	dll, text := windows.NewLazySystemDLL("computenetwork.dll"), wide(t, settings)
	var failure *uint16
	if in == 0 {
		err = ask(dll, function, uintptr(unsafe.Pointer(&id)), uintptr(unsafe.Pointer(text)), uintptr(unsafe.Pointer(&handle)), uintptr(unsafe.Pointer(&failure)))
	} else {
		err = ask(dll, function, in, uintptr(unsafe.Pointer(&id)), uintptr(unsafe.Pointer(text)), uintptr(unsafe.Pointer(&handle)), uintptr(unsafe.Pointer(&failure)))
	}
	if err != nil {
		t.Fatal(err, textOf(failure))
	}
	return id, handle
}

// keepAddresses answers as the lab's keeper of a host's addresses (lab/guestapi), which its stand-in asks.
func keepAddresses(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:7")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("done"))
			_ = c.Close()
		}
	}()
}

func bare(id windows.GUID) string { return strings.ToLower(strings.Trim(id.String(), "{}")) }

func wide(t *testing.T, text string) *uint16 {
	t.Helper()
	p, err := windows.UTF16PtrFromString(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
