package hostapi_test

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// TestRemovalDoesNotFollowFolderSwappedWithLink swaps a folder with a link to another folder as fast as possible while the folder is removed.
func TestRemovalDoesNotFollowFolderSwappedWithLink(t *testing.T) {
	const other = `C:\others`
	d := hostapi.Disk{Root: t.TempDir()}
	for round := range 300 {
		folder, link := fmt.Sprintf(`C:\pods\%d\folder`, round), fmt.Sprintf(`C:\pods\%d\link`, round)
		mustWriteFile(t, d, folder+`\file`, "of the pod")
		mustWriteFile(t, d, other+`\file`, "somebody else's")
		if err := os.Symlink(d.Local(other), d.Local(link)); err != nil {
			t.Fatal(err)
		}
		begun, stop, stopped := make(chan struct{}), make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for times := 0; ; times++ {
				select {
				case <-stop:
					return
				default:
					_ = unix.Renameat2(unix.AT_FDCWD, d.Local(folder), unix.AT_FDCWD, d.Local(link), unix.RENAME_EXCHANGE)
				}
				if times == 0 {
					close(begun)
				}
			}
		}()
		<-begun
		_ = d.RemoveAll(folder) // an error because of the swap is fine
		close(stop)
		<-stopped
		expectFile(t, d, other+`\file`, "somebody else's")
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	if err := d.RemoveAll(`C:\pods`); err != nil || d.Exists(`C:\pods`) {
		t.Errorf("without changes, RemoveAll() = %v", err)
	}
	expectFile(t, d, other+`\file`, "somebody else's")
}
