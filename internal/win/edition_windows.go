package win

import "golang.org/x/sys/windows"

// Edition is what a program must know of a Windows before it tries things there.
type Edition struct {
	// Wine is true where this is Wine.
	Wine bool
	// Desktop is true for editions that are not for servers (wProductType of OSVERSIONINFOEX).
	Desktop bool
	// Elevated is true when this process has the rights of an administrator.
	Elevated bool
}

// ThisEdition tells about the Windows that this program runs on. It changes nothing.
func ThisEdition() Edition {
	const workstation = 1 // VER_NT_WORKSTATION
	return Edition{
		Wine:     windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil,
		Desktop:  windows.RtlGetVersion().ProductType == workstation,
		Elevated: windows.GetCurrentProcessToken().IsElevated(),
	}
}
