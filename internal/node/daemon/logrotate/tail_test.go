package logrotate_test

import (
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/daemon/logrotate"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

func TestTailReturnsLastLines(t *testing.T) {
	const (
		started = `time="2026-11-23T10:00:00Z" level=info msg="starting containerd"` + "\n"
		failed  = `time="2026-11-23T10:00:01Z" level=error msg="no space left"` + "\n"
		detail  = `time="2026-11-23T10:00:01Z" level=debug msg="Container config envs:{key:\"PASSWORD\" value:\"hunter2\"}"` + "\n"
		trace   = `time="2026-11-23T10:00:01Z" level=trace msg="hunter2"` + "\n"
	)
	const inJSON = `{"time":"2026-11-23T10:00:01Z","level":"DEBUG","msg":"hunter2"}` + "\n"
	const signed = `time="2026-11-23T10:00:02Z" level=error msg="Get \"https://x.blob.example/c?sv=1&sig=hunter2\": proxyconnect http://me:p@hunter2@proxy:3128"` + "\n"
	const masked = `time="2026-11-23T10:00:02Z" level=error msg="Get \"https://x.blob.example/c?sv=1&sig=***\": proxyconnect http://***@proxy:3128"` + "\n"
	long := strings.Replace(detail, "hunter2", strings.Repeat("hunter2 ", 20000), 1)
	for name, test := range map[string]struct {
		log, want string
		limit     int64
	}{
		"the whole log":                      {started + failed, started + failed, 2000},
		"whole lines":                        {started + failed, failed, int64(len(started+failed) - 1)},
		"the end of a long line":             {failed, `left"`, 6},
		"no detail":                          {started + detail + failed + trace + detail, started + failed, 2000},
		"before much detail":                 {failed + strings.Repeat(detail, 500), failed, 2000},
		"after a line that is not read":      {long + failed, failed, 2000},
		"nothing but the rest of a line":     {failed + strings.TrimSuffix(long, "\n"), "", 2000},
		"a line that was cut off in writing": {failed + detail[:len(detail)-8], failed, 2000},
		"no text":                            {"\xff\xfe" + failed, failed, 2000},
		"detail of programs that write JSON": {inJSON + failed, failed, 2000},
		"secrets in errors":                  {failed + signed, failed + masked, 2000},
		"empty":                              {"", "", 2000},
	} {
		d := hostapi.Disk{Root: t.TempDir()}
		if _, err := d.WriteFile(`C:\var\log\containerd\containerd.log`, test.log); err != nil {
			t.Fatal(err)
		}
		if got := logrotate.Tail(d, `C:\var\log\containerd\containerd.log`, test.limit); got != strings.TrimSpace(test.want) {
			t.Errorf("%s: %.300q, want %q", name, got, test.want)
		}
	}
}
