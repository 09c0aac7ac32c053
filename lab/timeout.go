package lab

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Timeout scales a timeout with the speed of this machine: hack/run.sh measures its speed factor and sets WMCO_SPEED for tests.
// Timeouts on faster machines are not shortened.
func Timeout(d time.Duration) time.Duration {
	factor, err := strconv.ParseFloat(os.Getenv("WMCO_SPEED"), 64)
	if err != nil {
		return d
	}
	return time.Duration(float64(d) * max(1, factor))
}

// Until calls try until it succeeds or the context ends, with a timeout of five seconds for each call. It stops early if ended,
// which may be nil, returns an error.
func Until(ctx context.Context, every time.Duration, what string, try func(context.Context) error, ended func() error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if last = try(attempt); last == nil || ended == nil {
			return last == nil, nil
		}
		return false, ended()
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w: %w", what, err, last)
	}
	return nil
}
