package join

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// readFacts runs a program in the home folder to get the facts. If the shell starts in another folder (Set-Location in a PowerShell profile, AutoRun of
// cmd.exe) and does not find the program, readFacts uses the full path that SFTP reports, for this and all later commands.
func (v *Visit) readFacts(ctx context.Context, name string) error {
	err := v.call(ctx, v.commandLine(name, v.factsCommand()), &v.facts)
	noAnswer := (*wicdapi.NoAnswerError)(nil)
	if v.home != "" || !errors.As(err, &noAnswer) || refusal(noAnswer) != "" {
		return err
	}
	path := v.find(ctx, name)
	home, isBelow := strings.CutSuffix(path, name)
	switch {
	case path == "":
		return err
	case !isBelow || !isPlainFolder(home):
		return fmt.Errorf("%w; the program is at %s, and the shell starts in another folder: "+
			"remove the command that changes the folder (Set-Location in a PowerShell profile, or AutoRun of cmd.exe)", err, truncate.Printable(path, truncate.Reported))
	}
	v.home = home
	retryErr := v.call(ctx, v.commandLine(name, v.factsCommand()), &v.facts)
	if errors.As(retryErr, &noAnswer) {
		v.home = "" // the folder was not the cause
		return err
	}
	return retryErr
}

// find returns the full path of a file in the home folder; empty if the file does not exist or SFTP does not report it.
func (v *Visit) find(ctx context.Context, name string) (path string) {
	err := v.host.Files(ctx, func(f wicdapi.Files) error {
		found, err := f.Exists(name)
		if err != nil || !found {
			return err
		}
		path, err = f.Path(name)
		return err
	})
	if err != nil {
		return ""
	}
	return path
}

// isPlainFolder reports whether a folder name, with a trailing backslash, needs no quotes in any of the shells.
func isPlainFolder(folder string) bool {
	return len(folder) <= truncate.Reported && regexp.MustCompile(`^[A-Za-z]:\\([A-Za-z0-9._-]+\\)+$`).MatchString(folder)
}
