package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/internal/topology"
)

// A process that is stopped exits without an error, also if an attempt to reach NATS times out at the same moment.
func TestStopWhileNATSIsUnavailable(t *testing.T) {
	for _, timeout := range []error{context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoServers} {
		ctx, stop := context.WithCancel(t.Context())
		b := &app{log: slog.New(slog.DiscardHandler)}
		err := b.waitForNATS(ctx, func(context.Context) error {
			stop()
			return timeout
		})
		if err := ignoreCanceled(ctx, err); err != nil {
			t.Errorf("%v: error %v, want none", timeout, err)
		}
	}
}

// What retries cannot change is returned at once, also by a process that stops.
func TestAnotherConfigurationEndsTheProcess(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	difference := &topology.DiffError{}
	b := &app{log: slog.New(slog.DiscardHandler)}
	err := b.waitForNATS(ctx, func(context.Context) error {
		stop()
		return difference
	})
	if !errors.Is(ignoreCanceled(ctx, err), difference) {
		t.Errorf("error %v, want the difference", err)
	}
}
