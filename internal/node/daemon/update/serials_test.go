package update

import (
	"fmt"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

func TestSerialsOfFormerVersionsAreRemembered(t *testing.T) {
	disk := hostapi.Disk{Root: t.TempDir()}
	if _, err := disk.MakeFolder(desired.State); err != nil {
		t.Fatal(err)
	}
	for i := range int64(maxSerials) + 2 {
		if err := recordSerial(disk, fmt.Sprint("v", i), 100+i); err != nil {
			t.Fatal(err)
		}
	}
	if err := recordSerial(disk, "v5", 7); err != nil { // a lower serial changes nothing
		t.Fatal(err)
	}
	for _, test := range []struct {
		version string
		serial  int64
		want    bool
	}{
		{"v5", 104, true}, {"v5", 105, false}, {"v5", 106, false}, {"v99", 1, false},
		{"v0", 1, false}, // such an old version is forgotten
	} {
		if got, err := isReplayed(disk, test.version, test.serial); err != nil || got != test.want {
			t.Errorf("settings %d of %s are replayed: %v (%v), want %v", test.serial, test.version, got, err, test.want)
		}
	}
}
