package configure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/supervisor"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/trust"
)

// originalFile exists while a host is taken over from the original operator. With it, the join after an interrupted one continues the takeover even
// if the services no longer reveal it.
const originalFile = desired.State + `\original-operator`

// originalContainerd is the program that the original operator's daemon excludes from Defender's scans. Nothing runs under that name.
const originalContainerd = `C:\k\containerd\containerd.exe`

// importedFile has the certificates that the original operator's daemon added to the machine's store.
const importedFile = `C:\k\imported-certs.pem`

// originalOperator takes over what the original operator has on a host that it configured.
type originalOperator struct {
	work
	certificates certificates
	exclusions   exclusions
	// isManaged is true on a host with a record, declared is the host's wanted state.
	isManaged bool
	declared  desired.Node
}

// takeOver stops the original operator's daemon before anything else changes: it would restore its services, variables and certificates, whose
// declaration is still in the cluster. Its other services continue until the operator's replace them.
func (o originalOperator) takeOver(ctx context.Context) error {
	names, err := o.services(ctx)
	if err != nil || len(names) == 0 && !o.Disk.Exists(originalFile) {
		return err
	}
	if changed, err := o.Disk.WriteFile(originalFile, "This host is being taken over from the original operator.\n"); err != nil {
		return err
	} else if changed {
		o.recordChange("the original operator configured this host: services %s", strings.Join(names, ", "))
	}
	if slices.Contains(names, api.WICDService) {
		if err := o.Services.Stop(ctx, api.WICDService); err != nil {
			return fmt.Errorf("stopping the original operator's daemon: %w", err)
		}
	}
	if err := o.exclusions.adopt(desired.Exclusions{Processes: []string{originalContainerd}}); err != nil {
		return err
	}
	return o.adoptCertificates()
}

// services returns the names of the original operator's services. They have the same mark as the operator's, which run from version folders. A host
// with a record has none, unless a takeover was interrupted.
func (o originalOperator) services(ctx context.Context) (names []string, err error) {
	if o.isManaged && !o.Disk.Exists(originalFile) {
		return nil, nil
	}
	found, err := o.Services.List(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("listing services: %w", err)
	}
	for _, s := range found {
		if supervisor.IsManaged(s) && !strings.Contains(strings.ToLower(s.Command), strings.ToLower(desired.Versions+`\`)) {
			names = append(names, s.Name)
		}
	}
	return names, nil
}

// adoptCertificates records the certificates that the original operator's daemon added as WICD's. Those that are not wanted are removed then.
func (o originalOperator) adoptCertificates() error {
	b, err := o.Disk.Read(importedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", importedFile, err)
	}
	imported, err := trust.Read(string(b))
	if err != nil {
		o.recordChange("%s is unreadable: certificates that the original operator's daemon added stay trusted", importedFile)
		return nil
	}
	var hashes []string
	for _, i := range imported {
		hashes = append(hashes, i.SHA256)
	}
	return o.certificates.adopt(hashes)
}

// original is a file of the original operator, with the reason for its removal.
type original struct{ path, reason string }

// originalFiles returns the files that the original operator leaves on a host and that are no longer used, unless one is declared under the same
// name. Folders are removed when empty. Logs stay, and so does the state in Windows itself: HNS networks, which pods may use, and firewall rules,
// which this operator needs, too.
func originalFiles() []original {
	const (
		program = "programs now run from version folders"
		scripts = "the daemon runs no scripts"
		secret  = "it is a secret that does not expire"
	)
	return []original{
		{`C:\k\hybrid-overlay-node.exe`, program}, {`C:\k\kube-proxy.exe`, program}, {`C:\k\csi-proxy.exe`, program},
		{`C:\k\windows_exporter.exe`, program}, {`C:\k\azure-cloud-node-manager.exe`, program},
		{`C:\k\ecr-credential-provider.exe`, program}, {`C:\k\cni\win-bridge.exe`, program},
		{`C:\k\credential-provider-config.yaml`, "its programs were removed"},
		{`C:\k\cloud.conf`, "the kubelet reads no cloud configuration"},
		{`C:\k\kube-proxy.conf`, "its service is removed"},
		{`C:\k\bootstrap-ca.crt`, "the CA of the API server is in the bootstrap kubeconfig"},
		{`C:\k\ca-bundle.crt`, "certificates are part of the settings"},
		{importedFile, "WICD keeps its own list"},
		{`C:\k\wicd-kubeconfig`, secret}, {`C:\k\tls\certs\tls.key`, secret}, {`C:\k\tls\certs\tls.crt`, "its key is removed"},
		{`C:\k\tls\windows-exporter-webconfig.yaml`, "its service is removed"},
		{`C:\Temp\network-conf.ps1`, scripts}, {`C:\Temp\hns.psm1`, scripts}, {`C:\Temp\gcp-get-hostname.ps1`, scripts},
		{`C:\Temp\windows-defender-exclusion.ps1`, scripts},
		{`C:\k\tls\certs`, "it is empty"}, {`C:\k\tls`, "it is empty"}, {`C:\Temp`, "it is empty"},
	}
}

// removeFiles removes what the original operator left, after the operator's services have replaced its own.
func (o originalOperator) removeFiles(context.Context) error {
	if !o.Disk.Exists(originalFile) {
		return nil
	}
	all, err := o.surplus()
	if err != nil {
		return err
	}
	var failed []string
	for _, f := range all {
		if info, err := o.Disk.Stat(f.path); err != nil || info.IsDir() && !isEmpty(o.Disk, f.path) {
			continue
		}
		if err := o.Disk.Remove(f.path); err != nil {
			failed = append(failed, f.path)
			continue // in use: the next join tries again
		}
		o.recordChange("%s removed: %s", f.path, f.reason)
	}
	if len(failed) > 0 {
		return nil
	}
	return o.Disk.Remove(originalFile)
}

// surplus returns the original operator's files that are not declared: those with known names, and also keys of its network and registry mirrors.
func (o originalOperator) surplus() ([]original, error) {
	all := originalFiles()
	names, err := o.Disk.List(desired.CNIFolder)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasPrefix(name, "ovnkube-client-") && strings.HasSuffix(name, ".pem") {
			all = append(all, original{desired.CNIFolder + `\` + name, "its service is removed"})
		}
	}
	registries, err := o.Disk.List(desired.Registries)
	if err != nil {
		return nil, err
	}
	for _, name := range registries {
		folder := desired.Registries + `\` + name
		if text, err := o.Disk.Read(folder + `\hosts.toml`); err == nil && mirrors.IsGenerated(string(text)) {
			continue
		}
		all = append(all, original{folder + `\hosts.toml`, "no mirror set contains it"}, original{folder, "it is empty"})
	}
	declared := map[string]bool{}
	for _, f := range o.declared.Files {
		declared[f.Path] = true
	}
	for _, f := range o.declared.Payload {
		declared[desired.Root+`\`+f.Path] = true
	}
	return slices.DeleteFunc(all, func(f original) bool { return declared[f.path] }), nil
}

func isEmpty(d hostapi.Disk, folder string) bool {
	names, err := d.List(folder)
	return err == nil && len(names) == 0
}
