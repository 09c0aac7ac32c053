package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/strictjson"
)

// Root is the program's folder on the machine. Only administrators may read or write it.
const Root = `C:\ProgramData\wmco-acceptance`

const (
	journalFile = Root + `\journal.json`
	lockFile    = Root + `\lock`
	// maxJournal is the maximum size of a journal, in bytes. A real one has a few hundred.
	maxJournal = 64 << 10
)

// Kind is the kind of a change.
type Kind string

// The kinds of changes, with the meaning of the change's name.
const (
	kindFolder      Kind = "folder"                      // name below Root
	kindFeature     Kind = "Windows feature"             // name
	kindRules       Kind = "firewall rules"              // group of the rules
	kindExclusion   Kind = "Defender exclusion"          // path
	kindRoute       Kind = "route"                       // destination address
	kindCertificate Kind = "root certificate"            // SHA-256
	kindHostname    Kind = "host name"                   // former name
	kindRestart     Kind = "scheduled restart"           // empty
	kindTests       Kind = "tests"                       // name of the test program
	kindKeys        Kind = "SSH keys"                    // empty
	kindNode        Kind = "node"                        // UID of the cluster
	kindNetworks    Kind = "networks"                    // empty
	kindNamespace   Kind = "network namespace"           // GUID
	kindService     Kind = "temporary service"           // empty
	kindShell       Kind = "default shell of OpenSSH"    // former path; empty for none
	kindPrograms    Kind = "programs in the home folder" // empty
)

// change is one change to the machine.
type change struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name,omitempty"`
}

func (c change) String() string {
	if c.Name == "" {
		return string(c.Kind)
	}
	return string(c.Kind) + " " + c.Name
}

// check refuses changes that no probe makes, because the changes in a journal are undone with administrator rights.
func (c change) check() error {
	names := map[Kind]string{
		kindFolder:      `[a-z]+`,
		kindFeature:     testFeature,
		kindRules:       hostapi.FirewallGroup,
		kindExclusion:   regexp.QuoteMeta(excludedFolder),
		kindRoute:       regexp.QuoteMeta(testRoute),
		kindCertificate: `[0-9a-f]{64}`,
		kindHostname:    `[A-Za-z0-9-]{1,63}`,
		kindRestart:     ``,
		kindTests:       `[a-z]+`,
		kindKeys:        ``,
		kindNode:        `[0-9a-f-]{36}`,
		kindPrograms:    ``,
		kindShell:       `|[A-Za-z]:\\[A-Za-z0-9 ().\\_-]{1,200}`,
		kindService:     ``,
		kindNetworks:    ``,
		kindNamespace:   `[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`,
	}
	pattern, known := names[c.Kind]
	if !known {
		return fmt.Errorf("%q is not a kind of change", c.Kind)
	}
	if !regexp.MustCompile(`^(?:` + pattern + `)$`).MatchString(c.Name) {
		return fmt.Errorf("%q is not the name of a %s that a probe changes", c.Name, c.Kind)
	}
	return nil
}

// journal contains the changes that were not undone yet, oldest first.
type journal struct {
	disk    hostapi.Disk
	changes []change
	// failure is why the journal could not be written. After that, no change is allowed.
	failure error
}

// readJournal reads the journal of an interrupted run. A missing file is treated as an empty journal.
func readJournal(d hostapi.Disk) (*journal, error) {
	j := &journal{disk: d}
	f, err := d.Open(journalFile)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxJournal+1))
	if err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	if j.changes, err = parseJournal(content); err != nil {
		return nil, fmt.Errorf("reading %s: %w: revert the listed changes manually and remove the file", journalFile, err)
	}
	return j, nil
}

func parseJournal(content []byte) ([]change, error) {
	if len(content) > maxJournal {
		return nil, fmt.Errorf("it has more than %d bytes", maxJournal)
	}
	var changes []change
	if err := strictjson.Unmarshal(content, &changes); err != nil {
		return nil, err
	}
	for i, c := range changes {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("change %d: %w", i+1, err)
		}
	}
	return changes, nil
}

// add records a change that is about to be made. A duplicate is ignored.
func (j *journal) add(c change) error {
	if slices.Contains(j.changes, c) {
		return nil
	}
	return j.write(append(slices.Clone(j.changes), c))
}

// remove deletes a change that was undone.
func (j *journal) remove(c change) error {
	return j.write(slices.DeleteFunc(slices.Clone(j.changes), func(other change) bool { return other == c }))
}

func (j *journal) write(changes []change) error {
	text, err := json.MarshalIndent(changes, "", "  ")
	if err == nil {
		_, err = j.disk.WriteFile(journalFile, string(text)+"\n")
	}
	if err != nil {
		j.failure = fmt.Errorf("writing the journal: %w", err)
		return j.failure
	}
	j.changes = changes
	return nil
}
