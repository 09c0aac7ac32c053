package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

const (
	// factTimeout limits one fact, factsTimeout all of them, and maxFact the size of one, in bytes.
	factTimeout  = 90 * time.Second
	factsTimeout = 10 * time.Minute
	maxFact      = 512 << 10
)

// Fact is one piece of information from Windows in its original form, collected before the first probe or by a probe. Exactly one of Document, Text
// and Error is set.
type Fact struct {
	Name     string          `json:"name"`
	Document json.RawMessage `json:"document,omitempty"`
	Text     string          `json:"text,omitempty"`
	Error    string          `json:"error,omitempty"`
	Seconds  float64         `json:"seconds"`
}

// query describes how one fact is collected.
type query struct {
	name string
	run  func(ctx context.Context, s *session) (string, error)
}

// collect collects all facts, one by one, and passes the report to report after each.
func (s *session) collect(ctx context.Context, r *Report, report func(Report) error) error {
	s.printf("facts: reading information about Windows; nothing is changed")
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, factsTimeout)
	defer cancel()
	for _, q := range queries() {
		if ctx.Err() != nil {
			break
		}
		r.Facts = append(r.Facts, s.fact(limited, q))
		r.Machine = s.windows()
		if err := report(*r); err != nil {
			return err
		}
	}
	failed := 0
	for _, f := range r.Facts {
		if f.Error != "" {
			failed++
		}
	}
	s.printf("  %d facts collected in %.0f s; %d could not be read", len(r.Facts), time.Since(began).Seconds(), failed)
	return nil
}

// record collects one more fact in the middle of a probe, adds it to the report, and returns it.
func (s *session) record(ctx context.Context, q query) Fact {
	f := s.fact(ctx, q)
	if s.recorded != nil {
		s.recorded(f)
	}
	return f
}

func (s *session) fact(ctx context.Context, q query) Fact {
	ctx, cancel := context.WithTimeout(ctx, factTimeout)
	defer cancel()
	began := time.Now()
	output, err := q.run(ctx, s)
	f := Fact{Name: q.name, Seconds: time.Since(began).Round(time.Millisecond).Seconds()}
	f.Document, f.Text = s.redact.answer(truncate.Text(output, maxFact))
	if err == nil && f.Document == nil && f.Text == "" {
		err = errors.New("Windows returned no output")
	}
	if err != nil {
		f.Error = s.redact.text(truncate.Text(err.Error(), maxSeen))
	}
	return f
}

// program returns a query that a Windows program answers.
func program(name, command string) query {
	return query{name, func(ctx context.Context, s *session) (string, error) { return s.commandOutput(ctx, command) }}
}

// commandOutput runs a Windows program and returns its output. The error contains the program's error output.
func (s *session) commandOutput(ctx context.Context, command string) (string, error) {
	var b bytes.Buffer
	err := s.Host.Programs.Run(ctx, system32+command, nil, &b)
	return b.String(), err
}

// powerShell makes PowerShell print UTF-8, where it is allowed to set that.
const powerShell = `WindowsPowerShell\v1.0\powershell.exe -NoProfile -NonInteractive -Command [Console]::OutputEncoding=[Text.Encoding]::UTF8;`

// powerShell runs a command of PowerShell and returns its output without white space around it.
func (s *session) powerShell(ctx context.Context, command string) (string, error) {
	output, err := s.commandOutput(ctx, powerShell+command)
	return strings.TrimSpace(strings.TrimPrefix(output, "\ufeff")), err
}

// cmdlet returns a query that PowerShell answers with a JSON list of objects, possibly empty, with these fields. The words of command are
// separated by one space and contain no quotation marks.
func cmdlet(name, command string, fields ...string) query {
	if len(fields) > 0 {
		command += " | Select-Object " + strings.Join(fields, ",")
	}
	return program(name, powerShell+"$ErrorActionPreference='Stop';ConvertTo-Json -Depth 4 -Compress -InputObject @("+command+")")
}

// feature returns a query of dism.exe for the state of a feature, as an administrator would.
func feature(name, feature string) query {
	return query{name, func(ctx context.Context, s *session) (string, error) { return s.featureState(ctx, feature) }}
}

// hostFacts returns the facts that WICD reads.
func hostFacts(ctx context.Context, s *session) (string, error) {
	s.facts, s.factsFailure = s.Host.System.Facts(ctx)
	s.redact = newRedactor(s.redact.salt, append(slices.Clone(s.redact.names), s.facts.Hostname, s.facts.Domain)...)
	text, err := json.Marshal(s.facts)
	return string(text), errors.Join(s.factsFailure, err)
}

// serverSettings returns the keywords of sshd_config, with their values where they name no user or host.
func serverSettings(_ context.Context, s *session) (string, error) {
	content, err := s.Host.Disk.Read(sshFolder + `\sshd_config`)
	return sshSettings(string(content), s.redact), err
}

func sshSettings(text string, h *redactor) string {
	naming := regexp.MustCompile(`(?i)^(allow|deny)(users|groups)$|^(match|banner|chrootdirectory|authorizedkeyscommand.*|listenaddress|forcecommand)$`)
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		keyword, value, _ := strings.Cut(line, " ")
		if naming.MatchString(keyword) {
			value = h.name(value)
		}
		fmt.Fprintf(&b, "%s %s\n", keyword, value)
	}
	return b.String()
}

// renameEntry is an entry of PendingFileRenameOperations: the beginning of the path, and whether the file is renamed or deleted.
type renameEntry struct {
	Beginning string `json:"beginning"`
	HasTarget bool   `json:"hasTarget"`
	Count     int    `json:"count"`
}

// pendingRenames reads PendingFileRenameOperations.
func pendingRenames(ctx context.Context, s *session) (string, error) {
	output, err := s.powerShell(ctx,
		"ConvertTo-Json -Compress @((Get-ItemProperty -LiteralPath 'HKLM:\\SYSTEM\\CurrentControlSet\\Control\\Session Manager').PendingFileRenameOperations)")
	if err != nil {
		return "", err
	}
	entries, err := parseRenames(output)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(entries)
	return string(text), err
}

// parseRenames parses the list, which has two strings per file: its path, and its new path or an empty string. An absent list is empty.
func parseRenames(output string) ([]renameEntry, error) {
	var list []*string
	if err := json.Unmarshal([]byte(output), &list); err != nil {
		return nil, fmt.Errorf("reading PendingFileRenameOperations: %w", err)
	}
	entries := []renameEntry{}
	for i := 0; i < len(list); i += 2 {
		if list[i] == nil || *list[i] == "" {
			continue
		}
		e := renameEntry{Beginning: beginning(*list[i]), HasTarget: i+1 < len(list) && list[i+1] != nil && *list[i+1] != ""}
		at := slices.IndexFunc(entries, func(other renameEntry) bool { return other.Beginning == e.Beginning && other.HasTarget == e.HasTarget })
		if at < 0 {
			at, entries = len(entries), append(entries, e)
		}
		entries[at].Count++
	}
	return entries, nil
}

// beginning returns the path up to its second folder.
func beginning(path string) string {
	path = strings.TrimPrefix(strings.TrimLeft(path, "!*0123456789"), `\??\`)
	parts := strings.Split(path, `\`)
	return strings.Join(parts[:min(len(parts), 3)], `\`)
}

// renamesWithTarget returns how many files are renamed at the next start of Windows. known is false if the facts do not include that.
func (r Report) renamesWithTarget() (count int, known bool) {
	i := slices.IndexFunc(r.Facts, func(f Fact) bool { return f.Name == "pending-renames" && f.Error == "" })
	var entries []renameEntry
	if i < 0 || json.Unmarshal(r.Facts[i].Document, &entries) != nil {
		return 0, false
	}
	for _, e := range entries {
		if e.HasTarget {
			count += e.Count
		}
	}
	return count, true
}

// queries returns all queries, the most informative ones first.
func queries() []query {
	return slices.Concat([]query{
		{"windows", hostFacts},
		feature("dism-containers", desired.ContainersFeature),
		feature("dism-hyperv", desired.HyperVFeature),
	}, windowsQueries(), networkQueries(), protectionQueries())
}

// hnsDocuments returns all objects of the Host Network Service, unmodified.
func hnsDocuments(ctx context.Context, s *session) (string, error) {
	service, ok := s.Host.Networks.(documenter)
	if !ok {
		return "", errors.New("this Host Network Service returns no documents")
	}
	documents, err := service.Documents(ctx)
	return string(documents), err
}

// documenter is a Host Network Service that returns its objects as JSON documents.
type documenter interface {
	// Documents returns all objects of both generations of the API as JSON.
	Documents(ctx context.Context) (json.RawMessage, error)
}
