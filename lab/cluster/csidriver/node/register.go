//go:build windows

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// registrar registers a driver with the kubelet. Like Kubernetes' node-driver-registrar, the program exits if the kubelet
// rejects the driver.
type registrar struct {
	registration.UnimplementedRegistrationServer
	info   *registration.PluginInfo
	failed chan error
}

// GetInfo implements registration.RegistrationServer.
func (r registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return r.info, nil
}

// NotifyRegistrationStatus implements registration.RegistrationServer.
func (r registrar) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !s.PluginRegistered {
		r.failed <- errors.New("the kubelet rejected the driver: " + s.Error)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// register runs the registrar. It has the flags of node-driver-registrar that manifests use.
func register(args []string) error {
	flags := flag.NewFlagSet("csi-node-driver-registrar", flag.ContinueOnError)
	driver := flags.String("csi-address", "", "the `path` of the driver's socket")
	endpoint := flags.String("kubelet-registration-path", "", "the `path` of the driver's socket for the kubelet")
	folder := flags.String("plugin-registration-path", "", "the `folder` that the kubelet watches")
	_ = flags.Int("v", 0, "ignored")
	if err := flags.Parse(args); err != nil {
		return err
	}
	name, err := driverName(strings.TrimPrefix(*driver, "unix://"))
	if err != nil {
		return err
	}
	socket := filepath.Join(*folder, name+"-reg.sock")
	if err := os.RemoveAll(socket); err != nil {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	r := registrar{failed: make(chan error, 1), info: &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: name, Endpoint: *endpoint, SupportedVersions: []string{"1.0.0"},
	}}
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, r)
	go func() { r.failed <- server.Serve(listener) }()
	return <-r.failed
}

// driverName waits until the driver serves, and returns its name.
func driverName(socket string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	conn, err := grpc.NewClient("passthrough:///driver", grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	info, err := csi.NewIdentityClient(conn).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return "", fmt.Errorf("reading the name of the driver at %s: %w", socket, err)
	}
	return info.GetName(), nil
}
