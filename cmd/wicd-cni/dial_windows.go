package main

import (
	"context"
	"net"

	"github.com/windows-machine-config/wmco/internal/node/policypipe"
	"github.com/windows-machine-config/wmco/internal/node/win/pipe"
)

func dial(ctx context.Context) (net.Conn, error) { return pipe.DialOwned(ctx, policypipe.Name) }
