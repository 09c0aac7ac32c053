package wua

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/go-ole/go-ole"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/windows"
)

// served is a COM object, called by name, whose members are those of a fake. It begins with the pointer to its table, as COM requires.
type served struct {
	table *dispatchTable
	fake  fake
	names []string
	by    *server
}

// dispatchTable is the table of IDispatch.
type dispatchTable struct {
	queryInterface, addRef, release, getTypeInfoCount, getTypeInfo, getIDsOfNames, invoke uintptr
}

// parameters is DISPPARAMS.
type parameters struct {
	arguments *ole.VARIANT
	_         *int32 // DISPIDs of named arguments
	count     uint32
	_         uint32
}

// server makes COM objects, and keeps them until the test ends.
type server struct {
	table *dispatchTable
	all   []*served
}

func newServer() *server {
	one := windows.NewCallback(func(*served) uintptr { return 1 })
	return &server{table: &dispatchTable{
		queryInterface:   windows.NewCallback(func(*served, *ole.GUID, *uintptr) uintptr { return uintptr(windows.E_NOINTERFACE) }),
		addRef:           one,
		release:          one,
		getTypeInfoCount: windows.NewCallback(func(*served, *uint32) uintptr { return uintptr(windows.E_NOTIMPL) }),
		getTypeInfo:      windows.NewCallback(func(*served, uintptr, uintptr, uintptr) uintptr { return uintptr(windows.E_NOTIMPL) }),
		getIDsOfNames:    windows.NewCallback((*served).id),
		invoke:           windows.NewCallback((*served).invoke),
	}}
}

// serve returns a fake as a COM object.
func (s *server) serve(f fake) *ole.IDispatch {
	o := &served{table: s.table, fake: f, by: s}
	s.all = append(s.all, o)
	return (*ole.IDispatch)(unsafe.Pointer(o))
}

func (o *served) id(_ *ole.GUID, names **uint16, _, _ uintptr, id *int32) uintptr {
	name := windows.UTF16PtrToString(*names)
	if _, found := o.fake[name]; !found && !slices.Contains([]string{"Online", "ClientApplicationID", "Updates", "ForceQuiet"}, name) {
		return uintptr(windows.DISP_E_UNKNOWNNAME)
	}
	o.names = append(o.names, name)
	*id = int32(len(o.names))
	return 0
}

func (o *served) invoke(id uintptr, _ *ole.GUID, _, flags uintptr, p *parameters, result *ole.VARIANT, _, _ uintptr) uintptr {
	name := o.names[int32(id)-1]
	var arguments []any
	for _, v := range slices.Backward(unsafe.Slice(p.arguments, p.count)) { // the last one comes first
		arguments = append(arguments, argument(&v))
	}
	if uint16(flags)&ole.DISPATCH_PROPERTYPUT != 0 {
		_ = o.fake.put(name, arguments[0])
		return 0
	}
	value, err := o.fake.get(name, arguments...)
	if code, failed := errors.AsType[codeError](err); failed {
		return uintptr(code)
	}
	*result = o.by.variant(value)
	return 0
}

// argument returns the value of an argument; for an object of a server, its fake.
func argument(v *ole.VARIANT) any {
	value := valueOf(v)
	if o, ok := value.(comObject); ok {
		return (*served)(unsafe.Pointer(o.IDispatch)).fake
	}
	return value
}

// variant returns a value of a fake as COM has it.
func (s *server) variant(value any) ole.VARIANT {
	switch v := value.(type) {
	case string:
		return ole.NewVariant(ole.VT_BSTR, int64(uintptr(unsafe.Pointer(ole.SysAllocStringLen(v)))))
	case bool:
		if v {
			return ole.NewVariant(ole.VT_BOOL, 0xffff)
		}
		return ole.NewVariant(ole.VT_BOOL, 0)
	case int64:
		return ole.NewVariant(ole.VT_I4, v)
	case time.Time:
		days := v.Sub(time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)).Hours() / 24
		return ole.NewVariant(ole.VT_DATE, int64(math.Float64bits(days)))
	case fake:
		return ole.NewVariant(ole.VT_DISPATCH, int64(uintptr(unsafe.Pointer(s.serve(v)))))
	}
	return ole.NewVariant(ole.VT_EMPTY, 0)
}

// TestCOMHasTheSameAnswers reads an agent through COM, with its texts, numbers, dates, objects and errors, and as it is.
func TestCOMHasTheSameAnswers(t *testing.T) {
	if _, err := openCOM(); err != nil {
		t.Fatal(err)
	}
	s, a := newServer(), newAgent()
	defer runtime.KeepAlive(s)
	delete(a.update, "Deadline")
	a.update["Title"] = "Mise à jour 更新 \U0001F600 (KB5070000)"
	a.system["RebootRequired"] = codeError(0x80240438)
	objects := map[string]fake{classSession: a.session, classAutoUpdate: a.auto, classSystemInfo: a.system}
	got := read(func(class string) (object, error) { return comObject{s.serve(objects[class])}, nil }, settings{}, now(), false)
	if a.searcher["put Online"] != false || a.session["put ClientApplicationID"] != clientID {
		t.Errorf("the searcher's Online is %v, the session's client %v", a.searcher["put Online"], a.session["put ClientApplicationID"])
	}
	if diff := cmp.Diff(a.read(settings{}), got); diff != "" {
		t.Errorf("report (-direct +COM):\n%s", diff)
	}
}

// TestCOMHasTheSameOutcomes passes objects to properties and methods of others.
func TestCOMHasTheSameOutcomes(t *testing.T) {
	if _, err := openCOM(); err != nil {
		t.Fatal(err)
	}
	s := newServer()
	defer runtime.KeepAlive(s)
	for _, operation := range []string{operationDownload, operationInstall} {
		ids := []string{idOfUpdate(1), idOfUpdate(2), idOfUpdate(3)}
		want, o := newOperations().run(t, append([]string{operation}, ids...)...), newOperations()
		o.pending[2]["EulaAccepted"] = false
		got := request{operation, ids}.answer(func(class string) (object, error) {
			f, err := o.create(class)
			if err != nil {
				return nil, err
			}
			return comObject{s.serve(f.(fake))}, nil
		}, nil, now())
		if diff := cmp.Diff(any(want), got); diff != "" {
			t.Errorf("outcome of %s (-direct +COM):\n%s", operation, diff)
		}
		if len(o.given) == 0 || o.given[0] == nil {
			t.Errorf("%s: the collection has %v", operation, o.given)
		}
		agent := map[string]fake{operationDownload: o.downloader, operationInstall: o.installer}[operation]
		if _, isCollection := agent["put Updates"].(fake)["Add"]; !isCollection || o.asked != 1 {
			t.Errorf("%s: the updates are %v, and the agent was asked %d times", operation, agent["put Updates"], o.asked)
		}
	}
}

func TestMissingClassIsACode(t *testing.T) {
	create, err := openCOM()
	if err != nil {
		t.Fatal(err)
	}
	_, err = create("WICD.Contract.Absent")
	if code, ok := errors.AsType[codeError](err); !ok || code == 0 {
		t.Errorf("a missing class is error %v", err)
	}
}
