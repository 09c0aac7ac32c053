//go:build linux

package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/windows-machine-config/wmco/lab/hostspec"
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
	address string
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
	p := &Prometheus{address: net.JoinHostPort(l.Address(), strconv.Itoa(port))}
	if p.service, err = l.newService(prometheusProgram); err != nil {
		return nil, err
	}
	p.command = []string{
		"--config.file=" + PrometheusFolder + "/" + prometheusConfig, "--storage.tsdb.path=" + PrometheusFolder + "/data",
		"--web.listen-address=" + p.address, "--web.enable-lifecycle", "--log.level=warn",
	}
	p.answers = func(ctx context.Context) error { return p.call(ctx, http.MethodGet, "/-/ready", nil) }
	if err := p.write(files); err != nil {
		return nil, err
	}
	return p, p.write(map[string][]byte{prometheusConfig: config})
}

// Reload replaces the configuration.
func (p *Prometheus) Reload(ctx context.Context, config []byte) error {
	if err := p.write(map[string][]byte{prometheusConfig: config}); err != nil {
		return err
	}
	if err := p.call(ctx, http.MethodPost, "/-/reload", nil); err != nil {
		return fmt.Errorf("loading another configuration: %w", err)
	}
	return nil
}

// WriteFile writes one of its files, which Prometheus reads when it changes.
func (p *Prometheus) WriteFile(name string, content []byte) error {
	beside := p.path(name + ".new")
	if err := os.WriteFile(beside, content, 0o600); err != nil {
		return err
	}
	return os.Rename(beside, p.path(name))
}

// Folder is the folder of its files in this machine.
func (p *Prometheus) Folder() string { return p.folder.Path }

// Sample is a series with its newest value.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Query evaluates an expression now. The result is empty if no series match.
func (p *Prometheus) Query(ctx context.Context, expression string) ([]Sample, error) {
	var data struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	}
	if err := p.get(ctx, "/api/v1/query", url.Values{"query": {expression}}, &data); err != nil {
		return nil, fmt.Errorf("evaluating %s: %w", expression, err)
	}
	type series struct {
		Metric map[string]string `json:"metric"`
		Value  value             `json:"value"`
	}
	var all []series
	var err error
	if data.ResultType == "vector" {
		err = json.Unmarshal(data.Result, &all)
	} else {
		all = make([]series, 1)
		err = json.Unmarshal(data.Result, &all[0].Value)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the result of %s: %w", expression, err)
	}
	var samples []Sample
	for _, s := range all {
		samples = append(samples, Sample{s.Metric, float64(s.Value)})
	}
	return samples, nil
}

// value is a sample's value as the API writes it: [time, "value"].
type value float64

// UnmarshalJSON implements json.Unmarshaler.
func (v *value) UnmarshalJSON(text []byte) error {
	var at float64
	var number string
	if err := json.Unmarshal(text, &[]any{&at, &number}); err != nil {
		return err
	}
	f, err := strconv.ParseFloat(number, 64)
	*v = value(f)
	return err
}

// Target is an endpoint that Prometheus scrapes.
type Target struct {
	Labels map[string]string `json:"labels"`
	URL    string            `json:"scrapeUrl"`
	// Health is up, down or unknown; LastError is the reason why it is down.
	Health    string  `json:"health"`
	LastError string  `json:"lastError"`
	Seconds   float64 `json:"lastScrapeDuration"`
}

// Targets are all endpoints that Prometheus scrapes.
func (p *Prometheus) Targets(ctx context.Context) ([]Target, error) {
	var data struct{ ActiveTargets []Target }
	err := p.get(ctx, "/api/v1/targets", url.Values{"state": {"active"}}, &data)
	return data.ActiveTargets, err
}

// Alert is an alert that is pending or firing.
type Alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	State       string            `json:"state"`
}

// Alerts are the alerts that are pending or firing.
func (p *Prometheus) Alerts(ctx context.Context) ([]Alert, error) {
	var data struct{ Alerts []Alert }
	err := p.get(ctx, "/api/v1/alerts", nil, &data)
	return data.Alerts, err
}

// RuleState is the last evaluation of a rule.
type RuleState struct {
	Name      string `json:"name"`
	Health    string `json:"health"`
	LastError string `json:"lastError"`
}

// Rules are all rules that Prometheus has.
func (p *Prometheus) Rules(ctx context.Context) ([]RuleState, error) {
	var data struct{ Groups []struct{ Rules []RuleState } }
	err := p.get(ctx, "/api/v1/rules", nil, &data)
	var all []RuleState
	for _, g := range data.Groups {
		all = append(all, g.Rules...)
	}
	return all, err
}

func (p *Prometheus) get(ctx context.Context, path string, query url.Values, data any) error {
	return p.call(ctx, http.MethodGet, path+"?"+query.Encode(), &struct{ Data any }{data})
}

func (p *Prometheus) call(ctx context.Context, method, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+p.address+path, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(text, into)
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
