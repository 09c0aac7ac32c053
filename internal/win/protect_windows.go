package win

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Rights in the security descriptor definition language: owner Administrators, nothing inherited from above, full
// control for SYSTEM and Administrators, handed down by folders to what is made in them.
const (
	ownRights    = "O:BAD:P"
	folderRights = "(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"
	fileRights   = "(A;;FA;;;SY)(A;;FA;;;BA)"
)

// Protect implements daemon.System. What a folder contains already keeps its rights: it is protected one by one. A
// link (reparse point) is an error.
func (s *system) Protect(path string) error {
	err := privileged(func() error { return protect(path) },
		"SeBackupPrivilege", "SeRestorePrivilege", "SeTakeOwnershipPrivilege")
	if err != nil {
		return fmt.Errorf("protecting %s: %w", path, err)
	}
	return nil
}

func protect(path string) error {
	o, err := openObject(path)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(o.handle)
	rights := fileRights
	if o.folder {
		rights = folderRights
	}
	if o.has(rights) {
		return nil
	}
	return o.secure(rights)
}

// object is an open file or folder.
type object struct {
	handle windows.Handle
	folder bool
}

// openObject opens a file or folder itself, never what it links to; from then on the path is not looked up again.
func openObject(path string) (object, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return object{}, err
	}
	const access = windows.READ_CONTROL | windows.WRITE_DAC | windows.WRITE_OWNER | windows.FILE_READ_ATTRIBUTES
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	const flags = windows.FILE_FLAG_BACKUP_SEMANTICS | windows.FILE_FLAG_OPEN_REPARSE_POINT
	h, err := windows.CreateFile(name, access, share, nil, windows.OPEN_EXISTING, flags, 0)
	if err != nil {
		return object{}, err
	}
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(h, &info); err != nil {
		windows.CloseHandle(h)
		return object{}, err
	}
	if info.FileAttributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0 {
		windows.CloseHandle(h)
		return object{}, errors.New("it is a link (reparse point) and must be a file or folder: remove it")
	}
	return object{handle: h, folder: info.FileAttributes&windows.FILE_ATTRIBUTE_DIRECTORY != 0}, nil
}

// secure gives an object to Administrators with these rights. It touches nothing but the object.
func (o object) secure(rights string) error {
	descriptor, err := windows.SecurityDescriptorFromString(ownRights + rights)
	if err != nil {
		return err
	}
	const what = windows.OWNER_SECURITY_INFORMATION | windows.DACL_SECURITY_INFORMATION | windows.PROTECTED_DACL_SECURITY_INFORMATION
	return windows.SetKernelObjectSecurity(o.handle, what, descriptor)
}

// has tells whether an object belongs to Administrators and has exactly these rights.
func (o object) has(rights string) bool {
	const what = windows.OWNER_SECURITY_INFORMATION | windows.DACL_SECURITY_INFORMATION
	descriptor, err := windows.GetSecurityInfo(o.handle, windows.SE_FILE_OBJECT, what)
	if err != nil {
		return false
	}
	return behind(descriptor, ownRights) == rights
}

// behind returns the rights of a descriptor that begins in one way, with P at the end, empty when it begins in another. Behind the P there
// may be AI or AR, which say how the rights came about.
func behind(descriptor *windows.SECURITY_DESCRIPTOR, beginning string) string {
	rights, ok := strings.CutPrefix(descriptor.String(), beginning)
	if !ok {
		return ""
	}
	return strings.TrimLeft(rights, "AIR")
}

// privileged runs a function with privileges that the process has, but not switched on. They are switched on for a
// thread of its own, which ends with it.
func privileged(do func() error, privileges ...string) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		done <- func() error {
			if err := windows.ImpersonateSelf(windows.SecurityImpersonation); err != nil {
				return err
			}
			defer func() { _ = windows.RevertToSelf() }()
			if err := enable(privileges); err != nil {
				return err
			}
			return do()
		}()
	}()
	return <-done
}

// enable switches privileges on for this thread. Those its owner does not have stay off: what needs them fails.
func enable(privileges []string) error {
	var token windows.Token
	const access = windows.TOKEN_ADJUST_PRIVILEGES | windows.TOKEN_QUERY
	if err := windows.OpenThreadToken(windows.CurrentThread(), access, true, &token); err != nil {
		return err
	}
	defer token.Close()
	for _, privilege := range privileges {
		name, err := windows.UTF16PtrFromString(privilege)
		if err != nil {
			return err
		}
		on := windows.Tokenprivileges{PrivilegeCount: 1}
		on.Privileges[0].Attributes = windows.SE_PRIVILEGE_ENABLED
		if err := windows.LookupPrivilegeValue(nil, name, &on.Privileges[0].Luid); err != nil {
			return err
		}
		if err := windows.AdjustTokenPrivileges(token, false, &on, uint32(unsafe.Sizeof(on)), nil, nil); err != nil {
			return err
		}
	}
	return nil
}
