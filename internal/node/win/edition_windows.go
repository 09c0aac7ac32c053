package win

import "golang.org/x/sys/windows"

// Edition is what a program must know about a Windows before it tries things there.
type Edition struct {
	// Wine is true if this is Wine.
	Wine bool
	// Desktop is true for editions other than server editions (wProductType of OSVERSIONINFOEX).
	Desktop bool
	// Elevated is true if this process has administrator rights.
	Elevated bool
}

// ThisEdition returns the edition of the Windows that this program runs on. It changes nothing.
func ThisEdition() Edition {
	const workstation = 1 // VER_NT_WORKSTATION
	return Edition{
		Wine:     windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil,
		Desktop:  windows.RtlGetVersion().ProductType == workstation,
		Elevated: windows.GetCurrentProcessToken().IsElevated(),
	}
}
