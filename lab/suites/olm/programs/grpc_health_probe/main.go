// Command grpc_health_probe checks the health of a server by gRPC's own protocol, as the probes of catalogs do with the program of this name.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	address := flag.String("addr", "", "the server, host:port")
	limit := flag.Duration("rpc-timeout", time.Second, "how long the answer may take")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	if err := probe(ctx, *address); err != nil {
		fmt.Fprintln(os.Stderr, "grpc_health_probe:", err)
		os.Exit(1)
	}
}

func probe(ctx context.Context, address string) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	answer, err := health.NewHealthClient(conn).Check(ctx, &health.HealthCheckRequest{})
	if err == nil && answer.Status != health.HealthCheckResponse_SERVING {
		err = fmt.Errorf("%s is %s", address, answer.Status)
	}
	return err
}
