package configure_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// FuzzRecords runs a leave on a host whose record, list of certificates and CNI results are arbitrary. Files of others must stay, and after a
// successful leave, a second one must find nothing to do.
func FuzzRecords(f *testing.F) {
	r := daemontest.NewRequest(daemontest.NewPayload("1"))
	r.Desired.Files = append(r.Desired.Files, desired.File{Path: `C:\data\..\data\x`})
	b, err := json.Marshal(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, []byte(`["aa"]`), []byte(`{"netns":"x"}`))
	f.Add([]byte(`{"cluster":"11111111-2222-3333-4444-555555555555","node":"n","desired":{"directories":["C:\\data","C:\\"],"files":[{"path":"C:\\"},{"path":"C:\\data"},{"path":"C:"}]}}`), []byte(`{`), []byte(`[]`))
	f.Add([]byte(`{"node":"n","desired":{"environment":{"OTHER":"x","":"y"},"watchedEnvironment":["=","a"]}}`), []byte(`null`), []byte(`{"netns":1}`))
	f.Fuzz(func(t *testing.T, record, certificates, network []byte) {
		synctest.Test(t, func(t *testing.T) {
			w := daemontest.NewWindows(t, sim.WindowsOptions{})
			const others = `C:\data\sub\important.txt`
			for name, content := range map[string][]byte{
				others: nil, desired.State + `\node.json`: record, desired.State + `\certificates.json`: certificates,
				desired.CNIData + `\results\x`: network,
			} {
				daemontest.MustWrite(t, w.Disk(), name, string(content))
			}
			const cluster = "11111111-2222-3333-4444-555555555555"
			if _, err := daemontest.NewWire(w).Leave(cluster); err != nil {
				return
			}
			if !w.Disk().Exists(others) {
				t.Errorf("%s was removed", others)
			}
			if again, err := daemontest.NewWire(w).Leave(cluster); err != nil || len(again.Removed) > 0 {
				t.Errorf("the second leave: %+v, %v", again, err)
			}
		})
	})
}
