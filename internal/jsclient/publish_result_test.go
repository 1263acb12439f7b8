package jsclient

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
)

func TestResultOf(t *testing.T) {
	for code, want := range map[jetstream.ErrorCode]PublishResult{
		10071: Conflict,
		10164: Busy, 10158: Busy,
		10002: NotStored, 10023: NotStored, 10028: NotStored, 10047: NotStored, 10077: NotStored, 10167: NotStored,
		10054: Refused, 10097: Refused,
		10109: Closed, 10060: Closed,
		10008: Unknown, 10163: Unknown, 19999: Unknown,
	} {
		if got := ResultOf(fmt.Errorf("wrapped: %w", &jetstream.APIError{Code: 400, ErrorCode: code})); got != want {
			t.Errorf("code %d: %d, want %d", code, got, want)
		}
	}
	for _, c := range []struct {
		err  error
		want PublishResult
	}{
		{nil, Stored},
		{ErrConflict, Conflict},
		{ErrNotConnected, NotStored},
		{nats.ErrNoResponders, NotStored},
		{jetstream.ErrNoStreamResponse, NotStored},
		{nats.ErrReconnectBufExceeded, NotStored},
		{nats.ErrConnectionClosed, Closed},
		{nats.ErrConnectionDraining, Closed},
		{nats.ErrPermissionViolation, Closed},
		{nats.ErrMaxPayload, Refused},
		{chunk.ErrTooLarge, Refused},
		{chunk.ErrInvalid, Refused},
		{nats.ErrTimeout, Unknown},
		{nats.ErrDisconnected, Unknown},
		{context.DeadlineExceeded, Unknown},
		{ErrBadResponse, Unknown},
	} {
		if got := ResultOf(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

func TestFinal(t *testing.T) {
	for status, want := range map[int]bool{0: false, 400: true, 403: true, 404: true, 408: false, 429: false, 499: true, 500: false, 503: false} {
		if got := Final(fmt.Errorf("wrapped: %w", &jetstream.APIError{Code: status, ErrorCode: 19999})); got != want {
			t.Errorf("status %d: %t, want %t", status, got, want)
		}
	}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{ErrNotFound, true},
		{ErrConflict, true},
		{jetstream.ErrStreamNotFound, true},
		{nats.ErrConnectionClosed, true},
		{nats.ErrPermissionViolation, true},
		{nats.ErrInvalidConnection, true},
		{jetstream.ErrNoStreamResponse, false},
		{nats.ErrNoResponders, false},
		{nats.ErrDisconnected, false},
		{context.DeadlineExceeded, false},
		{errors.New("other"), false},
	} {
		if got := Final(c.err); got != c.want {
			t.Errorf("%v: %t, want %t", c.err, got, c.want)
		}
	}
}

func TestIsTooLarge(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&jetstream.APIError{ErrorCode: 10054}, true},
		{&jetstream.APIError{ErrorCode: 10097}, true},
		{nats.ErrMaxPayload, true},
		{&jetstream.APIError{ErrorCode: 10047}, false},
		{nats.ErrTimeout, false},
	} {
		if got := IsTooLarge(c.err); got != c.want {
			t.Errorf("%v: %t, want %t", c.err, got, c.want)
		}
	}
}
