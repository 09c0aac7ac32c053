//go:build linux

package lab

import (
	"context"
	"fmt"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
	"github.com/windows-machine-config/wmco/lab/image"
)

// standIn is an image named in the documents, with the lab's web server in place of its programs. See windows/containers/webserver.
type standIn struct {
	name string
	// build is 0 for all builds of Windows.
	build windowsbuild.Build
	run   v1.ImageConfig
	// programs are paths below drive C: at which the web server is.
	programs []string
}

func standIns() []standIn {
	const (
		own        = "webserver.exe"
		microsoft  = "mcr.microsoft.com/windows/"
		logMonitor = "LogMonitor/LogMonitor.exe"
		// hostProcessImage is Microsoft's base image for HostProcess containers, which has no files.
		hostProcessImage = "mcr.microsoft.com/oss/kubernetes/windows-host-process-containers-base-image:v1.0.0"
	)
	iis := v1.ImageConfig{Entrypoint: []string{WebserverProgram}, Env: []string{"PORT=80"}, WorkingDir: `C:\`}
	shell := v1.ImageConfig{Cmd: []string{"cmd.exe"}, WorkingDir: `C:\`}
	logs := iis
	logs.Entrypoint = []string{`C:\LogMonitor\LogMonitor.exe`, "/CONFIG", `C:\config\logs.json`, WebserverProgram}
	return []standIn{
		{microsoft + "servercore/iis:windowsservercore-ltsc2019", windowsbuild.Server2019, iis, []string{own, "curl.exe"}},
		{microsoft + "servercore/iis:windowsservercore-ltsc2022", windowsbuild.Server2022, iis, []string{own, "curl.exe"}},
		{microsoft + "servercore:ltsc2019", windowsbuild.Server2019, shell, []string{own, "powershell.exe"}},
		{microsoft + "nanoserver:ltsc2022", windowsbuild.Server2022, shell, []string{own}},
		{hostProcessImage, 0, v1.ImageConfig{}, nil},
		{"registry.example.com/iis-with-log-monitor:ltsc2022", windowsbuild.Server2022, logs, []string{own, logMonitor}},
	}
}

// AddStandIns adds the images named in the documents to a registry, in the repositories of a mirror.
func (l *Lab) AddStandIns(ctx context.Context, r *Registry) error {
	content, err := l.cache.content(ctx, webserverProgram())
	if err != nil {
		return err
	}
	for _, s := range standIns() {
		files := map[string]string{}
		for _, path := range s.programs {
			files[path] = content
		}
		var version string
		if s.build != 0 {
			version = fmt.Sprintf("%s.%d", s.build.Label(), Revision)
		}
		i, err := image.NewWindows(version, s.run, files)
		if err != nil {
			return fmt.Errorf("building image %s: %w", s.name, err)
		}
		if err := r.pushAs(ctx, s.name, i); err != nil {
			return err
		}
	}
	return nil
}
