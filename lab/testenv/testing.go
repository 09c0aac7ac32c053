//go:build linux

package testenv

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/lab"
)

// Start opens an environment for a test, and closes it at the test's end. If the test fails, it logs the environment's diagnosis.
func Start(t testing.TB, o Options) *Env {
	t.Helper()
	o.Log = os.Stderr
	env, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(env.Diagnosis())
		}
		env.Close()
	})
	return env
}

// Eventually waits until check returns "". Otherwise check returns what is missing, with which the test fails after
// lab.Timeout(timeout).
func Eventually(t testing.TB, timeout time.Duration, what string, check func(context.Context) (missing string)) {
	t.Helper()
	timeout = lab.Timeout(timeout)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	missing := "not checked yet"
	for {
		now := check(ctx)
		if now == "" {
			return
		}
		if ctx.Err() == nil { // otherwise check may only report the timeout
			missing = now
		}
		select {
		case <-ctx.Done():
			t.Fatalf("timed out after %s waiting until %s: %s", timeout, what, missing)
		case <-tick.C:
		}
	}
}

// ExpectServing waits until an app has count pods and all of them serve, and returns them.
func (env *Env) ExpectServing(t testing.TB, timeout time.Duration, app string, count int) (serving []corev1.Pod) {
	t.Helper()
	Eventually(t, timeout, fmt.Sprintf("%d pods of %s serve", count, app), func(ctx context.Context) string {
		var err error
		if serving, err = env.Pods(ctx, app); err != nil {
			return err.Error()
		}
		if len(serving) != count {
			return fmt.Sprintf("got %d pods", len(serving))
		}
		for i := range serving {
			if missing := env.Serves(ctx, &serving[i]); missing != "" {
				return missing
			}
		}
		return ""
	})
	return serving
}
