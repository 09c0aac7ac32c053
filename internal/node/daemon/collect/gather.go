package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/node/daemon/eventlog"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/daemon/supervisor"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// part is one file of the archive that is not a log.
type part struct {
	name  string
	value any
	err   error
}

// gather queries everything at once, and returns the facts of the host first. A part that does not answer in time gets an error.
func (c *Collector) gather(ctx context.Context) []part {
	requests := []struct {
		name    string
		request func(context.Context) (any, error)
	}{
		{"host.json", c.host},
		{"node.json", c.node},
		{"services.json", c.services},
		{"hns.json", func(ctx context.Context) (any, error) { return c.Host.Networks.List(ctx) }},
		{"routes.json", func(ctx context.Context) (any, error) { return c.Host.Inventory.Routes(ctx) }},
		{"firewall.json", c.firewall},
		{"containerd.json", c.containerd},
		{"certificates.json", c.certificates},
		{"files.json", c.files},
		{"logs.json", c.logFiles},
		{"journal.json", func(context.Context) (any, error) { return state.LastNotes(c.Host.Disk, maxNotes) }},
	}
	found := make([]part, len(requests))
	ctx, cancel := context.WithTimeout(ctx, partTimeout)
	defer cancel()
	var work sync.WaitGroup
	for i, a := range requests {
		work.Go(func() { found[i] = collectPart(ctx, a.name, a.request) })
	}
	work.Wait()
	return found
}

// collectPart returns the result, or an error when ctx ends first. Some Windows calls cannot be canceled.
func collectPart(ctx context.Context, name string, request func(context.Context) (any, error)) part {
	done := make(chan part, 1)
	go func() {
		value, err := request(ctx)
		done <- part{name, value, err}
	}()
	select {
	case p := <-done:
		return p
	case <-ctx.Done():
		return part{name: name, err: fmt.Errorf("no response within %s", partTimeout)}
	}
}

// maxNotes is how many lines of the journal are collected.
const maxNotes = 2000

// hostReport has facts of the host.
type hostReport struct {
	wicdapi.HostFacts
	// Zone is the time zone, in which the kubelet and containerd write their logs.
	Zone string `json:"zone"`
}

func (c *Collector) host(ctx context.Context) (any, error) {
	facts, err := c.Host.System.Facts(ctx)
	return hostReport{HostFacts: facts, Zone: time.Now().Format("-07:00")}, err
}

// node returns what the last join requested, without secrets.
func (c *Collector) node(context.Context) (any, error) {
	r := c.Record
	settings, err := r.Desired.Hash()
	return map[string]any{
		"node": r.Node, "cluster": r.Cluster, "namespace": r.Namespace, "server": r.Bootstrap.Server, "version": r.Desired.Version, "digest": r.Desired.Digest,
		"settings": settings, "serial": r.Serial, "complete": r.Complete, "pulled": r.Pulled, "leaving": r.Leaving,
		"hasCredentials": len(r.Secrets.Files)+len(r.Secrets.Environment) > 0, "sandboxImage": c.Wanted.SandboxImage,
	}, err
}

// serviceReport describes a service.
type serviceReport struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	PID      uint32 `json:"pid,omitempty"`
	ExitCode uint32 `json:"exitCode,omitempty"`
	Ours     bool   `json:"ours"`
	// Declared is the command line that the operator declares, AsDeclared whether the service has it. Program is the program of any other
	// service, whose arguments may contain secrets.
	Declared   string   `json:"declared,omitempty"`
	AsDeclared bool     `json:"asDeclared,omitempty"`
	Program    string   `json:"program,omitempty"`
	DependsOn  []string `json:"dependsOn,omitempty"`
}

// windowsServices are the services of Windows on which a node depends.
func windowsServices() []string {
	return []string{
		"hns", "vmcompute", "vfpext", "nvagent", "vmms", "SharedAccess", "NetSetupSvc", "nsi", "iphlpsvc", "Dnscache", "Dhcp", "BFE", "mpssvc",
		"EventLog", "W32Time", "sshd", "WinDefend", "CmService",
	}
}

func (c *Collector) services(ctx context.Context) (any, error) {
	list, err := c.Host.Services.List(ctx, append(desired.Services(), windowsServices()...))
	if err != nil {
		return nil, err
	}
	var reports []serviceReport
	for _, s := range list {
		r := serviceReport{
			Name: s.Name, State: string(s.State), PID: s.PID, ExitCode: s.ExitCode, Ours: supervisor.IsManaged(s), DependsOn: s.DependsOn,
		}
		named := func(d desired.Service) bool { return d.Name == s.Name }
		declared, wanted := slices.IndexFunc(c.Record.Desired.Services, named), slices.IndexFunc(c.Wanted.Services, named)
		if declared >= 0 && wanted >= 0 {
			r.Declared, r.AsDeclared = c.Record.Desired.Services[declared].Command, c.Wanted.Services[wanted].Command == s.Command
		} else {
			r.Program = programOf(s.Command)
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// programOf returns the program of a command line, without its arguments.
func programOf(command string) string {
	if quoted, ok := strings.CutPrefix(command, `"`); ok {
		program, _, _ := strings.Cut(quoted, `"`)
		return program
	}
	if end := strings.Index(strings.ToLower(command), ".exe"); end >= 0 {
		command = command[:end+len(".exe")]
	}
	program, _, _ := strings.Cut(command, " -")
	program, _, _ = strings.Cut(program, " /")
	return program
}

func (c *Collector) firewall(ctx context.Context) (any, error) {
	rules, err := c.Host.Inventory.FirewallRules(ctx)
	report := map[string]any{"declared": c.Record.Desired.Firewall, "rules": rules}
	if errors.Is(err, hostapi.ErrNoFirewall) {
		report["message"], err = err.Error(), nil
	}
	return report, err
}

func (c *Collector) containerd(ctx context.Context) (any, error) {
	report := map[string]any{}
	note := func(key string, value any, err error) {
		if report[key] = value; err != nil {
			report[key+"Error"] = err.Error()
		}
	}
	containers, err := c.Host.Containers.List(ctx)
	note("containers", containers, err)
	ready, err := c.Host.Runtime.NetworkReady(ctx)
	note("networkReady", ready, err)
	if c.Wanted.SandboxImage != "" {
		_, found, err := c.Host.Runtime.ImageStatus(ctx, c.Wanted.SandboxImage)
		note("hasSandboxImage", found, err)
	}
	return report, nil
}

// certificateReport describes a certificate.
type certificateReport struct {
	File      string    `json:"file"`
	Subject   string    `json:"subject,omitempty"`
	Issuer    string    `json:"issuer,omitempty"`
	NotBefore time.Time `json:"notBefore,omitzero"`
	NotAfter  time.Time `json:"notAfter,omitzero"`
	Names     []string  `json:"names,omitempty"`
	Error     string    `json:"error,omitempty"`
}

func (c *Collector) certificates(ctx context.Context) (any, error) {
	var files []certificateReport
	for _, name := range credentials.CertificateFiles() {
		leaf, err := credentials.ReadCertificate(c.Host.Disk, name)
		if err != nil {
			files = append(files, certificateReport{File: name, Error: "missing or unreadable"})
			continue
		}
		names := slices.Clone(leaf.DNSNames)
		for _, ip := range leaf.IPAddresses {
			names = append(names, ip.String())
		}
		files = append(files, certificateReport{
			File: name, Subject: leaf.Subject.String(), Issuer: leaf.Issuer.String(), NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter, Names: names,
		})
	}
	roots, err := c.Host.Certificates.List(ctx)
	return map[string]any{"files": files, "rootsSHA256": roots}, err
}

// fileReport describes a file without its content.
type fileReport struct {
	Path       string    `json:"path"`
	Bytes      int64     `json:"bytes"`
	Changed    time.Time `json:"changed,omitzero"`
	AsDeclared *bool     `json:"asDeclared,omitempty"`
	Error      string    `json:"error,omitempty"`
}

func (c *Collector) files(context.Context) (any, error) {
	var files []fileReport
	for _, f := range c.Wanted.Files {
		r := c.stat(f.Path)
		if r.Error == "" {
			b, err := c.Host.Disk.Read(f.Path)
			same := err == nil && string(b) == f.Content
			r.AsDeclared = &same
		}
		files = append(files, r)
	}
	for _, p := range c.Wanted.Payload {
		r := c.stat(desired.VersionFolder(c.Wanted.Digest) + `\` + p.Path)
		same := r.Error == "" && r.Bytes == p.Size
		r.AsDeclared = &same
		files = append(files, r)
	}
	return files, nil
}

func (c *Collector) stat(path string) fileReport {
	info, err := c.Host.Disk.Stat(path)
	if err != nil {
		return fileReport{Path: path, Error: "not found"}
	}
	return fileReport{Path: path, Bytes: info.Size(), Changed: info.ModTime().UTC()}
}

// logFiles lists the files in the log folders, except those of pods.
func (c *Collector) logFiles(context.Context) (any, error) {
	folders, err := c.Host.Disk.List(desired.Logs)
	if err != nil {
		return nil, err
	}
	var files []fileReport
	for _, folder := range folders {
		if folder == "pods" || folder == "containers" {
			continue
		}
		names, err := c.Host.Disk.List(desired.Logs + `\` + folder)
		if err != nil {
			files = append(files, c.stat(desired.Logs+`\`+folder)) // it is not a folder
			continue
		}
		for _, name := range names[:min(len(names), maxListed)] {
			files = append(files, c.stat(desired.Logs+`\`+folder+`\`+name))
		}
	}
	return files, nil
}

// maxListed is the maximum number of files that are listed of a folder.
const maxListed = 200

// logFile is a log with its name in the archive.
type logFile struct{ path, name string }

// logs returns the logs that are collected.
func (c *Collector) logs() []logFile {
	paths := []string{desired.Logs + `\wicd\update.log`}
	for _, s := range c.Wanted.Services {
		if hostapi.IsRelative(strings.TrimPrefix(s.Log.Path, desired.Logs+`\`)) && strings.HasPrefix(s.Log.Path, desired.Logs+`\`) {
			paths = append(paths, s.Log.Path)
		}
	}
	for _, ch := range eventlog.Channels() {
		paths = append(paths, eventlog.Folder+`\`+ch.File)
	}
	var files []logFile
	for _, path := range slices.Compact(slices.Sorted(slices.Values(paths))) {
		files = append(files, logFile{path, "logs/" + strings.ReplaceAll(strings.TrimPrefix(path, desired.Logs+`\`), `\`, "/")})
	}
	return files
}
