package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/operator/rollout"
)

// manyWithACanary returns a fleet whose first node is halfway through its soak time, so that all others wait.
func manyWithACanary(n int) rollout.Fleet {
	policy := allow(n)
	policy.Canary = &rollout.Canary{Count: 1, Soak: 10 * time.Minute}
	f := rollout.Fleet{Policy: policy, Now: noon()}
	for i := range n {
		f.Hosts = append(f.Hosts, host(fmt.Sprintf("win-%05d", i)))
	}
	upToDate(&f.Hosts[0])
	f.Hosts[0].Since = noon().Add(-5 * time.Minute)
	return f
}

func BenchmarkDecide(b *testing.B) {
	f := manyWithACanary(5000)
	for b.Loop() {
		rollout.Decide(f)
	}
}
