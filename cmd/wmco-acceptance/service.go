package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/windows-machine-config/wmco/internal/node/win/scm"
	"github.com/windows-machine-config/wmco/internal/testing/acceptance"
)

// needsService reports whether a run must survive the session that started it: creating the first pod network drops the session's connection,
// and a session's processes end with it.
func (f flags) needsService() bool {
	return !f.inService && (f.asService || !f.onWine && (f.join || f.networkCutAllowed))
}

// forService returns the command line for the service, whose user, working folder and home differ.
func (f flags) forService(program string) ([]string, error) {
	out, err := filepath.Abs(f.out)
	files, filesErr := filepath.Abs(cmp.Or(f.files, filepath.Join(filepath.Dir(program), "join")))
	home, homeErr := os.UserHomeDir()
	if err := errors.Join(err, filesErr, homeErr); err != nil {
		return nil, err
	}
	args := []string{"--out", out, "--files", files, "--home", cmp.Or(f.home, home), "--user", f.user, "--network", f.network}
	for _, option := range []struct{ name, value string }{{"--only", f.only}, {"--image", f.image}, {"--mirror", f.mirror}} {
		if option.value != "" {
			args = append(args, option.name, option.value)
		}
	}
	if f.imagePort > 0 {
		args = append(args, "--image-port", strconv.FormatUint(uint64(f.imagePort), 10))
	}
	for name, ok := range map[string]bool{
		"--join": f.join, "--on-wine": f.onWine, "--restart-allowed": f.restartAllowed, "--network-cut-allowed": f.networkCutAllowed,
		"--login-allowed": f.loginAllowed, "--updates-allowed": f.updatesAllowed,
	} {
		if ok {
			args = append(args, name)
		}
	}
	return args, nil
}

func serve() error {
	m, err := machine()
	if err != nil {
		return err
	}
	var failure error
	err = scm.Serve(acceptance.ServiceName, func(ctx context.Context) uint32 {
		failure = acceptance.Serve(ctx, m, exitRestarting, run)
		return 0
	})
	if failure != nil {
		err = errors.Join(err, fmt.Errorf("serving: %w", failure))
	}
	return err
}
