package win

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"

	"github.com/windows-machine-config/wmco/internal/node/win/scm"
)

// How the test program is started in other roles.
const (
	// The first argument.
	asService = "service"
	asChild   = "child"
	// Environment variables.
	asShutdown   = "WICD_TEST_SHUTDOWN"
	asLockHolder = "WICD_TEST_LOCK"
	asClient     = "WICD_TEST_CLIENT"
	asEcho       = "WICD_TEST_ECHO"
	asContained  = "WICD_TEST_CONTAINED"
	asWatcher    = "WICD_TEST_WATCH"
)

// TestMain runs the test program in other roles: the service that tests create, the shutdown.exe that they call, and other processes.
func TestMain(m *testing.M) {
	if code, isChild := Child(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); isChild {
		os.Exit(code)
	}
	if len(os.Args) > 2 && os.Args[1] == asService && os.Args[2] == "vanishes" {
		os.Exit(vanish())
	}
	if len(os.Args) > 2 && os.Args[1] == asService && os.Args[2] == "ends" {
		if scm.Serve("", func(context.Context) uint32 { return endsWith }) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 2 && os.Args[1] == asService {
		if err := svc.Run("", testService(os.Args[2])); err != nil {
			os.Exit(1)
		}
		if os.Args[2] == "lingers" {
			time.Sleep(2 * time.Second) // the service has already reported to the SCM that it has stopped
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == asChild {
		time.Sleep(time.Minute)
	}
	if file := os.Getenv(asShutdown); file != "" {
		if err := os.WriteFile(file, []byte(strings.Join(os.Args[1:], "\n")), 0o600); err != nil {
			os.Exit(1)
		}
		code, _ := strconv.Atoi(os.Getenv("exit"))
		os.Exit(code)
	}
	if file := os.Getenv(asLockHolder); file != "" {
		if _, err := (&system{}).Lock(file); err != nil {
			os.Exit(1)
		}
		fmt.Print("!")
		time.Sleep(time.Minute)
	}
	if how := os.Getenv(asWatcher); how != "" {
		os.Exit(holdService(how))
	}
	if file := os.Getenv(asClient); file != "" {
		if err := verify(file); err != nil {
			fmt.Print(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(asContained) != "" {
		os.Exit(contained())
	}
	if chain := os.Getenv(asStdio); chain != "" {
		os.Exit(converseOverStdio(chain))
	}
	if os.Getenv(asEcho) != "" {
		os.Exit(echo(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// vanish runs a service whose process exits before the SCM has the answer to its stop request.
func vanish() int {
	handler := windows.NewCallback(func(control uint32, _, _, _ uintptr) uintptr {
		if control == windows.SERVICE_CONTROL_STOP {
			windows.ExitProcess(0)
		}
		return 0
	})
	begin := windows.NewCallback(func(_ uint32, arguments **uint16) uintptr {
		if handle, err := windows.RegisterServiceCtrlHandlerEx(*arguments, handler, 0); err == nil {
			_ = windows.SetServiceStatus(handle, &windows.SERVICE_STATUS{
				ServiceType: windows.SERVICE_WIN32_OWN_PROCESS, CurrentState: windows.SERVICE_RUNNING, ControlsAccepted: windows.SERVICE_ACCEPT_STOP,
			})
			time.Sleep(time.Minute)
		}
		return 0
	})
	table := []windows.SERVICE_TABLE_ENTRY{{ServiceName: windows.StringToUTF16Ptr(""), ServiceProc: begin}, {}}
	if err := windows.StartServiceCtrlDispatcher(&table[0]); err != nil {
		return 1
	}
	return 0
}

// contained starts another program after Contain, prints its process ID, and keeps running.
func contained() int {
	if err := Contain(); err != nil {
		fmt.Println(err)
		return 1
	}
	other := exec.Command(os.Args[0], asChild)
	if err := other.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(other.Process.Pid)
	time.Sleep(time.Minute)
	return 0
}

// echo prints its arguments and the first line of its input; with argument fail it also prints an error, and with hang it does not exit.
func echo(args []string) int {
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	switch args[0] {
	case "fail":
		fmt.Fprint(os.Stderr, line)
		return 3
	case "hang":
		time.Sleep(time.Hour)
	}
	fmt.Print(strings.Join(args, " "), ": ", line)
	return 0
}

// command returns the command line that runs the test program as a service with a behavior.
func command(t *testing.T, behavior string) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`"%s" %s %s`, program, asService, behavior)
}

// testService is the name of the behavior of a service. Execute has all but ends, which TestMain runs.
type testService string

// endRequest is the first control that makes a service stop on its own; the exit code is added to it. Controls from 128 to 255 are user-defined.
const endRequest = 128

// endsWith is the exit code of the service ends, which Serve runs.
const endsWith = 43

// deleteRequest makes a service delete itself. If that fails, the service ends.
const deleteRequest = 140

func (b testService) Execute(args []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	switch b {
	case "fails":
		return true, 42
	case "tells": // writes its environment to a file in a folder
		if err := os.WriteFile(os.Args[3]+`\`+args[0], []byte(strings.Join(os.Environ(), "\n")), 0o600); err != nil {
			return false, 1
		}
	case "serves": // the lab's Host Network Service (Store.Serve in lab/windows/hns), which answers while this file is locked
		if release, err := serveNetworks(); err == nil {
			defer release()
		} else {
			return false, 1
		}
	case "starts": // starts another program that is no service, and that keeps running when this one ends
		if exec.Command(os.Args[3], asChild).Start() != nil {
			return false, 1
		}
	case "hangs":
		status <- svc.Status{State: svc.StartPending, Accepts: svc.AcceptStop}
		for r := range requests {
			if r.Cmd == svc.Stop {
				return false, 0
			}
		}
	case "slow":
		for checkPoint := range uint32(8) {
			status <- svc.Status{State: svc.StartPending, CheckPoint: checkPoint + 1, WaitHint: 1000}
			time.Sleep(150 * time.Millisecond)
		}
	}
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop}
	for r := range requests {
		switch r.Cmd {
		case svc.Interrogate:
			status <- r.CurrentStatus
		case svc.Stop:
			if b != "stuck" && b != "starts" {
				return false, 0
			}
			status <- svc.Status{State: svc.StopPending}
		case endRequest, endRequest + 1:
			return false, uint32(r.Cmd - endRequest)
		case deleteRequest:
			if err := (&services{timeout: time.Second}).Delete(context.Background(), args[0]); err != nil {
				return false, 1
			}
		}
	}
	return false, 0
}

// onWine reports whether this Windows is Wine.
func onWine() bool {
	return windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
}
