//go:build linux

package main

import (
	"strings"
	"testing"
)

const hiveWithUpdates = `[Software\\Microsoft\\Windows NT\\CurrentVersion] 1795999329
#time=1dd2e
"ProductName"="Windows Server 2022 Datacenter"
"UBR"=dword:00000962

[Software\\WMCOLab\\Updates] 1795999329
"RestartFirst"=dword:00000001

[Software\\WMCOLab\\Updates\\00000001] 1795999329
#time=1dd2e
"Code"=dword:00000000
"Result"=dword:00000002
"State"=dword:0000000S
"TakenBack"=dword:0000000T
"UBR"=dword:00001135

[Software\\WMCOLab\\Updates\\00000002] 1795999329
"Code"=dword:00000000
"State"=dword:00000002
"UBR"=dword:00009999`

func TestStartCompletesUpdates(t *testing.T) {
	for _, test := range []struct {
		name, state, isTakenBack        string
		wantState, wantCode, wantResult string
		wantRevision                    string
	}{
		{"waiting", "3", "0", "4", "00000000", "00000002", "00001135"},
		{"taken back", "3", "1", "2", "800f0922", "00000004", "00000962"},
		{"only downloaded", "2", "0", "2", "00000000", "00000002", "00000962"},
		{"installed before", "4", "0", "4", "00000000", "00000002", "00000962"},
	} {
		hive := func(state, code, result, revision, restartFirst string) string {
			text := strings.NewReplacer("0000000S", "0000000"+state, "0000000T", "0000000"+test.isTakenBack, "00000962", revision).Replace(hiveWithUpdates)
			text = strings.Replace(text, `"Code"=dword:00000000`, `"Code"=dword:`+code, 1)
			text = strings.Replace(text, `"Result"=dword:00000002`, `"Result"=dword:`+result, 1)
			return strings.Replace(text, `"RestartFirst"=dword:00000001`, `"RestartFirst"=dword:`+restartFirst, 1)
		}
		got := completeUpdates(hive(test.state, "00000000", "00000002", "00000962", "00000001"))
		if want := hive(test.wantState, test.wantCode, test.wantResult, test.wantRevision, "00000000"); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.name, got, want)
		}
	}
}

func TestStartRemovesCumulativeUpdate(t *testing.T) {
	const packages = `

[Software\\WMCOLab\\Packages] 1795999329
"Previous"=dword:00000000
"Removed"=dword:00000000

`
	set := func(text, name, value string) string {
		return dwordLine(name).ReplaceAllString(text, `"`+name+`"=dword:`+value)
	}
	hive := strings.NewReplacer("0000000S", "00000003", "0000000T", "00000000").Replace(hiveWithUpdates) + packages
	installed := completeUpdates(hive)
	if got := dword(packageSection.FindString(installed), "Previous"); got != 0x962 {
		t.Fatalf("after the installation, the revision before is %x; the registry is\n%s", got, installed)
	}
	removed := completeUpdates(set(installed, "Removed", "00000001"))
	if got := dword(versionSection.FindString(removed), "UBR"); got != 0x962 {
		t.Errorf("after the removal, the revision is %x", got)
	}
	if got := dword(updateSection.FindString(removed), "State"); got != updateFound {
		t.Errorf("after the removal, the update has state %d", got)
	}
	if p := packageSection.FindString(removed); dword(p, "Previous") != 0 || dword(p, "Removed") != 0 {
		t.Errorf("after the removal, the packages are %s", p)
	}
	if again := completeUpdates(removed); again != removed {
		t.Errorf("the next start changes\n%s\nto\n%s", removed, again)
	}
}
