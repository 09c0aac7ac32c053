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

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// ServiceName is the name of the temporary service in which a run survives the end of its user's session. It is not marked as the product's, because
// WICD would remove it.
const ServiceName = "wmco-acceptance"

// IsService reports whether a program is the one that the service starts.
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
	// maxStarts is how often the service may start for one run: once, and after each restart that a join requests.
	maxStarts = 4
	maxOrder  = 16 << 10
	maxResult = 16
)

// order is the command line that the service runs.
type order struct {
	Args   []string `json:"args"`
	Starts int      `json:"starts"`
}

// Detach runs the program with these arguments in a temporary service and copies its output. The service continues if this process ends. Detach
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
		return 0, errors.Join(err, fmt.Errorf("starting service %s: sc.exe exited with code %d", ServiceName, code), s.cleanUpService())
	}
	s.printf("this runs as service %s and continues when this session ends; the report is in the folder of --out", ServiceName)
	code, err := s.follow(ctx)
	return code, errors.Join(err, s.cleanUpService())
}

// makeService creates the service, which starts with Windows until the run has ended.
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
			err = fmt.Errorf("creating service %s: sc.exe exited with code %d: %s", ServiceName, code, strings.TrimSpace(output))
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

// follow copies the service's output until its run has ended. When ctx ends, it stops the run, which then undoes its changes.
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
			s.printf("stopping service %s, which reverts its changes", ServiceName)
			_, _, err := s.run(context.WithoutCancel(ctx), "sc.exe stop "+ServiceName)
			if err != nil {
				return 0, err
			}
		case <-time.After(pollInterval):
		}
	}
}

// errKilled is returned for a service that ended without a result.
var errKilled = errors.New("service " + ServiceName + " ended in the middle of its run, and its changes were reverted: start this program again")

// wasKilled reports whether the service ended without a result although Windows is not restarting.
func (s *session) wasKilled(ctx context.Context) bool {
	services, err := s.Host.Services.List(context.WithoutCancel(ctx), []string{ServiceName})
	ended := err == nil && !slices.ContainsFunc(services, func(v hostapi.Service) bool { return v.Name == ServiceName && v.State != hostapi.Stopped })
	if !ended || s.Host.Disk.Exists(resumeFile) {
		return false
	}
	_, hasResult := s.result() // written before the service ends
	return !hasResult
}

// result returns the exit code of the run in the service. ended is false before there is one.
func (s *session) result() (code int, ended bool) {
	content, err := s.Host.Disk.Read(resultFile)
	if err != nil || len(content) > maxResult {
		return 0, false
	}
	code, err = strconv.Atoi(strings.TrimSpace(string(content)))
	return code, err == nil
}

// cleanUpService removes the service and its folder after its run. The service's process may need a moment to end.
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

// removeService removes the service. If it runs in this process, Windows removes it after it has stopped.
func (s *session) removeService(ctx context.Context) error {
	return s.Host.Services.Delete(ctx, ServiceName)
}

// Serve is the main function of the service: it passes the arguments of its order to run, and removes the service when the run has ended. A run that
// restarts Windows continues at the next start. The changes of an interrupted run are only undone.
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
		s.printf("the run was interrupted; its changes are reverted")
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
