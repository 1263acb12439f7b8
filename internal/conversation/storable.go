package conversation

import (
	"context"
	"fmt"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/values"
)

// MaxRecord limits the size of a user's input as JSON in its log record: such a record has at most 512 KiB, and the rest is reserved for its other members.
const MaxRecord = 496 << 10

// Accepted input must fit into the log. The queue and the inbox accept more than a record can hold: then the worker could never write the input, and the chat
// would be stuck.

// checkInput returns chunk.ErrInvalid or chunk.ErrTooLarge for an input that no run_started can hold.
func checkInput(c *control.Command) error {
	return fits(c.Session, c.AgentType, chunk.RunStarted{RunID: c.RunID, Epoch: 1, Mode: string(c.Kind), Input: c.Input})
}

// Values stores what is too large for a record. *jsvalues.Store implements it.
type Values interface {
	Put(ctx context.Context, s chunk.Session, k values.Key, mediaType string, data []byte) error

	// Clear removes the bytes of a value.
	Clear(ctx context.Context, s chunk.Session, k values.Key) error
}

// hasLargeFiles reports whether the files of messages have half of the bytes that a record can hold.
func hasLargeFiles(in []chunk.InputMessage) bool {
	size := 0
	for _, m := range in {
		for _, f := range m.Files {
			size += len(f.URL)
		}
	}
	return size >= MaxRecord/2
}

// withoutFiles returns messages in which references are in place of the files that are data URLs. put is called for each of them.
func withoutFiles(s chunk.Session, run string, in []chunk.InputMessage, put func(k values.Key, mediaType string, data []byte) error) ([]chunk.InputMessage, error) {
	in = slices.Clone(in)
	for i := range in {
		in[i].Files = slices.Clone(in[i].Files)
		for j := range in[i].Files {
			f := &in[i].Files[j]
			mediaType, data, ok := values.DataURL(f.URL)
			if !ok || len(data) < values.MinBytes {
				continue
			}
			k := values.UploadKey(run, data)
			if err := put(k, mediaType, data); err != nil {
				return nil, err
			}
			f.URL = values.URL(s, k)
		}
	}
	return in, nil
}

// storeFiles sets the input of a command without the large files, which it stores as uploads. Its worker stores them as values of its run.
func (s *Service) storeFiles(ctx context.Context, c *control.Command) error {
	if s.ports.Values == nil || !hasLargeFiles(c.Input) {
		return nil
	}
	in, err := withoutFiles(c.Session, c.RunID, c.Input, func(k values.Key, mediaType string, data []byte) error {
		return s.ports.Values.Put(ctx, c.Session, k, mediaType, data)
	})
	if err == nil {
		c.Input = in
	}
	return err
}

// clearFiles removes the uploads of a command that no worker gets. A sweep removes what is left.
func (s *Service) clearFiles(ctx context.Context, c *control.Command) {
	for _, m := range c.Input {
		for _, f := range m.Files {
			of, k, ok := values.OfURL(c.Session, f.URL)
			if !ok || s.ports.Values == nil || of != c.Session || k.Type != values.Upload || k.Member != values.UploadsOf(c.RunID) {
				continue
			}
			if err := s.ports.Values.Clear(ctx, of, k); err != nil {
				s.cfg.Log.WarnContext(ctx, "file of a withdrawn message not removed", "session", of.String(), "error", err)
			}
		}
	}
}

// checkAnswer does the same for an answer and the record of its outcome.
func checkAnswer(a *control.Answer) error {
	if a.Kind == control.Approval {
		return fits(a.Session, "agent", chunk.ToolApprovalResponse{ToolCallID: a.CallID, ToolName: a.ToolName, ApprovalID: a.ApprovalID, Reason: &a.Reason})
	}
	return fits(a.Session, "agent", chunk.ToolEnd{ToolCallID: a.CallID, ToolName: a.ToolName, Result: a.Result, Error: &a.Error, ErrorCode: &a.ErrorCode})
}

func fits(s chunk.Session, agentType string, body chunk.Body) error {
	data, err := chunk.Chunk{AgentID: s.ID, AgentType: agentType, Body: body}.AppendJSON(nil)
	if err == nil && len(data) > MaxRecord {
		err = fmt.Errorf("%w: %d bytes of JSON, want at most %d", chunk.ErrTooLarge, len(data), MaxRecord)
	}
	return err
}
