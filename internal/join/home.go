package join

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// ask has a program that is in the home folder tell the facts. A shell that begins elsewhere, by Set-Location in a profile of PowerShell or by
// AutoRun of cmd.exe, does not find it: then it is run by its full name, as SFTP tells it, and so is all that follows.
func (v *Visit) ask(ctx context.Context, name string) error {
	err := v.call(ctx, v.commandLine(name, v.factsCommand()), &v.facts)
	noAnswer := (*agent.NoAnswerError)(nil)
	if v.home != "" || !errors.As(err, &noAnswer) || refusal(noAnswer) != "" {
		return err
	}
	path := v.find(ctx, name)
	home, isBelow := strings.CutSuffix(path, name)
	switch {
	case path == "":
		return err
	case !isBelow || !isPlainFolder(home):
		return fmt.Errorf("%w; it is at %s, where the shell does not find it if it begins in another folder: "+
			"let no profile of PowerShell (Set-Location) and no AutoRun of cmd.exe change the folder", err, shorten.Printable(path, shorten.Reported))
	}
	v.home = home
	again := v.call(ctx, v.commandLine(name, v.factsCommand()), &v.facts)
	if errors.As(again, &noAnswer) {
		v.home = "" // that was not the reason
		return err
	}
	return again
}

// find is the full name of a file in the home folder; empty where there is none, or where SFTP does not tell.
func (v *Visit) find(ctx context.Context, name string) (path string) {
	err := v.host.Files(ctx, func(f agent.Files) error {
		there, err := f.Exists(name)
		if err != nil || !there {
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

// isPlainFolder tells whether a folder, with a backslash at its end, means the same to each shell without quotes.
func isPlainFolder(folder string) bool {
	return len(folder) <= shorten.Reported && regexp.MustCompile(`^[A-Za-z]:\\([A-Za-z0-9._-]+\\)+$`).MatchString(folder)
}
