package policycni

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Variables of the environment with which the tests run their own program as a plugin.
const (
	// socket is the address of WICD.
	socket = "POLICYCNI_TEST_SOCKET"
	// output is what the plugin before wicd-cni prints on ADD.
	output = "POLICYCNI_TEST_OUTPUT"
	// calls is the file with a line for each call of that plugin.
	calls = "POLICYCNI_TEST_CALLS"
)

// TestMain is the tests, wicd-cni, or the plugin before it, by the name of the program.
func TestMain(m *testing.M) {
	switch name := filepath.Base(os.Args[0]); name {
	case "wicd-cni":
		os.Exit(Main(func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", os.Getenv(socket))
		}))
	case "connects":
		os.Exit(connects())
	default:
		os.Exit(m.Run())
	}
}

// connects is a plugin that connects pods.
func connects() int {
	command := os.Getenv("CNI_COMMAND")
	var conf map[string]any
	if err := json.NewDecoder(os.Stdin).Decode(&conf); err != nil {
		return 1
	}
	f, err := os.OpenFile(os.Getenv(calls), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 1
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, command, conf["name"], os.Getenv("CNI_CONTAINERID")); err != nil {
		return 1
	}
	if command == "ADD" {
		fmt.Println(strings.TrimSpace(os.Getenv(output)))
	}
	return 0
}
