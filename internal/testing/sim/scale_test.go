package sim_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// TestManyHostsFitIntoOneProcess starts hosts that do not join, and measures their cost. WICD_SIM_HOSTS changes their number.
func TestManyHostsFitIntoOneProcess(t *testing.T) {
	count, _ := strconv.Atoi(os.Getenv("WICD_SIM_HOSTS"))
	if count == 0 {
		count = 50
	}
	key, hostKey := mustKey(t), mustKey(t)
	goroutines := runtime.NumGoroutine()
	began := time.Now()
	hosts := make([]*sim.Host, count)
	for i := range hosts {
		h, err := sim.Start(t.Context(), sim.Options{
			ListenAddr: fmt.Sprintf("127.1.%d.%d:0", 1+i/250, 1+i%250), HostKey: hostKey, AuthorizedKeys: []ssh.PublicKey{key.PublicKey()},
			Windows: sim.WindowsOptions{Root: t.TempDir(), Hostname: fmt.Sprintf("WIN-%d", i)},
		})
		if err != nil {
			t.Fatal(err)
		}
		hosts[i] = h
	}
	if each := (runtime.NumGoroutine() - goroutines) / count; each > 3 {
		t.Errorf("an idle host uses %d goroutines", each)
	}
	seen := map[string]bool{}
	for _, h := range hosts {
		seen[h.Addr()] = true
	}
	if len(seen) != count {
		t.Errorf("%d hosts have %d addresses", count, len(seen))
	}
	t.Logf("%d hosts started in %v", count, time.Since(began))
	var closing sync.WaitGroup
	for _, h := range hosts {
		closing.Go(h.Close)
	}
	closing.Wait()
}
