package lab

import (
	"os"
	"strconv"
	"time"
)

// Patience scales a timeout with the speed of this machine: hack/run.sh measures its speed factor and sets WMCO_SPEED for tests.
// Timeouts on faster machines are not shortened.
func Patience(d time.Duration) time.Duration {
	factor, err := strconv.ParseFloat(os.Getenv("WMCO_SPEED"), 64)
	if err != nil {
		return d
	}
	return time.Duration(float64(d) * max(1, factor))
}
