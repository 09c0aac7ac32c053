//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

const (
	prometheusProgram = "/usr/bin/prometheus"
	promtoolProgram   = "/usr/bin/promtool"
	// prometheusConfig is the file with its configuration.
	prometheusConfig = "prometheus.yml"
)

// CanRunPrometheus returns an error if this machine cannot run Prometheus.
func CanRunPrometheus() error {
	return errors.Join(findService(prometheusProgram, "prometheus"), findService(promtoolProgram, "prometheus"))
}

// A Prometheus is Debian's prometheus, on the lab's address.
type Prometheus struct {
	*service
	promv1.API
}

// PrometheusFiles are the files of a Prometheus by their names, which have no folders. Prometheus sees them in PrometheusFolder.
type PrometheusFiles map[string][]byte

// PrometheusFolder is the folder of its files as Prometheus sees it.
const PrometheusFolder = hostspec.ServiceFolder

// StartPrometheus starts a Prometheus with a configuration and the files that it names. It ends with the lab.
func (l *Lab) StartPrometheus(ctx context.Context, config []byte, files PrometheusFiles) (*Prometheus, error) {
	p, err := l.newPrometheus(ctx, config, files)
	if err != nil {
		return nil, fmt.Errorf("preparing Prometheus: %w", err)
	}
	return p, p.Start(ctx)
}

func (l *Lab) newPrometheus(ctx context.Context, config []byte, files PrometheusFiles) (*Prometheus, error) {
	if err := l.prepareServices(ctx); err != nil {
		return nil, err
	}
	port, err := FreePort(l.Address())
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort(l.Address(), strconv.Itoa(port))
	client, err := api.NewClient(api.Config{Address: "http://" + address})
	if err != nil {
		return nil, err
	}
	p := &Prometheus{API: promv1.NewAPI(client)}
	if p.service, err = l.newService(prometheusProgram); err != nil {
		return nil, err
	}
	p.command = []string{
		"--config.file=" + PrometheusFolder + "/" + prometheusConfig, "--storage.tsdb.path=" + PrometheusFolder + "/data",
		"--web.listen-address=" + address, "--log.level=warn",
	}
	p.answers = func(ctx context.Context) error {
		_, err := p.Buildinfo(ctx) // fails with 503 until it is ready
		return err
	}
	if err := p.write(files); err != nil {
		return nil, err
	}
	return p, p.write(map[string][]byte{prometheusConfig: config})
}

// Folder returns the folder of its files on this machine.
func (p *Prometheus) Folder() string { return p.folder.Path }

// Evaluate evaluates an expression now. The result is empty if no series match.
func (p *Prometheus) Evaluate(ctx context.Context, expression string) (model.Vector, error) {
	result, _, err := p.Query(ctx, expression, time.Time{})
	if err != nil {
		return nil, fmt.Errorf("evaluating %s: %w", expression, err)
	}
	switch v := result.(type) {
	case model.Vector:
		return v, nil
	case *model.Scalar:
		return model.Vector{{Value: v.Value, Timestamp: v.Timestamp}}, nil
	}
	return nil, fmt.Errorf("evaluating %s: the result is a %s", expression, result.Type())
}

// Promtool runs promtool in a folder with these files.
func Promtool(ctx context.Context, files map[string][]byte, args ...string) error {
	dir, err := os.MkdirTemp("", "wmco-promtool-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	command := exec.CommandContext(ctx, promtoolProgram, args...)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("promtool %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
