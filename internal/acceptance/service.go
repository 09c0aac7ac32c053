package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/host"
)

// ServiceName is the name of the temporary service in which a run survives what cuts the session of its user. It is not marked as the
// product's: WICD would remove it.
const ServiceName = "wmco-acceptance"

// IsService tells whether a program is the one that the service starts.
func IsService(program string) bool { return strings.EqualFold(program, serviceProgram) }

// The files of the service, in a folder that only administrators may use.
const (
	serviceFolder  = Root + `\service`
	serviceProgram = serviceFolder + `\wmco-acceptance.exe`
	orderFile      = serviceFolder + `\order.json`
	outputFile     = serviceFolder + `\output.log`
	resultFile     = serviceFolder + `\result`
)

const (
	// maxStarts is how often the service may start for one run: once, and after the restarts that a join asks for.
	maxStarts = 4
	maxOrder  = 16 << 10
	maxResult = 16
)

// order is what the service runs: the command line of the user.
type order struct {
	Args   []string `json:"args"`
	Starts int      `json:"starts"`
}

// Detach runs the program with these arguments in a temporary service, and repeats what it says. The service goes on when this process ends. It
// returns the exit code of the run.
func Detach(ctx context.Context, m Machine, o Options, args []string) (int, error) {
	s, release, err := open(ctx, m, o)
	if err != nil {
		_, err = refuse(ctx, m, o, err)
		return 0, err
	}
	err = errors.Join(s.undoAll(ctx), s.Host.Disk.Remove(resumeFile))
	if err == nil {
		err = s.makeService(ctx, args)
	}
	release()
	if err != nil {
		return 0, errors.Join(err, s.cleanUpService())
	}
	if _, code, err := s.run(ctx, "sc.exe start "+ServiceName); err != nil || code != 0 {
		return 0, errors.Join(err, fmt.Errorf("starting service %s: sc.exe ends with %d", ServiceName, code), s.cleanUpService())
	}
	s.say("this runs as service %s, and goes on when this session ends; the report is in the folder of --out", ServiceName)
	code, err := s.follow(ctx)
	return code, errors.Join(err, s.cleanUpService())
}

// makeService makes the service, which starts with Windows until the run has ended.
func (s *session) makeService(ctx context.Context, args []string) error {
	if _, err := s.folder(ctx, filepath.Base(s.Host.Disk.Local(serviceFolder))); err != nil {
		return err
	}
	if err := copyFile(s.Program, s.Host.Disk.Local(serviceProgram)); err != nil {
		return err
	}
	if err := s.writeOrder(order{Args: args}); err != nil {
		return err
	}
	return s.change(change{Kind: kindService}, func() error {
		output, code, err := s.run(ctx, "sc.exe create "+ServiceName+" binPath= "+serviceProgram+" start= auto")
		if err == nil && code != 0 {
			err = fmt.Errorf("creating service %s: sc.exe ends with %d: %s", ServiceName, code, strings.TrimSpace(output))
		}
		return err
	})
}

func (s *session) writeOrder(o order) error {
	text, err := json.Marshal(o)
	if err == nil {
		_, err = s.Host.Disk.WriteFile(orderFile, string(text))
	}
	return err
}

func parseOrder(content []byte) (o order, err error) {
	if len(content) > maxOrder {
		return o, fmt.Errorf("it has more than %d bytes", maxOrder)
	}
	if err := json.Unmarshal(content, &o); err != nil {
		return o, err
	}
	if len(o.Args) == 0 || o.Starts < 0 {
		return o, errors.New("it has no arguments")
	}
	return o, nil
}

// follow repeats what the service says, until its run has ended. When ctx ends, the run is stopped, which puts back what it changed.
func (s *session) follow(ctx context.Context) (code int, err error) {
	output, err := os.OpenFile(s.Host.Disk.Local(outputFile), os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	defer output.Close()
	ends := ctx.Done()
	for {
		if _, err := io.Copy(s.out, output); err != nil {
			return 0, err
		}
		if code, ended := s.result(); ended {
			_, err := io.Copy(s.out, output)
			return code, err
		}
		if s.wasKilled(ctx) {
			return 0, errKilled
		}
		select {
		case <-ends:
			ends = nil
			s.say("stopping service %s, which puts back what it changed", ServiceName)
			_, _, err := s.run(context.WithoutCancel(ctx), "sc.exe stop "+ServiceName)
			if err != nil {
				return 0, err
			}
		case <-time.After(pollInterval):
		}
	}
}

// errKilled is the error of a run whose service ended without a result.
var errKilled = errors.New("service " + ServiceName + " ended in the middle of its run, and what it changed was put back: start this program again")

// wasKilled tells whether the service has ended without a result, and not because Windows restarts.
func (s *session) wasKilled(ctx context.Context) bool {
	services, err := s.Host.Services.List(context.WithoutCancel(ctx), []string{ServiceName})
	ended := err == nil && !slices.ContainsFunc(services, func(v host.Service) bool { return v.Name == ServiceName && v.State != host.Stopped })
	if !ended || s.Host.Disk.Exists(resumeFile) {
		return false
	}
	_, wrote := s.result() // it writes that before it ends
	return !wrote
}

// result is the exit code of the run in the service, once it has ended.
func (s *session) result() (code int, ended bool) {
	content, err := s.Host.Disk.Read(resultFile)
	if err != nil || len(content) > maxResult {
		return 0, false
	}
	code, err = strconv.Atoi(strings.TrimSpace(string(content)))
	return code, err == nil
}

// cleanUpService removes the service, and its folder, when its run has ended. Its process may need a moment to end.
func (s *session) cleanUpService() error {
	ctx := context.Background()
	var err error
	for range 10 {
		if err = s.restore(ctx); err == nil {
			return nil
		}
		time.Sleep(time.Second)
	}
	return err
}

func (s *session) restore(ctx context.Context) error {
	_, err := Restore(ctx, s.Machine, Options{OnWine: s.Wine, Out: s.out})
	return err
}

// removeService removes the service. One that runs in this process goes when it has stopped.
func (s *session) removeService(ctx context.Context) error {
	return s.Host.Services.Delete(ctx, ServiceName)
}

// Serve is what the service does: it runs its order, with run as the program itself, and removes the service when the run has ended. A run
// that restarts Windows goes on with the next start. One that was cut is only put back.
func Serve(ctx context.Context, m Machine, restarting int, run func(ctx context.Context, args []string, out io.Writer) int) error {
	content, err := m.Host.Disk.Read(orderFile)
	if err != nil {
		return err
	}
	o, err := parseOrder(content)
	if err != nil {
		return fmt.Errorf("reading %s: %w", orderFile, err)
	}
	out, err := os.OpenFile(m.Host.Disk.Local(outputFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	s := &session{Machine: m, out: out, inService: true}
	o.Starts++
	if err := s.writeOrder(o); err != nil {
		return err
	}
	args := append(o.Args, "--in-service")
	if o.Starts > maxStarts || o.Starts > 1 && !m.Host.Disk.Exists(resumeFile) {
		s.say("the run was cut: what it changed is put back")
		args = append(args, "--restore")
	}
	code := run(ctx, args, out)
	if code == restarting {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	if _, err := m.Host.Disk.WriteFile(resultFile, strconv.Itoa(code)); err != nil {
		return err
	}
	return s.removeService(ctx)
}
