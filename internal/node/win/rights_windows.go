package win

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// ownRights is the prefix of rights in the security descriptor definition language: owner Administrators, nothing inherited.
const ownRights = "O:BAD:P"

// Rights of a file, or of a folder and what is created in it.
const (
	privateFile  = "(A;;FA;;;SY)(A;;FA;;;BA)"
	readableFile = privateFile + "(A;;0x1200a9;;;BU)" // to read and to run

	privateFolder  = "(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"
	readableFolder = privateFolder + "(A;OICI;0x1200a9;;;BU)"
	// In subfolders, users can create files and folders, which they then own. Windows grants the same on drive C:.
	volumesFolder = readableFolder + "(A;CIIO;DCLC;;;BU)(A;OICIIO;GA;;;CO)"
)

func rightsFor(who hostapi.Access, isFolder bool) string {
	switch {
	case isFolder && who == hostapi.Volumes:
		return volumesFolder
	case isFolder && who == hostapi.Readable:
		return readableFolder
	case isFolder:
		return privateFolder
	case who == hostapi.Private:
		return privateFile
	}
	return readableFile
}

// rights controls the rights of files on this Windows.
type rights struct{}

// ownPrivileges permit administrators to open and own objects whose rights exclude them.
func ownPrivileges() []string {
	return []string{"SeBackupPrivilege", "SeRestorePrivilege", "SeTakeOwnershipPrivilege"}
}

// MakeFolder implements hostapi.Rights.
func (rights) MakeFolder(folder string, who hostapi.Access) (made bool, err error) {
	name, err := windows.UTF16PtrFromString(folder)
	if err != nil {
		return false, err
	}
	descriptor, err := windows.SecurityDescriptorFromString(ownRights + rightsFor(who, true))
	if err != nil {
		return false, err
	}
	attributes := windows.SecurityAttributes{SecurityDescriptor: descriptor}
	attributes.Length = uint32(unsafe.Sizeof(attributes))
	err = privileged(func() error { return windows.CreateDirectory(name, &attributes) }, ownPrivileges()...)
	if errors.Is(err, windows.ERROR_ALREADY_EXISTS) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("creating %s: %w", folder, err)
	}
	return true, nil
}

// Check implements hostapi.Rights.
func (rights) Check(name string, access hostapi.Access) (matches bool, foreignOwner string, err error) {
	err = privileged(func() error {
		o, err := openObject(name, 0)
		if err != nil {
			return err
		}
		defer windows.CloseHandle(o.handle)
		if foreignOwner, err = o.foreignOwner(); err == nil {
			matches = !o.link && o.has(rightsFor(access, o.folder))
		}
		return err
	}, ownPrivileges()...)
	if err != nil {
		return false, "", fmt.Errorf("reading the rights of %s: %w", name, err)
	}
	return matches, foreignOwner, nil
}

// Protect implements hostapi.Rights.
func (rights) Protect(name string, who hostapi.Access) error {
	err := privileged(func() error {
		o, err := openObject(name, windows.WRITE_DAC|windows.WRITE_OWNER)
		if err != nil {
			return err
		}
		defer windows.CloseHandle(o.handle)
		if o.link {
			return errors.New("it is a link (reparse point) and must be a file or folder: remove it")
		}
		return o.secure(rightsFor(who, o.folder))
	}, ownPrivileges()...)
	if err != nil {
		return fmt.Errorf("protecting %s: %w", name, err)
	}
	return nil
}

// object is an open file, folder or link to one.
type object struct {
	handle       windows.Handle
	folder, link bool
}

// openObject opens a file or folder itself, never the target of a link. Later calls do not use the path. The object can be inspected; access adds
// other rights.
func openObject(path string, access uint32) (object, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return object{}, err
	}
	access |= windows.READ_CONTROL | windows.FILE_READ_ATTRIBUTES
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
	return object{
		handle: h,
		folder: info.FileAttributes&windows.FILE_ATTRIBUTE_DIRECTORY != 0,
		link:   info.FileAttributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0,
	}, nil
}

// Accounts that golang.org/x/sys does not define: Windows' installer, and the administrator in a container.
const (
	trustedInstaller       = "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464"
	containerAdministrator = "S-1-5-93-2-1"
)

// foreignOwner returns the owner of an object, unless that is Administrators, SYSTEM, Windows' installer, this process' account, the account
// Administrator of this host or a domain, or the administrator of a container, whom Windows treats as an administrator of the host, too.
func (o object) foreignOwner() (string, error) {
	descriptor, err := windows.GetSecurityInfo(o.handle, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return "", err
	}
	owner, _, err := descriptor.Owner()
	if err != nil {
		return "", err
	}
	for _, known := range []windows.WELL_KNOWN_SID_TYPE{windows.WinBuiltinAdministratorsSid, windows.WinLocalSystemSid, windows.WinAccountAdministratorSid} {
		if owner.IsWellKnown(known) {
			return "", nil
		}
	}
	if sid := owner.String(); sid == trustedInstaller || sid == containerAdministrator {
		return "", nil
	}
	self, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return "", err
	}
	if owner.Equals(self.User.Sid) {
		return "", nil
	}
	if account, domain, _, err := owner.LookupAccount(""); err == nil {
		return domain + `\` + account, nil
	}
	return owner.String(), nil
}

// secure makes Administrators the owner of an object and sets these rights. It does not change objects below.
func (o object) secure(rights string) error {
	descriptor, err := windows.SecurityDescriptorFromString(ownRights + rights)
	if err != nil {
		return err
	}
	const what = windows.OWNER_SECURITY_INFORMATION | windows.DACL_SECURITY_INFORMATION | windows.PROTECTED_DACL_SECURITY_INFORMATION
	return windows.SetKernelObjectSecurity(o.handle, what, descriptor)
}

// has reports whether an object belongs to Administrators and has exactly these rights.
func (o object) has(rights string) bool {
	const what = windows.OWNER_SECURITY_INFORMATION | windows.DACL_SECURITY_INFORMATION
	descriptor, err := windows.GetSecurityInfo(o.handle, windows.SE_FILE_OBJECT, what)
	if err != nil {
		return false
	}
	return rightsAfter(descriptor, ownRights) == rights
}

// rightsAfter returns the rights of a descriptor that starts with this prefix, which ends with P, or an empty string for any other
// descriptor. The P may be followed by AI or AR, which describe inheritance.
func rightsAfter(descriptor *windows.SECURITY_DESCRIPTOR, beginning string) string {
	rights, ok := strings.CutPrefix(descriptor.String(), beginning)
	if !ok {
		return ""
	}
	return strings.TrimLeft(rights, "AIR")
}

// privileged runs a function with privileges that the process has but that are disabled. They are enabled for a new thread, which
// ends with it.
func privileged(do func() error, privileges ...string) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
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

// enable enables privileges for this thread. Those that the user does not have stay disabled, and calls that need them fail.
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
