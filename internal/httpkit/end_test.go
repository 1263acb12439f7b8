package httpkit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"testing"

	"github.com/tailrace/tailrace/internal/httpkit"
)

// A write that fails ends the context too, so the reason of the stream is looked for in order.
func TestEndReason(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	drained, drain := context.WithCancelCause(t.Context())
	drain(httpkit.ErrDrained)
	revoked, revoke := context.WithCancelCause(t.Context())
	revoke(httpkit.ErrRevoked)
	for _, c := range []struct {
		ctx   context.Context
		err   error
		want  string
		level slog.Level
	}{
		{t.Context(), nil, httpkit.EndClean, slog.LevelDebug},
		{drained, context.Canceled, httpkit.EndDrain, slog.LevelDebug},
		{revoked, context.Canceled, httpkit.EndRevoke, slog.LevelDebug},
		{t.Context(), httpkit.ErrExpired, httpkit.EndGrant, slog.LevelDebug},
		{t.Context(), httpkit.ErrTooOld, httpkit.EndAge, slog.LevelDebug},
		{gone, fmt.Errorf("write: %w", os.ErrDeadlineExceeded), httpkit.EndSlow, slog.LevelInfo},
		{gone, fmt.Errorf("write: %w", syscall.ETIMEDOUT), httpkit.EndSlow, slog.LevelInfo},
		{gone, errors.New("broken pipe"), httpkit.EndClient, slog.LevelDebug},
		{t.Context(), errors.New("no record"), httpkit.EndError, slog.LevelInfo},
	} {
		if got := httpkit.EndReason(c.ctx, c.err); got != c.want || httpkit.EndLevel(got) != c.level {
			t.Errorf("%v: %s, %s; want %s, %s", c.err, got, httpkit.EndLevel(got), c.want, c.level)
		}
	}
}
