package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
)

// changeDrive has the host's reaper create or remove drive C: of a container, because programs on Wine cannot do this.
func changeDrive(d guestapi.Drive) error {
	request, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encoding a drive: %w", err)
	}
	return callReaper(guestapi.DrivesPort, append(request, '\n'), guestapi.DriveDone)
}

// addressesChanged has the host's reaper assign the addresses of all endpoints, because programs on Wine cannot do this.
func addressesChanged() error {
	return callReaper(guestapi.AddressesPort, nil, guestapi.AddressesDone)
}

// callReaper sends a request to a port of the host's reaper. Any answer but done is an error.
func callReaper(port int, request []byte, done string) error {
	const timeout = 10 * time.Second
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), timeout)
	if err != nil {
		return fmt.Errorf("connecting to the host's reaper: %w", err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(timeout))
	if _, err := conn.Write(request); err != nil {
		return fmt.Errorf("writing to the host's reaper: %w", err)
	}
	answer, err := io.ReadAll(conn)
	if err == nil && string(answer) != done {
		err = errors.New(string(answer))
	}
	return err
}
