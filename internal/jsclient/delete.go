package jsclient

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// Purge removes the messages of a subject or filter with a sequence below a bound, and returns their number. A bound of 0 is none.
func (c *Client) Purge(ctx context.Context, stream, filter string, below uint64) (uint64, error) {
	var response struct {
		failure

		Purged uint64 `json:"purged"`
	}
	err := c.request(ctx, "STREAM.PURGE."+stream, struct {
		Filter string `json:"filter"`
		Seq    uint64 `json:"seq,omitempty"`
	}{filter, below}, &response)
	return response.Purged, err
}

// Delete removes one message. It returns ErrNotFound if the message is not in the stream. It does not overwrite the data, which takes eight
// milliseconds less.
func (c *Client) Delete(ctx context.Context, stream string, seq uint64) error {
	var response struct {
		failure

		Success bool `json:"success"`
	}
	err := c.request(ctx, "STREAM.MSG.DELETE."+stream, struct {
		Seq     uint64 `json:"seq"`
		NoErase bool   `json:"no_erase"`
	}{seq, true}, &response)
	refused, ok := errors.AsType[*jetstream.APIError](err)
	switch {
	case ok && refused.ErrorCode == codeSequenceNotFound:
		return ErrNotFound
	case ok && refused.ErrorCode == codeDeleteFailed: // also the response if the message is missing
		if _, missing := c.leader(ctx, stream, query{Seq: seq}); errors.Is(missing, ErrNotFound) {
			return ErrNotFound
		}
	case err == nil && !response.Success:
		return ErrBadResponse
	}
	return err
}
