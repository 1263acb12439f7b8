package httpkit

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"syscall"
)

// Why a stream ended, as a label of metrics.
const (
	EndClean  = "end"    // it is complete
	EndClient = "client" // the client disconnected
	EndSlow   = "slow"   // the client accepted no data for the write timeout
	EndDrain  = "drain"
	EndGrant  = "expired" // the credential of the client expires
	EndRevoke = "revoked" // the credential of the client was revoked
	EndAge    = "age"     // it has reached its largest age
	EndError  = "error"   // the log is unavailable, or has no record to continue with
)

// EndReasons are all reasons.
var EndReasons = []string{EndClean, EndClient, EndSlow, EndDrain, EndGrant, EndRevoke, EndAge, EndError}

// EndReason returns why a stream ended: with err, nil for a complete one, and with the context that Drain.Enter returned for it. A write that fails ends the
// context as well, so a slow client is looked for before one that is gone. The kernel may be the first to find it slow (see Listen): it sees that the window
// stays closed, while its own buffer still takes what is written.
func EndReason(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return EndClean
	case errors.Is(err, ErrExpired):
		return EndGrant
	case errors.Is(err, ErrTooOld):
		return EndAge
	case errors.Is(context.Cause(ctx), ErrRevoked):
		return EndRevoke
	case errors.Is(context.Cause(ctx), ErrDrained):
		return EndDrain
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return EndSlow
	case ctx.Err() != nil:
		return EndClient
	}
	return EndError
}

// EndLevel returns Info for reasons that an operator should see.
func EndLevel(reason string) slog.Level {
	if reason == EndSlow || reason == EndError {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}
