package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the release build with -ldflags "-X main.version=…".
var version = "dev"

// commit is set in the same way; if empty, builtFrom uses the commit of the Go
// command.
var commit = ""

func runVersion(_ context.Context, t terminal, _ []string) error {
	nats := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/nats-io/nats-server/v2" {
				nats = dep.Version
			}
		}
	}
	_, err := fmt.Fprintf(t.out, "tailrace %s (%s, built-in nats-server %s)\n", version, runtime.Version(), nats)
	return err
}
