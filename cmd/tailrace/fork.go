package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/runs"
	"github.com/tailrace/tailrace/projector/fold"
)

// forkFlags holds the flags of `tailrace fork`.
type forkFlags struct {
	fork    conversation.ForkRequest
	message string
}

func (f *forkFlags) register(flags *flag.FlagSet) {
	flags.StringVar(&f.fork.At, "at", "", "cursor of the point, which is moved back to the last committed step, pause or end of a run, or message of a user")
	flags.StringVar(&f.fork.Before, "before", "", "id of a message of a user: the point before it")
	flags.StringVar(&f.fork.Checkpoint, "checkpoint", "", "id of a checkpoint: the point of it")
	flags.StringVar(&f.fork.Session, "session", "", "id of the fork; by default a function of the other flags")
	flags.StringVar(&f.fork.AgentType, "agent", "", "agent type of the fork; by default that of the session")
	flags.Func("edit", "CALL=JSON or CALL=@FILE: another result of a call; may be repeated", f.edit)
	flags.StringVar(&f.message, "message", "", "a message of a user that the fork answers")
	flags.BoolVar(&f.fork.Continue, "continue", false, "call the agent again after the point, as after an interruption")
}

func (f *forkFlags) edit(text string) error {
	call, value, ok := strings.Cut(text, "=")
	if !ok || call == "" {
		return errors.New("want CALL=JSON or CALL=@FILE")
	}
	if name, isFile := strings.CutPrefix(value, "@"); isFile {
		data, err := os.ReadFile(name) //nolint:gosec // the operator names it
		if err != nil {
			return err
		}
		value = string(data)
	}
	var output chunk.Value
	if err := json.Unmarshal([]byte(value), &output); err != nil {
		return fmt.Errorf("result of %s: %w", call, err)
	}
	f.fork.Edits = append(f.fork.Edits, fold.Edit{CallID: call, Output: output})
	return nil
}

// runFork makes a fork of a session and prints it as JSON.
func runFork(ctx context.Context, t terminal, args []string) error {
	var f forkFlags
	return withSession(ctx, t, natsauth.Edge, "fork", args, f.register, func(b *app, r *projector.Reader, s chunk.Session) error {
		if f.message != "" {
			f.fork.Message = &chunk.InputMessage{Content: f.message}
		}
		head, err := r.Head(ctx, s)
		if err != nil {
			return err
		}
		events, err := jscontrol.NewAudit(b.js, b.cfg.layout())
		if err != nil {
			return err
		}
		service, err := runs.New(b.js, runs.Config{Layout: b.cfg.layout(), Config: conversation.Config{
			AgentTypes: []string{cmp.Or(f.fork.AgentType, head.AgentType)}, Audit: audit.New(audit.Config{Store: events, Mode: audit.Sync, Log: b.log}), Log: b.log,
		}})
		if err != nil {
			return err
		}
		f.fork.Origin = s
		forked, refusal := service.Fork(ctx, f.fork)
		if refusal != nil {
			return fmt.Errorf("session %s: %s", s, refusal)
		}
		return json.NewEncoder(t.out).Encode(forked)
	})
}
