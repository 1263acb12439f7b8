package jsclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
)

// NoStorageTimeout is the retry budget of a write that the server refuses for lack of storage. It covers a limit that is exceeded for a moment; a full store
// does not get space within the usual budget.
const NoStorageTimeout = 2 * time.Second

// IsNoStorage reports whether the server refused a message because a limit of the stream, of the account or of the server is reached, or CheckStorage found
// that it cannot write.
func IsNoStorage(err error) bool {
	if errors.Is(err, chunk.ErrNoStorage) {
		return true
	}
	api, ok := errors.AsType[*jetstream.APIError](err)
	if !ok {
		return false
	}
	switch api.ErrorCode {
	case codeAccountLimit, codeInsufficient, codeNoMemory, codeNoStorage:
		return true
	case codeStoreFailed: // also the response to a message that is too large for the store
		return strings.HasPrefix(api.Description, "maximum ")
	}
	return false
}

// NoStorage returns err as a chunk.ErrNoStorage if it is one of IsNoStorage, otherwise unchanged.
func NoStorage(err error) error {
	if !IsNoStorage(err) || errors.Is(err, chunk.ErrNoStorage) {
		return err
	}
	return fmt.Errorf("%w: %w", chunk.ErrNoStorage, err)
}

// WriteError is the chunk.ErrNoStorage of a stream whose server has failed to write its files, for example because the disk was full. A single server then
// refuses all writes to that stream, without a response, until it is restarted; of a replicated stream another server takes over.
type WriteError struct {
	Stream string
	Cause  error // the text of the server
}

func (e *WriteError) Error() string {
	return fmt.Sprintf("stream %s: %v: %v", e.Stream, chunk.ErrNoStorage, e.Cause)
}

// Is makes a WriteError a chunk.ErrNoStorage.
func (e *WriteError) Is(target error) bool { return target == chunk.ErrNoStorage }

// Unwrap returns the error of the server.
func (e *WriteError) Unwrap() error { return e.Cause }

// WriteFailed returns a *WriteError if the server of a stream has failed to write its files, nil if it has not, or another error if there is no response.
//
// It asks the server to purge a subject without messages. The server checks for an earlier write error first; a publish gets no response then. filter is
// any filter of the stream. Only a user that may purge the stream can ask: the first attempt of another one returns a nats.ErrPermissionViolation, and
// further ones return it without a request, because each would be an error of the connection and would wait for a response.
func (c *Client) WriteFailed(ctx context.Context, stream, filter string) error {
	if denied, ok := c.unpurgeable.Load(stream); ok {
		return denied.(error) //nolint:errcheck,forcetypeassert // the map has only errors
	}
	// A bound of 1 is a purge of nothing, to which the server responds without the check.
	_, err := c.Purge(ctx, stream, ProbeSubject(filter), 2)
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == codePurgeFailed {
		return &WriteError{Stream: stream, Cause: errors.New(api.Description)}
	}
	if errors.Is(err, nats.ErrPermissionViolation) {
		c.unpurgeable.Store(stream, err)
	}
	return err
}

// probeSize is the size in bytes of the message of CheckStorage: that of a usual record.
const probeSize = 4 << 10

// CheckStorage returns nil if the server would store a usual message of a filter of the stream, a chunk.ErrNoStorage if it would not, or another error if there is
// no response. It is CheckSpace, and WriteFailed for a stream without replicas that can be purged: a server with a write error gives up the lead of a replicated stream by itself.
func (c *Client) CheckStorage(ctx context.Context, stream, filter string) error {
	cfg, err := c.checkSpace(ctx, stream, filter)
	if err != nil || cfg.Replicas > 1 || cfg.DenyPurge {
		return err
	}
	return c.WriteFailed(ctx, stream, filter)
}

// CheckSpace is the part of CheckStorage that a user may ask who may not purge the stream. It stores nothing, so that readers find no message and no gap: it
// sends a message with an invalid header, which the server checks after the limits of the account and its own, and compares the limit of the stream.
func (c *Client) CheckSpace(ctx context.Context, stream, filter string) error {
	_, err := c.checkSpace(ctx, stream, filter)
	return err
}

func (c *Client) checkSpace(ctx context.Context, stream, filter string) (cfg jetstream.StreamConfig, err error) {
	info, err := c.info(ctx, stream, "", 0)
	if err != nil {
		return cfg, err
	}
	if limit := info.Config.MaxBytes; limit > 0 && info.Config.Discard == jetstream.DiscardNew && info.State.Bytes+probeSize > uint64(limit) {
		return cfg, fmt.Errorf("stream %s: %w: %d of %d bytes in use", stream, chunk.ErrNoStorage, info.State.Bytes, limit)
	}
	msg := nats.NewMsg(c.PublishSubject(ProbeSubject(filter)))
	msg.Data = make([]byte, probeSize)
	msg.Header.Set(jetstream.MsgTTLHeader, "none") // neither a duration nor "never"
	before := c.nc.LastError()
	response, err := c.nc.RequestMsgWithContext(ctx, msg)
	if err != nil {
		return cfg, denial(c.nc, msg.Subject, before, err)
	}
	if err := publishError(response.Data); IsNoStorage(err) {
		return cfg, fmt.Errorf("stream %s: %w", stream, NoStorage(err))
	}
	return info.Config, nil
}

// ProbeSubject returns the subject of the message of CheckStorage: a subject that matches a filter and that no message of this project has, because no name contains a tilde.
func ProbeSubject(filter string) string {
	tokens := strings.Split(filter, ".")
	for i, token := range tokens {
		if token == "*" || i == len(tokens)-1 {
			tokens[i] = "~"
		}
	}
	return strings.Join(tokens, ".")
}

// publishError returns the error in the response to a publish, nil for none.
func publishError(response []byte) error {
	var refused failure
	switch err := json.Unmarshal(response, &refused); {
	case err != nil:
		return fmt.Errorf("%w: %.100q", ErrBadResponse, response)
	case refused.Error != nil:
		return refused.Error
	}
	return nil
}
