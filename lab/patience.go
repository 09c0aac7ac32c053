package lab

import (
	"os"
	"strconv"
	"time"
)

// Patience is how long to wait on this machine for what is waited for so long on one whose speed factor is 1: hack/run.sh measures the
// factor, and gives it to tests in WMCO_SPEED. A machine that is faster is not hurried.
func Patience(d time.Duration) time.Duration {
	factor, err := strconv.ParseFloat(os.Getenv("WMCO_SPEED"), 64)
	if err != nil {
		return d
	}
	return time.Duration(float64(d) * max(1, factor))
}
