//go:build linux

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/testing/acceptance"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

const (
	// acceptanceFolder is where the acceptance program is on the host.
	acceptanceFolder = `C:\acceptance`
	// featuresKey has the states of the lab's Windows features.
	featuresKey = `HKLM\Software\WMCOLab\Features`
)

// TestJoinOfAcceptance runs the acceptance program with --join on a Wine host, where control plane, operator and node are programs for Windows. It
// does not use the environment's own control plane.
func TestJoinOfAcceptance(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newHarness(t, testenv.Options{
		WineHosts: 1, Network: testenv.NetworkFlannel, Components: []string{"containerd-shim-runhcs-v1", "win-overlay", "hybrid-overlay-node"},
	})
	host := p.Lab.Hosts()[0]
	must(t, p.Lab.AddStandIns(t.Context(), p.PodImages()))
	p.installAcceptance(host)
	for _, test := range []struct {
		name string
		run  func(acceptanceTest)
	}{
		{"the next run cleans up after a run whose session was cut", acceptanceTest.cutSession},
		{"a service survives cut connections at each step and two restarts of Windows", acceptanceTest.restartInService},
		{"networks of the overlay are removed after a killed and a complete run", acceptanceTest.makeNetworks},
		{"a killed service is reported and reverted", acceptanceTest.killService},
	} {
		if !t.Run(test.name, func(t *testing.T) { test.run(acceptanceTest{p.withT(t), host, takeSnapshot(t, host)}) }) {
			return
		}
	}
}

// acceptanceTest is a host with the acceptance program, and the host's state before the program ran.
type acceptanceTest struct {
	harness
	host  *lab.Host
	fresh snapshot
}

// programCommand returns the command line of the program, joinCommand that of a join, with further options.
func programCommand(more string) string {
	return acceptanceFolder + `\wmco-acceptance.exe --on-wine --out ` + acceptanceFolder + more
}

func (a acceptanceTest) joinCommand(more string) string {
	return programCommand(" --join --mirror " + a.PodImages().Host + more)
}

// webImage are the options that enable step traffic.
const webImage = " --image mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022 --image-port 80"

// stepsOfJoin returns the IDs of the steps that work on Wine, in order. Wine has no service vmcompute.
func stepsOfJoin() []string {
	return []string{"control-plane", "operator", "ssh", "node-ready", "pod", "traffic", "hns-restarted", "containerd-restarted", "wicd-restarted", "leave"}
}

// cutsOfJoin returns the steps at which the process of the service is killed. Each takes a minute or more, so by default only three are tested:
// before the machine is a node, while it becomes one, and before WICD is killed as well. WMCO_ACCEPTANCE_CUTS names others, separated by commas, or
// "all".
func cutsOfJoin() []string {
	if steps := os.Getenv("WMCO_ACCEPTANCE_CUTS"); steps == "all" {
		return stepsOfJoin()
	} else if steps != "" {
		return strings.Split(steps, ",")
	}
	return []string{"control-plane", "node-ready", "wicd-restarted"}
}

// cutSession closes the connection at a step, which makes the server end the program.
func (a acceptanceTest) cutSession() {
	output, err := a.runAsUser(a.host, a.joinCommand(webImage), func(line string) error {
		if strings.HasPrefix(line, "pod: ") {
			return errCut
		}
		return nil
	})
	if !errors.Is(err, errCut) {
		a.t.Fatalf("the session ended before it was cut: %v\n%s", err, output)
	}
	output, err = a.runAsUser(a.host, a.joinCommand(webImage), nil) // cleans up after the previous run
	a.t.Logf("%s", output)
	if err != nil {
		a.t.Error(err)
	}
	a.expectReport(stepsOfJoin(), "vmcompute-restarted", "restarted")
	a.expectUnchanged("at the end")
}

// restartInService joins a host without feature Containers to a cluster with OVN-Kubernetes' hybrid overlay.
func (a acceptanceTest) restartInService() {
	disabled := guestapi.RegistryValue{Type: "REG_DWORD"} // 0
	must(a.t, a.host.WriteRegistry(a.t.Context(), featuresKey, "Containers", disabled))
	reported, err := a.runAsUser(a.host, a.joinCommand(webImage+" --as-service --restart-allowed --network ovn"), func(line string) error {
		if strings.HasPrefix(line, "this runs as service ") {
			return errCut
		}
		return nil
	})
	if !errors.Is(err, errCut) {
		a.t.Fatalf("the session ended before it was cut: %v\n%s", err, reported)
	}
	cutAt := map[string]bool{}
	testenv.Eventually(a.t, 3*waitTimeout, "the run ends", func(context.Context) string {
		output, err := a.host.ReadFile(acceptance.Root + `\service\output.log`)
		if err != nil {
			return err.Error() // Windows restarts
		}
		reported = string(output)
		for line := range strings.Lines(reported) {
			id, _, isStep := strings.Cut(line, ": ")
			if isStep && !cutAt[id] && !strings.ContainsAny(id, " #") {
				cutAt[id] = true
				if err := a.host.CutConnections(); err != nil {
					a.t.Log(err) // Windows restarts
				}
			}
		}
		if _, err := a.host.ReadFile(acceptance.Root + `\service\result`); err != nil {
			return "output so far:\n" + reported
		}
		return ""
	})
	a.t.Logf("%s", reported)
	a.expectReport(append([]string{"containers", "restarted"}, stepsOfJoin()...), "vmcompute-restarted")
	for _, step := range stepsOfJoin() {
		if !cutAt[step] {
			a.t.Errorf("step %s ended before its connections were cut", step)
		}
	}
	a.eventually("--restore removes the rest", func(context.Context) string {
		if reported, err := a.runAsUser(a.host, programCommand(" --restore"), nil); err != nil {
			return reported + err.Error() // the service may still run
		}
		return ""
	})
	a.expectUnchanged("at the end")
}

// killService kills the process of the service at steps of a join. The program in the session reports this and reverts the service's changes.
func (a acceptanceTest) killService() {
	for _, step := range cutsOfJoin() {
		options := " --as-service"
		if step == "traffic" {
			options += webImage
		}
		began, killed := time.Now(), false
		output, err := a.runAsUser(a.host, a.joinCommand(options), func(line string) error {
			if killed || !strings.HasPrefix(line, step+": ") {
				return nil
			}
			killed = true
			return a.host.KillService(a.t.Context(), acceptance.ServiceName)
		})
		if !killed || err == nil || !strings.Contains(output, "ended in the middle of its run") {
			a.t.Errorf("step %s (killed: %v): the session ended with %v:\n%s", step, killed, err, output)
		}
		a.expectUnchanged("killed at " + step)
		a.t.Logf("%s: %.0f s", step, time.Since(began).Seconds())
	}
}

// makeNetworks runs line hns with the lab's Host Network Service, from which other networks are removed meanwhile.
func (a acceptanceTest) makeNetworks() {
	service := a.host.HNS()
	others, err := service.List(hns.Network)
	must(a.t, err)
	must(a.t, service.Lose(hns.Network))
	defer func() {
		for _, network := range others {
			if _, err := service.Create(hns.Network, network); err != nil {
				a.t.Error(err)
			}
		}
	}()
	expectNone := func(when string) {
		a.t.Helper()
		for _, kind := range []hns.Kind{hns.Network, hns.Endpoint, hns.LoadBalancer} {
			if found, err := service.List(kind); err != nil || len(found) > 0 {
				a.t.Errorf("%s: objects of kind %s remain: %v (%v)", when, kind, found, err)
			}
		}
	}
	command := programCommand(" --only hns --network-cut-allowed")
	output, err := a.runAsUser(a.host, command, func(line string) error {
		if strings.Contains(line, "300 remote subnets") {
			return errCut
		}
		return nil
	})
	if !errors.Is(err, errCut) {
		a.t.Fatalf("the session ended before it was cut: %v\n%s", err, output)
	}
	if output, err := a.runAsUser(a.host, programCommand(" --restore"), nil); err != nil {
		a.t.Errorf("%s%v", output, err)
	}
	expectNone("after the killed run")
	output, err = a.runAsUser(a.host, command, nil)
	a.t.Logf("%s", output)
	if err != nil {
		a.t.Error(err)
	}
	a.expectReport([]string{"hns"})
	expectNone("after the complete run")
}

// expectReport checks that the steps of a finished report are confirmed, except the untried ones.
func (a acceptanceTest) expectReport(confirmed []string, untried ...string) {
	a.t.Helper()
	content, err := a.host.ReadFile(acceptanceFolder + `\report.json`)
	must(a.t, err)
	var report acceptance.Report
	must(a.t, json.Unmarshal(content, &report))
	if len(report.Facts) == 0 || len(report.Left) > 0 || report.Finished.IsZero() {
		a.t.Errorf("the report has %d facts, remains %q and end time %v", len(report.Facts), report.Left, report.Finished)
	}
	got, want := map[string]acceptance.Verdict{}, map[string]acceptance.Verdict{}
	for _, l := range report.Lines {
		got[l.ID] = l.Verdict
	}
	for _, id := range confirmed {
		want[id] = acceptance.Confirmed
	}
	for _, id := range untried {
		want[id] = acceptance.Untried
	}
	if diff := cmp.Diff(want, got); diff != "" {
		a.t.Errorf("verdicts (-want +got):\n%s", diff)
	}
}

// expectUnchanged checks that the program left nothing behind, except feature Containers and the number of the current boot.
func (a acceptanceTest) expectUnchanged(when string) {
	a.t.Helper()
	for _, difference := range a.fresh.compare(takeSnapshot(a.t, a.host), "") {
		if !strings.HasPrefix(difference, "file "+acceptanceFolder) && !strings.Contains(difference, `WMCOLab\Features`) && !strings.Contains(difference, "BootId") {
			a.t.Errorf("%s: %s", when, difference)
		}
	}
}

// installAcceptance builds the acceptance program and the programs for --join, and copies them to a host.
func (p harness) installAcceptance(host *lab.Host) {
	p.t.Helper()
	root, err := testenv.Repository(p.t.Context())
	must(p.t, err)
	built := p.t.TempDir()
	if out, err := exec.CommandContext(p.t.Context(), filepath.Join(root, "hack/acceptance.sh"), built, p.Payload).CombinedOutput(); err != nil {
		p.t.Fatalf("building the acceptance program: %v: %s", err, out)
	}
	err = filepath.WalkDir(built, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := strings.ReplaceAll(strings.TrimPrefix(path, built), "/", `\`)
		return host.WriteFile(acceptanceFolder+name, content)
	})
	must(p.t, err)
}

// errCut is returned by a watch function of runAsUser to close the connection.
var errCut = errors.New("the connection was closed")

// runAsUser runs a command on a host over SSH, and returns its output. It calls watch, if not nil, with each line. If watch returns an error, it
// closes the connection, and the server kills the command.
func (p harness) runAsUser(host *lab.Host, command string, watch func(line string) error) (reported string, err error) {
	signer, err := ssh.ParsePrivateKey(p.Key)
	if err != nil {
		return "", err
	}
	key, err := host.HostKey()
	if err != nil {
		return "", err
	}
	client, err := ssh.Dial("tcp", net.JoinHostPort(host.Address(), "22"), &ssh.ClientConfig{
		User: testenv.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.FixedHostKey(key), Timeout: time.Minute,
	})
	if err != nil {
		return "", err
	}
	defer client.Close()
	defer context.AfterFunc(p.t.Context(), func() { _ = client.Close() })()
	session, err := client.NewSession()
	if err != nil {
		return "", err
	}
	output, err := session.StdoutPipe()
	if err == nil {
		err = session.Start(command)
	}
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for lines := bufio.NewScanner(output); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		if watch == nil {
			continue
		}
		if err := watch(lines.Text()); err != nil {
			return all.String(), errors.Join(err, client.Close())
		}
	}
	return all.String(), session.Wait()
}
